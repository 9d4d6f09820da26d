//! For tests of locks.
mod faulty;
mod memory;
pub mod sim;
mod threads;

pub use crate::faulty::{FakeNode, Fault, Faulty, Operation, fake_nodes};
pub use crate::memory::MemoryNode;
pub use crate::threads::{ThreadRuntime, block_on};
