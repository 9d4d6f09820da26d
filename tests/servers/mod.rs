//! What the library promises, on real servers that hang, die and come back: run once for each adapter.
//!
//! The including test file names its adapter crate `adapter`.
#![allow(clippy::unwrap_used)] // helpers of tests, not code that must go on

mod bad_input;
mod cancelled;
mod contention;
mod costs;
mod crowd;
mod extension;
mod fencing;
mod forgotten;
mod grants;
mod healthy;
mod interop;
mod keepalive;
mod limits;
mod majority_down;
mod minority_down;
mod prefixes;
mod processes;
mod reconnect;
mod runtimes;
mod stale;
mod waiting;
mod warnings;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redlock_testkit::{Fault, Faulty, Operation, RedisServer};

use self::warnings::Warnings;
use crate::adapter::{
    Builder, ErrorKind, Guard, LockNode, Node, Options, Outcome, Redlock, Runtime, TokioRuntime,
};

pub(crate) const TTL: Duration = Duration::from_secs(10);

/// Generous, so that a busy machine does not decide a test: what must be faster than it is so by orders of magnitude.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) fn five() -> Vec<RedisServer> {
    RedisServer::start_many(5)
}

pub(crate) fn builder(servers: &[RedisServer]) -> Builder {
    crate::adapter::builder(servers.iter().map(RedisServer::url)).unwrap()
}

pub(crate) fn redlock(servers: &[RedisServer]) -> Redlock {
    builder(servers).node_timeout(NODE_TIMEOUT).build().unwrap()
}

/// A `Redlock` over real nodes with faults in front of them.
pub(crate) fn faulty(servers: &[RedisServer]) -> (Redlock, Vec<Faulty<Node>>) {
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::new());
    let options = Options::new(runtime.clone());
    let node = |server: &RedisServer| crate::adapter::node(server.url(), &options).unwrap();
    let nodes: Vec<_> = servers.iter().map(|server| Faulty::wrap(node(server), runtime.clone())).collect();
    let clones = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
    (Builder::new(runtime).nodes(clones).node_timeout(NODE_TIMEOUT).build().unwrap(), nodes)
}

/// A `Redlock` whose connections are up: what follows is not about connecting.
pub(crate) async fn warm(servers: &[RedisServer]) -> Redlock {
    let redlock = redlock(servers);
    all_up(&redlock).await;
    redlock
}

pub(crate) async fn all_up(redlock: &Redlock) {
    let health = redlock.health().await;
    let all: Vec<_> = health.nodes().iter().map(ToString::to_string).collect();
    assert_eq!(health.nodes().len(), health.healthy_nodes(), "{all:#?}");
}

/// A runtime with a single thread.
pub(crate) fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The keys on all servers.
pub(crate) fn keys(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().flat_map(RedisServer::keys).collect()
}

/// Waits for everything that goes on in the background, and asserts that no server has a key left.
pub(crate) async fn nothing_left(redlock: &Redlock, servers: &[RedisServer]) {
    let closed = tokio::time::timeout(Duration::from_secs(30), redlock.close()).await;
    assert_eq!(Ok(0), closed, "close() waits for something that does not end, or has given up cleanup");
    assert_eq!(Vec::<String>::new(), keys(servers));
}

/// The error's kind and every node's outcome in a word, for comparison.
pub(crate) fn anatomy<T: std::fmt::Debug>(
    result: Result<T, crate::adapter::Error>,
) -> (ErrorKind, Vec<&'static str>) {
    let error = result.unwrap_err();
    let outcomes = error.node_reports().iter().enumerate().map(|(index, node)| {
        assert_eq!(index, node.index());
        match node.outcome() {
            Outcome::Granted => "granted",
            Outcome::Denied(_) => "denied",
            Outcome::Failed(_) => "failed",
            Outcome::TimedOut => "timed out",
            Outcome::Pending => "pending",
            other => panic!("{other:?}"),
        }
    });
    (error.kind(), outcomes.collect())
}

/// Runs something that must end before the node timeout has passed.
pub(crate) async fn within_node_timeout<T>(what: &str, work: impl IntoFuture<Output = T>) -> T {
    let start = Instant::now();
    let result = work.await;
    let took = start.elapsed();
    assert!(took < NODE_TIMEOUT, "{what} took {took:?}");
    result
}

/// Waits until a condition holds that something in the background brings about.
pub(crate) async fn eventually(
    what: &str,
    limit: Duration,
    mut holds: impl AsyncFnMut() -> bool,
) -> Duration {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    start.elapsed()
}

pub(crate) async fn granted_by_all(guard: &Guard) {
    let all = async || guard.node_reports().iter().all(|node| matches!(node.outcome(), Outcome::Granted));
    eventually("all nodes grant", Duration::from_secs(5), all).await;
}

/// An example of this adapter that tests run as a process of its own. `cargo test` builds it, where no `--test` is named.
pub(crate) fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let target = tests.parent().and_then(Path::parent).unwrap();
    let file = env!("CARGO_PKG_NAME").replace("redlock", name).replace('-', "_");
    let program = target.join("examples").join(file).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(program.exists(), "{} is missing: build it with `cargo build --examples`", program.display());
    program
}
