//! A holder for the tests of fencing tokens and `scripts/contend --fenced`, through this adapter.
#![allow(clippy::print_stdout)] // its report

use redlock_redis_rs as adapter;

include!("../../tests/examples/grants.rs");
