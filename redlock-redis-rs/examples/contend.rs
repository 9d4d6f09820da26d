//! A holder for the contention test and `scripts/contend`, through this adapter.

use redlock_redis_rs as adapter;

include!("../../tests/examples/contend.rs");
