//! A simulated program and the fake nodes it locks on, in virtual time. Every run is the same.

pub(crate) mod recording;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redlock_core::node::{Begun, Claim, LockNode, NodeError, Request, Token};
use redlock_core::runtime::Runtime;
use redlock_core::{Builder, Error, ErrorKind, Guard, IntoResources, Outcome, Redlock};
use redlock_testkit::sim::{Process, Simulation};
use redlock_testkit::{FakeNode, MemoryNode, Operation};
use tracing::subscriber::{self, DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Subscriber};

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_millis(200);
pub(crate) const MS: Duration = Duration::from_millis(1);

/// The environment of a test.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) process: Process,
    pub(crate) nodes: Vec<FakeNode>,
    pub(crate) redlock: Redlock,
}

/// Runs a test on fake nodes, each of which `change` has changed.
pub(crate) fn with_changed<F, T>(
    count: usize,
    change: impl Fn(FakeNode) -> FakeNode,
    test: impl FnOnce(World) -> F,
) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    // This is far more than any test needs. It stops a hot loop before the memory is exhausted.
    let simulation = Simulation::new(1).max_polls(1_000_000);
    let process = simulation.process("client");
    let node = |number| change(FakeNode::new(format!("fake-{number}"), process.runtime()));
    let nodes: Vec<_> = (0..count).map(node).collect();
    let redlock = builder(&process, &nodes).build().unwrap();
    simulation.block_on(&process.clone(), test(World { process, nodes, redlock }))
}

/// Runs a test on `count` fake nodes.
pub(crate) fn with_nodes<F, T>(count: usize, test: impl FnOnce(World) -> F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    with_changed(count, |node| node, test)
}

/// Runs a test on five fake nodes that notify waiters.
pub(crate) fn with_watching<F, T>(test: impl FnOnce(World) -> F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    with_changed(5, FakeNode::watching, test)
}

pub(crate) fn with_five<F, T>(test: impl FnOnce(World) -> F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    with_nodes(5, test)
}

pub(crate) fn builder(process: &Process, nodes: &[FakeNode]) -> Builder {
    let nodes = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
    Builder::new(process.runtime()).nodes(nodes).node_timeout(NODE_TIMEOUT)
}

/// A node without any optional operation.
pub(crate) struct Plain(pub(crate) MemoryNode);

impl LockNode for Plain {
    fn label(&self) -> &'static str {
        "plain"
    }

    fn begin(&self, request: &Request) -> Begun {
        match request {
            Request::Acquire(..) | Request::Extend(..) | Request::Release(_) => self.0.begin(request),
            other => Begun::failed(NodeError::unsupported(other)),
        }
    }
}

/// Sends the events of this thread to `subscriber` until the returned value is dropped.
///
/// While a process has one subscriber, `tracing` lets the first thread that reaches an event decide for all threads. A
/// thread of another test, which has no subscriber, would disable the event. With two subscribers, `tracing` consults
/// both.
pub(crate) fn subscribe(subscriber: impl Subscriber + Send + Sync) -> (DefaultGuard, Dispatch) {
    let second = Dispatch::new(NoSubscriber::new());
    (subscriber::set_default(subscriber), second)
}

impl World {
    /// Returns another client of the same nodes.
    pub(crate) fn other_client(&self) -> Redlock {
        builder(&self.process, &self.nodes).build().unwrap()
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.process.spawn(Box::pin(work));
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.process.sleep(duration).await;
    }

    /// Returns the output of `work` and its duration in virtual time.
    pub(crate) async fn time<T>(&self, work: impl IntoFuture<Output = T>) -> (T, Duration) {
        let start = self.process.now();
        let result = work.await;
        (result, self.process.now().saturating_duration_since(start))
    }

    /// Lets background tasks run without passing enough time for a timer to notice.
    pub(crate) async fn settle(&self) {
        self.sleep(Duration::from_nanos(1)).await;
    }

    /// Returns the number of nodes that have a key.
    pub(crate) fn keys(&self) -> usize {
        self.nodes.iter().filter(|node| !node.inner().is_empty()).count()
    }

    pub(crate) fn request_counts(&self, operation: Operation) -> Vec<u64> {
        self.nodes.iter().map(|node| node.request_count(operation)).collect()
    }

    /// Waits for all background work and asserts that no key is left.
    pub(crate) async fn nothing_left(&self) {
        for node in &self.nodes {
            node.clear_faults();
        }
        assert_eq!(0, self.redlock.close().await, "cleanup was abandoned");
        assert_eq!(0, self.keys(), "keys are left");
    }

    pub(crate) async fn lock(&self) -> Guard {
        let guard = self.redlock.lock("a", TTL).await.unwrap();
        self.settle().await;
        guard
    }
}

/// Returns a claim of another client on the resource that the tests lock.
pub(crate) fn foreign_claim() -> Claim {
    Claim::new("a".into_resources().unwrap(), Token::from_bytes("foreign-token"))
}

pub(crate) fn outcomes(error: &Error) -> Vec<&'static str> {
    let word = |outcome: &Outcome| match outcome {
        Outcome::Granted => "granted",
        Outcome::Denied(_) => "denied",
        Outcome::Failed(_) => "failed",
        Outcome::TimedOut => "timed out",
        Outcome::Pending => "pending",
        other => panic!("{other:?}"),
    };
    error.node_reports().iter().map(|node| word(node.outcome())).collect()
}

/// Polls a future once, and returns whether it is pending.
pub(crate) async fn is_pending<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

/// Waits for both futures at once.
pub(crate) async fn both<A: IntoFuture, B: IntoFuture>(a: A, b: B) -> (A::Output, B::Output) {
    futures_util::future::join(a.into_future(), b.into_future()).await
}

pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T, impl Into<Error>>) -> ErrorKind {
    result.unwrap_err().into().kind()
}
