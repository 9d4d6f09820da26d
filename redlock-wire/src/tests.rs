//! Tests of the connection handling of a node, on a server in memory.

mod breaker;
mod clock;
mod cluster;
mod common_check;
mod exchange;
mod login;
#[cfg(feature = "metrics")]
mod metrics;
mod reconnect;
mod sentinels;
mod watch;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use redlock_core::node::{
    self, Begun, Claim, ConnectionId, Denial, Exchange, LockNode, NodeError, NodeErrorKind, Request,
    ServerId, Token, Ttl,
};
use redlock_core::runtime::{BoxFuture, Instant, Runtime as RuntimeContract};
use redlock_core::{IntoResources, TokioRuntime};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{Instant as Now, timeout};

use crate::fake::{Behavior, Fake, PATIENCE};
use crate::message::Reply;
use crate::node::Node;
use crate::options::Options;

/// The time after which the core drops a request.
const NODE_TIMEOUT: Duration = Duration::from_millis(100);

fn node() -> (Fake, Node<Fake>) {
    let fake = Fake::default();
    (fake.clone(), Node::new(fake, &Options::new(Arc::new(TokioRuntime::new()))))
}

fn claim(resources: impl IntoResources) -> Claim {
    Claim::new(resources.into_resources().unwrap(), Token::from_bytes("mine"))
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(10)).unwrap()
}

async fn lock(node: &Node<Fake>) -> Result<node::Reply, NodeError> {
    timeout(PATIENCE, node.call(Request::Acquire(claim("a"), ttl()))).await.expect("the call hangs")
}

/// Returns the output of `future` if it completes without waiting.
async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        })
    })
    .await
}

/// Drops a request after the node timeout, as the core does.
async fn drop_request(node: &Node<Fake>) {
    assert!(
        timeout(NODE_TIMEOUT, node.call(Request::Acquire(claim("a"), ttl()))).await.is_err(),
        "the server replied"
    );
}

