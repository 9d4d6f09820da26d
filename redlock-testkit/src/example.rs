//! The surroundings of an example in the documentation of `redlock-core` and of this crate, in one hidden line.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use redlock_core::Redlock;

use crate::faulty::{FakeNode, fake_redlock_on};
use crate::memory::MemoryNode;
use crate::sim::{Process, Simulation};

/// Runs the body of an example in simulated time, over fake nodes.
///
/// The names that precede the body are methods of [`Example`].
#[doc(hidden)]
#[macro_export]
macro_rules! example {
    (|$($name:ident),*| $body:block) => {{
        #[allow(unused_imports)] // few examples use all of them
        use $crate::example::names::*;
        let example = $crate::example::Example::new(&[$(stringify!($name)),*]);
        $(
            #[allow(unused_variables)] // an example may show only the creation
            let $name = example.$name();
        )*
        example.run(async move {
            let _ = $body;
            Ok(())
        });
    }};
}

/// The names that an example can use without an import.
pub mod names {
    pub use std::ops::ControlFlow;
    pub use std::sync::Arc;
    pub use std::time::Duration;

    pub use redlock_core::node::*;
    pub use redlock_core::runtime::*;
    pub use redlock_core::*;

    pub use crate::{FakeNode, Fault, Faulty, MemoryNode, fake_nodes, fake_redlock, fake_redlock_on, sim};
}

/// A simulated program with nodes, for one example.
pub struct Example {
    simulation: Simulation,
    service: Process,
    redlock: Redlock,
    nodes: Vec<FakeNode>,
}

impl Example {
    /// Creates one node if the example names a single one, and otherwise three.
    pub fn new(names: &[&str]) -> Self {
        let simulation = Simulation::new(42);
        let service = simulation.process("service");
        let is_single = names.iter().any(|name| ["node", "faulty"].contains(name));
        let (redlock, nodes) = fake_redlock_on(if is_single { 1 } else { 3 }, service.runtime());
        Self { simulation, service, redlock, nodes }
    }

    /// Returns the program, for its time and its tasks.
    pub fn service(&self) -> Process {
        self.service.clone()
    }

    /// Returns a `Redlock` over the nodes.
    pub fn redlock(&self) -> Redlock {
        self.redlock.clone()
    }

    /// Returns all nodes.
    pub fn nodes(&self) -> Vec<FakeNode> {
        self.nodes.clone()
    }

    /// Returns the single node, for its faults.
    pub fn faulty(&self) -> FakeNode {
        self.nodes[0].clone()
    }

    /// Returns the single node, for its data.
    pub fn node(&self) -> MemoryNode {
        self.nodes[0].inner().clone()
    }

    /// Returns a usual TTL.
    pub fn ttl(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Runs the example.
    ///
    /// # Panics
    ///
    /// Panics if it fails.
    pub fn run(self, body: impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send + 'static) {
        let outcome = self.simulation.block_on(&self.service, body);
        outcome.unwrap_or_else(|error| panic!("the example fails: {error}"));
    }
}
