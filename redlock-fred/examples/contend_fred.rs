//! A holder for the contention test and `scripts/contend`, through this adapter.
#![allow(clippy::print_stdout)] // its report

use redlock_fred as adapter;

include!("../../tests/examples/contend.rs");