/// Begins a request over the present connection.
fn sent(node: &Node<Fake>) -> Exchange {
    match node.begin(&Request::Release(claim("a"))) {
        Begun::Sent(exchange) => exchange,
        Begun::Connecting(_) => panic!("the node is connecting"),
    }
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Lets the tasks of this runtime run until `is_so` holds, without letting time pass.
async fn settles(is_so: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the tasks keep running");
}

fn unavailable<T: std::fmt::Debug>(outcome: Result<T, NodeError>) -> String {
    let error = outcome.unwrap_err();
    assert_eq!(NodeErrorKind::Unavailable, error.kind(), "{error}");
    error.to_string()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_the_first_connect_and_share_it() {
    let (fake, node) = node();
    assert_eq!(
        (0, None),
        (fake.connects(), node.status().connection),
        "the node does not connect before its first request"
    );
    fake.is(|behavior| behavior.accepts = Ok(false));
    let opened = async {
        fake.until(|fake| fake.connects() == 1).await;
        assert!(at_once(node.call(Request::Release(claim("a")))).await.is_none());
        assert!(fake.calls().is_empty());
        fake.is(|behavior| behavior.accepts = Ok(true));
    };
    let (one, two, ()) = tokio::join!(lock(&node), lock(&node), opened);
    assert_eq!((node::Reply::Granted, node::Reply::Granted), (one.unwrap(), two.unwrap()));
    assert_eq!(1, fake.connects());
    assert_eq!(Some(ConnectionId(1)), node.status().connection);
    assert_eq!(Some(ServerId::new("fake")), sent(&node).server);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_down_fails_fast_with_the_reason_and_recovers_without_traffic() {
    let (fake, node) = node();
    fake.is(|behavior| behavior.accepts = Err("refused with details"));
    assert_eq!("refused with details", unavailable(lock(&node).await));
    fake.until(|fake| fake.connects() > 20).await; // forever
    let outcome = at_once(node.call(Request::Acquire(claim("a"), ttl()))).await.expect("the call waits");
    assert_eq!("refused with details", unavailable(outcome));

    fake.is(|behavior| behavior.accepts = Ok(true));
    let start = Now::now();
    fake.until(|fake| fake.open() == 1).await;
    assert!(start.elapsed() <= Duration::from_millis(200), "{:?}", start.elapsed());
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_hanging_connect_times_out() {
    let (fake, node) = node();
    fake.is(|behavior| behavior.accepts = Ok(false));
    let start = Now::now();
    assert!(unavailable(lock(&node).await).contains("timed out (300ms)"));
    let elapsed = start.elapsed().as_millis();
    assert!((300..310).contains(&elapsed), "{elapsed} ms"); // timers of whole milliseconds add up
}

#[tokio::test(start_paused = true)]
async fn a_server_is_down_until_it_is_ready() {
    let (fake, node) = node();
    let ready = Mutex::new(None);
    fake.is(|behavior| {
        let loading = Reply::Error("LOADING the data".into());
        *ready.lock().unwrap() = Some(std::mem::replace(&mut behavior.info, loading));
    });
    assert_eq!("LOADING the data", unavailable(lock(&node).await));
    assert_eq!(0, fake.open(), "no connection is kept");
    fake.is(|behavior| behavior.info = ready.lock().unwrap().take().unwrap());
    fake.until(|fake| fake.open() == 1).await;
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_replaced_without_traffic() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    for generation in 2..10 {
        fake.cut();
        fake.until(|fake| fake.connects() == generation && fake.open() == 1).await;
        assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
        assert_eq!(Some(ConnectionId(generation as u64)), node.status().connection);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_ends_the_connection() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.cut();
    assert_eq!(
        NodeErrorKind::Unknown,
        lock(&node).await.unwrap_err().kind(),
        "the supervisor has not run yet"
    );
    assert_eq!(None, node.status().connection);
    assert_eq!("cut", unavailable(at_once(node.call(Request::Release(claim("a")))).await.unwrap()));
    assert_eq!(Some(ServerId::new("fake")), sent(&node).server, "the last known server");
    fake.until(|fake| fake.connects() == 2 && fake.open() == 1).await;
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_script_missing_on_the_server_is_sent_in_full() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.calls();
    for knows in [true, false] {
        let expected = if knows { vec!["EVALSHA"] } else { vec!["EVALSHA", "EVAL"] };
        fake.is(|behavior| behavior.knows_scripts = knows);
        assert_eq!(node::Reply::Granted, node.call(Request::Extend(claim(["a", "b"]), ttl())).await.unwrap());
        assert_eq!(expected, fake.calls());
        let released = node.call(Request::Release(claim("a"))).await.unwrap();
        assert_eq!(node::Reply::Deleted(true), released);
        assert_eq!(expected, fake.calls());
        assert_eq!(
            node::Reply::Granted,
            node.call(Request::Acquire(claim(["a", "b"]), ttl())).await.unwrap()
        );
        assert_eq!(expected, fake.calls());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_before_7_is_queried_for_the_holder() {
    let (fake, node) = node();
    let bytes = |text: &str| Reply::Bytes(text.into());
    fake.is(|behavior| behavior.info = bytes("redis_version:6.2.14\r\n"));
    for (set, get, expected, calls) in [
        (bytes("OK"), Reply::Nil, node::Reply::Granted, vec!["SET"]),
        (Reply::Nil, bytes("mine"), node::Reply::Granted, vec!["SET", "GET"]),
        (Reply::Nil, Reply::Nil, node::Reply::Denied(Denial::of_gone_key()), vec!["SET", "GET"]),
        (Reply::Nil, bytes("x"), node::Reply::Denied(Denial::by(Token::from_bytes("x"))), vec!["SET", "GET"]),
    ] {
        fake.is(|behavior| (behavior.set, behavior.get) = (set, get));
        assert_eq!(expected, lock(&node).await.unwrap());
        assert_eq!(calls, fake.calls());
    }
    // The script distinguishes readers from a value that is not a lock.
    fake.is(|behavior| behavior.get = Reply::Error("WRONGTYPE Operation against a key".into()));
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
    assert_eq!(vec!["SET", "GET", "EVALSHA"], fake.calls());
}

#[test]
fn a_node_outlives_its_runtime() {
    let (fake, node) = node();
    for generation in 1..=3 {
        runtime().block_on(async { assert_eq!(node::Reply::Granted, lock(&node).await.unwrap()) });
        assert_eq!(None, node.status().connection, "the connection ended with its runtime");
        assert_eq!((generation, 0), (fake.connects(), fake.open()));
    }
}

#[test]
fn a_node_serves_two_runtimes_at_once() {
    let (fake, node) = node();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                runtime().block_on(async {
                    for _ in 0..100 {
                        // This holds even if the ended runtime drives the connection.
                        assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
                    }
                });
            });
        }
    });
    assert_eq!(0, fake.open());
    runtime().block_on(async { assert_eq!(node::Reply::Granted, lock(&node).await.unwrap()) });
}

/// A runtime whose tasks never run, and which calls a function the next time that the clock is read.
#[derive(Default)]
struct Idle {
    tasks: Mutex<Vec<BoxFuture<()>>>,
    at_next_reading: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Idle")
    }
}

impl RuntimeContract for Idle {
    fn now(&self) -> Instant {
        let call = self.at_next_reading.lock().unwrap().take();
        if let Some(call) = call {
            call();
        }
        Instant::ORIGIN
    }

    fn sleep(&self, _: Duration) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.tasks.lock().unwrap().push(task);
    }
}

