//! What the library promises, on real servers, through this adapter.

use redlock_fred as adapter;

#[path = "../../tests/servers/mod.rs"]
mod servers;
