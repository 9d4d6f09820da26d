//! `redlock run` needs process groups and signals of Unix.

#[path = "timing.rs"]
mod timing;
