//! A holder for the tests of several processes, through this adapter.
#![allow(clippy::print_stdout)] // its report

use redlock_fred as adapter;

include!("../../tests/examples/hold.rs");