#[tokio::test]
async fn the_end_of_another_requests_runtime_fails_no_request() {
    let runtime = Arc::new(Idle::default());
    let node = Arc::new(Node::new(Fake::default(), &Options::new(runtime.clone())));
    // Another request starts the supervisor first, while this one is about to do it.
    let other = Arc::clone(&node);
    let starts = move || assert!(other.call(Request::Acquire(claim("a"), ttl())).now_or_never().is_none());
    *runtime.at_next_reading.lock().unwrap() = Some(Box::new(starts));
    let claim = claim("b");
    let mut request = node.call(Request::Acquire(claim.clone(), ttl()));
    assert!(at_once(&mut request).await.is_none());
    let tasks = || std::mem::take(&mut *runtime.tasks.lock().unwrap());
    assert_eq!(1, tasks().len(), "the supervisor of the other request, which ends here");
    for _ in 0..3 {
        assert!(at_once(&mut request).await.is_none(), "it waits for its own supervisor");
        assert_eq!(
            1,
            tasks().len(),
            "each supervisor that ends is replaced by one, as long as there is a runtime"
        );
    }
}

#[test]
fn a_supervisor_on_an_idle_runtime_is_replaced_for_good() {
    let (first, second) = (runtime(), runtime());
    let (fake, node) = node();
    first.block_on(async { assert_eq!(node::Reply::Granted, lock(&node).await.unwrap()) });
    fake.is(|behavior| behavior.replies = false);
    second.block_on(async {
        while node.status().connection == Some(ConnectionId(1)) {
            drop_request(&node).await;
        }
        fake.is(|behavior| behavior.replies = true);
        fake.until(|fake| fake.connects() == 2).await;
        settles(|| node.status().connection.is_some()).await;
        assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
    });
    first.block_on(async {
        fake.until(|fake| fake.open() == 1).await; // the replaced one drops its connection
        settles(|| tasks() == 0).await;
    });
    assert_eq!((Some(ConnectionId(2)), 2), (node.status().connection, fake.connects()));
    drop(first);
    assert_eq!(
        Some(ConnectionId(2)),
        node.status().connection,
        "the end of its runtime changes nothing either"
    );
}

#[test]
fn a_first_connect_on_an_idle_runtime_is_restarted() {
    let (first, second) =
        (runtime(), Builder::new_current_thread().enable_all().start_paused(true).build().unwrap());
    let (fake, node) = node();
    fake.is(|behavior| behavior.accepts = Ok(false));
    first.block_on(async { drop_request(&node).await });
    second.block_on(async {
        drop_request(&node).await;
        assert_eq!(1, fake.connects(), "the first connect may still succeed");
        tokio::time::advance(Duration::from_secs(2)).await;
        fake.is(|behavior| behavior.accepts = Ok(true));
        assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
        assert_eq!(2, fake.connects());
    });
    first.block_on(async {
        settles(|| tasks() == 0).await;
    });
    assert_eq!(
        (Some(ConnectionId(1)), 1),
        (node.status().connection, fake.open()),
        "the late connection is not used"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_node_leaves_neither_task_nor_connection() {
    for accepts in [Ok(true), Ok(false), Err("refused")] {
        let (fake, node) = node();
        fake.is(|behavior| behavior.accepts = accepts);
        let _ = timeout(NODE_TIMEOUT, lock(&node)).await;
        assert_eq!(1, tasks(), "{accepts:?}");
        let start = Now::now();
        drop(node);
        settles(|| tasks() == 0).await;
        assert_eq!((Duration::ZERO, 0), (start.elapsed(), fake.open()), "{accepts:?}");
    }
}

/// A runtime that has shut down.
#[derive(Debug)]
struct ShutDown;

impl RuntimeContract for ShutDown {
    fn now(&self) -> Instant {
        Instant::ORIGIN
    }

    fn sleep(&self, _: Duration) -> BoxFuture<()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, future: BoxFuture<()>) {
        drop(future);
    }
}

#[tokio::test]
async fn without_a_runtime_a_request_fails_at_once() {
    let node = Node::new(Fake::default(), &Options::new(Arc::new(ShutDown)));
    for _ in 0..2 {
        let outcome = at_once(node.call(Request::Acquire(claim("a"), ttl()))).await.expect("the call waits");
        assert!(unavailable(outcome).contains("no runtime available"));
    }
}

#[tokio::test]
async fn a_connection_without_order_has_no_identity() {
    let (fake, node) = node();
    fake.is(|behavior| {
        behavior.keeps_order = false;
        behavior.set = Reply::Nil;
    });
    assert_eq!(Ok(node::Reply::Granted), lock(&node).await.map_err(|error| error.kind()));
    assert_eq!(None, node.status().connection);
    assert!(format!("{node:?}").contains("connected: true"));
}
