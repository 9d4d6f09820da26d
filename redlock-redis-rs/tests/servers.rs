//! What the library promises, on real servers, through this adapter.

use redlock_redis_rs as adapter;

#[path = "../../tests/servers/mod.rs"]
mod servers;
