//! The command on real servers. No test asserts a duration: tests compare timestamps of one clock to check an order.

#![cfg(target_os = "linux")]
// A test fails by a panic, in helpers too.
#![allow(clippy::unwrap_used)]

mod admission;
mod change;
mod codes;
mod cold;
mod common;
mod cron;
mod handles;
mod loss;
mod recipes;
mod secrets;
mod shared;
mod signals;
mod slots;
mod terminal;
mod tree;
mod watch;
