//! For tests of locks.
#[cfg(all(feature = "server", not(unix)))]
compile_error!("the feature `server` of redlock-testkit starts, stops and kills processes as Unix does");

pub mod conformance;
mod faulty;
mod memory;
#[cfg(all(feature = "server", unix))]
mod server;
pub mod sim;
mod threads;

pub use crate::faulty::{FakeNode, Fault, Faulty, Operation, fake_nodes};
pub use crate::memory::MemoryNode;
#[cfg(all(feature = "server", unix))]
pub use crate::server::{Console, RedisServer, RedisServerBuilder, Reply};
pub use crate::threads::{ThreadRuntime, block_on};
