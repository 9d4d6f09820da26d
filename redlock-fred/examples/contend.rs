//! A holder for the contention test and `scripts/contend`, through this adapter.

use redlock_fred as adapter;

include!("../../tests/examples/contend.rs");
