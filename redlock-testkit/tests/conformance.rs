//! The conformance suite on the nodes of this crate.
//!
//! It runs in real time, in paused time, on several threads, and behind `Faulty`.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redlock_core::node::LockNode;
use redlock_core::runtime::Runtime;
use redlock_core::{Resource, TokioRuntime};
use redlock_testkit::conformance::Backend;
use redlock_testkit::{FakeNode, Faulty, MemoryNode};
use tokio::runtime::{Builder, Runtime as Tokio};

/// A server whose clients are clones of one node.
struct InMemory<N> {
    node: N,
    memory: MemoryNode,
    tokio: Option<Tokio>,
}

impl<N: LockNode + Clone> Backend for InMemory<N> {
    async fn node(&self) -> Arc<dyn LockNode> {
        Arc::new(self.node.clone())
    }

    async fn no_lock(&self) -> Option<Resource> {
        self.memory.set_non_lock_value("no lock");
        Resource::new("no lock").ok()
    }

    fn loss(&self) -> Option<Box<dyn Fn()>> {
        let memory = self.memory.clone();
        Some(Box::new(move || memory.flush()))
    }

    fn clock(&self) -> Option<Box<dyn Fn(Duration)>> {
        let memory = self.memory.clone();
        Some(Box::new(move |forward| memory.step_clock(forward)))
    }

    fn block_on(&self, case: impl Future<Output = ()>) {
        match &self.tokio {
            Some(tokio) => tokio.block_on(case),
            None => redlock_testkit::block_on(case),
        }
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        match &self.tokio {
            Some(_) => Arc::new(TokioRuntime::new()),
            None => Arc::new(redlock_testkit::ThreadRuntime),
        }
    }
}

fn on_machine_time() -> InMemory<MemoryNode> {
    let memory = MemoryNode::new("memory");
    InMemory { node: memory.clone(), memory, tokio: None }
}

fn on_paused_time() -> InMemory<MemoryNode> {
    let memory = MemoryNode::with_runtime("memory", Arc::new(TokioRuntime::new()));
    let tokio = Builder::new_current_thread().enable_time().start_paused(true).build();
    InMemory { node: memory.clone(), memory, tokio: Some(tokio.expect("tokio starts")) }
}

fn on_several_threads() -> InMemory<MemoryNode> {
    let memory = MemoryNode::new("memory");
    let tokio = Builder::new_multi_thread().worker_threads(2).enable_time().build();
    InMemory { node: memory.clone(), memory, tokio: Some(tokio.expect("tokio starts")) }
}

fn behind_faults() -> InMemory<FakeNode> {
    let InMemory { memory, tokio, .. } = on_paused_time();
    let node = Faulty::wrap(memory.clone(), Arc::new(TokioRuntime::new()));
    InMemory { node, memory, tokio }
}

fn behind_faults_in_order() -> InMemory<FakeNode> {
    let unordered = behind_faults();
    InMemory { node: unordered.node.ordered(), ..unordered }
}

fn with_restart_admission() -> InMemory<FakeNode> {
    let node = behind_faults_in_order();
    node.memory.set_longest_ttl(Duration::from_secs(10));
    node
}

mod memory {
    redlock_testkit::conformance!(super::on_machine_time(), without: [admission]);
}

mod memory_with_restart_admission {
    redlock_testkit::conformance!(super::with_restart_admission(), without: [watch]);
}

mod paused {
    redlock_testkit::conformance!(super::on_paused_time(), without: [admission]);
}

mod threads {
    redlock_testkit::conformance!(super::on_several_threads(), without: [admission]);
}

mod faulty {
    redlock_testkit::conformance!(super::behind_faults(), without: [watch, admission]);
}

mod ordered {
    redlock_testkit::conformance!(super::behind_faults_in_order(), without: [watch, admission]);
}
