//! The effect of each fault on a request and on the node. Time is paused, so no test waits.

#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redlock_core::node::{
    Begun, Claim, ConnectionId, Denial, LockNode, NodeError, NodeErrorKind, Reply, Request, ServerId, Token,
    Ttl,
};
use redlock_core::runtime::Runtime;
use redlock_core::{IntoResources, Resource, TokioRuntime};
use redlock_testkit::{FakeNode, Fault, Faulty, MemoryNode, Operation, fake_nodes};
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);

fn fake() -> FakeNode {
    FakeNode::new("fake", Arc::new(TokioRuntime::new()))
}

fn claim(name: &str) -> Claim {
    Claim::new(name.into_resources().unwrap(), Token::from_bytes("own"))
}

fn no() -> Reply {
    Reply::Denied(Denial::default())
}

async fn acquire(node: &FakeNode, name: &str) -> Result<Reply, NodeErrorKind> {
    node.call(Request::Acquire(claim(name), Ttl::MAX)).await.map_err(|error| error.kind())
}

/// Returns the reply; `None` if there is none for a minute.
async fn in_time(node: &FakeNode, name: &str) -> Option<Result<Reply, NodeErrorKind>> {
    timeout(60 * SECOND, acquire(node, name)).await.ok()
}

fn has(node: &FakeNode, name: &str) -> bool {
    node.inner().holder(name).is_some()
}

type Call<'a> = Pin<Box<dyn Future<Output = Result<Reply, NodeErrorKind>> + Send + 'a>>;

/// Sends a request, and returns it without its reply.
async fn sent<'a>(node: &'a FakeNode, name: &'a str) -> Call<'a> {
    let mut call: Call<'a> = Box::pin(acquire(node, name));
    poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending(), "the reply came at once");
        Poll::Ready(())
    })
    .await;
    call
}

#[tokio::test(start_paused = true)]
async fn without_faults_everything_passes_through() {
    let node = fake();
    assert_eq!(Ok(Reply::Granted), acquire(&node, "a").await);
    assert!(has(&node, "a"));
    assert_eq!(Reply::Granted, node.call(Request::Extend(claim("a"), Ttl::MAX)).await.unwrap());
    assert_eq!(Reply::Deleted(true), node.call(Request::Release(claim("a"))).await.unwrap());
    assert!(node.inner().is_empty());
    let seen = [Operation::Acquire, Operation::Extend, Operation::Release]
        .map(|operation| node.request_count(operation));
    assert_eq!([1, 1, 1], seen);
}

#[tokio::test(start_paused = true)]
async fn an_immediate_failure_changes_nothing() {
    let faults = [
        (Fault::deny(), Ok(no())),
        (Fault::reject(), Err(NodeErrorKind::Rejected)),
        (Fault::unavailable(), Err(NodeErrorKind::Unavailable)),
        (Fault::fail(NodeError::unsupported("lock")), Err(NodeErrorKind::Unsupported)),
    ];
    for (fault, expected) in faults {
        let node = fake();
        node.inject(fault.clone().once());
        assert_eq!(expected, acquire(&node, "a").await, "{fault:?}");
        assert!(node.inner().is_empty(), "{fault:?}");
        assert_eq!(Ok(Reply::Granted), acquire(&node, "a").await, "{fault:?} was for one request");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lasting_fault_ends_when_it_is_cleared() {
    let node = fake();
    node.inject(Fault::deny());
    for _ in 0..3 {
        assert_eq!(Ok(no()), acquire(&node, "a").await);
    }
    node.clear_faults();
    assert_eq!(Ok(Reply::Granted), acquire(&node, "a").await);
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_is_not_carried_out_unlike_one_with_a_lost_reply() {
    let node = fake();
    node.inject(Fault::drop_request().once());
    node.inject(Fault::lose_reply().once());
    assert_eq!(None, in_time(&node, "request").await);
    assert_eq!(None, in_time(&node, "reply").await);
    assert_eq!((false, true), (has(&node, "request"), has(&node, "reply")));
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_leaves_the_outcome_unknown_at_once() {
    let node = fake();
    node.inject(Fault::disconnect().once());
    assert_eq!(Err(NodeErrorKind::Unknown), acquire(&node, "a").await);
    assert!(has(&node, "a"));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_can_be_cancelled() {
    let node = fake();
    node.inject(Fault::delay(10 * SECOND));
    let start = tokio::time::Instant::now();
    assert_eq!(Ok(Reply::Granted), acquire(&node, "waited for").await);
    assert_eq!(10, start.elapsed().as_secs());

    assert!(timeout(9 * SECOND, acquire(&node, "dropped")).await.is_err());
    tokio::time::sleep(60 * SECOND).await;
    assert!(!has(&node, "dropped"));
}

#[tokio::test(start_paused = true)]
async fn a_late_application_cannot_be_cancelled() {
    let node = fake();
    node.inject(Fault::apply_late(10 * SECOND));
    assert_eq!(Ok(Reply::Granted), acquire(&node, "waited for").await);

    assert!(timeout(9 * SECOND, acquire(&node, "dropped")).await.is_err());
    assert!(!has(&node, "dropped"), "the request is still in flight");
    tokio::time::sleep(2 * SECOND).await;
    assert!(has(&node, "dropped"));
}

#[tokio::test(start_paused = true)]
async fn after_a_hang_all_requests_are_carried_out_in_order_even_dropped_ones() {
    let node = fake();
    node.inject(Fault::hang());
    drop(sent(&node, "a").await);
    let waiting = sent(&node, "b").await;
    let foreign = Claim::new("a".into_resources().unwrap(), Token::from_bytes("other"));
    assert!(timeout(SECOND, node.call(Request::Acquire(foreign.clone(), Ttl::MAX))).await.is_err());
    assert_eq!((3, true), (node.pending(), node.inner().is_empty()));

    node.resume().await;
    assert_eq!(Ok(Reply::Granted), waiting.await);
    assert_eq!(
        Some(Token::from_bytes("own")),
        node.inner().holder("a"),
        "the first request was carried out first"
    );
    assert_eq!((0, 2), (node.pending(), node.inner().len()));
    assert_eq!(Ok(Reply::Granted), acquire(&node, "c").await, "the hang is over");
}

#[tokio::test(start_paused = true)]
async fn replies_are_released_one_by_one() {
    let node = fake();
    node.inject(Fault::hold_reply());
    let first = sent(&node, "a").await;
    let dropped = sent(&node, "b").await;
    let mut third = sent(&node, "c").await;
    assert_eq!((3, 3), (node.pending(), node.inner().len()), "all were carried out");
    drop(dropped);
    assert_eq!(2, node.pending());

    assert!(node.step().await);
    assert_eq!(Ok(Reply::Granted), first.await);
    assert!(timeout(SECOND, &mut third).await.is_err(), "the earlier reply comes first");
    assert!(node.step().await);
    assert_eq!(Ok(Reply::Granted), third.await);
    assert!(!node.step().await);
    drop(sent(&node, "d").await);
}

#[tokio::test(start_paused = true)]
async fn a_crash_ends_requests_in_flight_and_lasts_until_the_restart() {
    let node = fake();
    acquire(&node, "kept").await.unwrap();
    node.inject(Fault::hang().once());
    node.inject(Fault::hold_reply().once());
    node.inject(Fault::lose_reply().once());
    node.inject(Fault::apply_late(SECOND).once());
    let mut calls = Vec::new();
    for name in ["hung", "reply held", "reply lost", "late"] {
        calls.push(sent(&node, name).await);
    }
    node.crash();
    for call in calls {
        assert_eq!(Err(NodeErrorKind::Unknown), call.await);
    }
    assert_eq!(Err(NodeErrorKind::Unavailable), acquire(&node, "a").await);

    tokio::time::sleep(2 * SECOND).await;
    node.restart();
    node.resume().await;
    let survived = ["kept", "hung", "reply held", "reply lost", "late"].map(|name| has(&node, name));
    assert_eq!([true, false, true, true, false], survived);

    node.crash();
    node.restart_empty();
    assert!(node.inner().is_empty());
    assert_eq!(Ok(Reply::Granted), acquire(&node, "a").await);
}

/// Returns the identity of the server that a request reaches, and whether the node is in quarantine.
fn server(node: &FakeNode) -> (Option<ServerId>, bool) {
    let Begun::Sent(exchange) = node.begin(&Request::Acquire(claim("a"), Ttl::MAX)) else {
        panic!("a fake needs no connection")
    };
    (exchange.server, node.status().quarantine.is_some())
}

#[tokio::test(start_paused = true)]
async fn every_restart_of_a_server_but_no_outage_begins_a_quarantine() {
    let node = fake();
    node.inner().set_longest_ttl(30 * SECOND);
    assert_eq!(Ok(Reply::Granted), acquire(&node, "a").await);
    let snapshot = node.inner().snapshot();
    let first = server(&node);
    node.crash();
    node.restart();
    assert_eq!(first, server(&node), "the same server after an outage");

    let restarts: [(&str, &dyn Fn()); 3] = [
        ("with data", &|| node.restart_with_data()),
        ("with older data", &|| node.inner().restore(&snapshot)),
        ("empty", &|| node.restart_empty()),
    ];
    for (restart, run) in restarts {
        let (before, is_in_quarantine) = server(&node);
        assert!(!is_in_quarantine, "{restart}");
        node.crash();
        run();
        node.restart();
        let (after, is_in_quarantine) = server(&node);
        assert!(before != after && is_in_quarantine, "{restart}");
        assert_eq!(restart != "empty", has(&node, "a"), "{restart}");
        node.call(Request::Vouch).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_ends_watches() {
    let node = fake().watching();
    let watched = node.call(Request::Watch(Resource::new("a").unwrap())).await.unwrap();
    let Reply::Watching(mut watch) = watched else { panic!("not a watch: {watched:?}") };
    assert!(timeout(SECOND, &mut watch.changed).await.is_err());
    node.inner().restart();
    timeout(SECOND, watch.changed).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn arrivals_can_be_waited_for() {
    let node = fake();
    node.inject(Fault::lose_reply());
    let client = node.clone();
    let task = tokio::spawn(async move {
        for name in ["a", "b", "c"] {
            assert!(in_time(&client, name).await.is_none());
        }
    });
    node.wait_for_requests(Operation::Acquire, 2).await;
    assert!(has(&node, "a") && !has(&node, "c"));
    assert!(timeout(SECOND, node.wait_for_requests(Operation::Release, 1)).await.is_err());
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_an_ordered_node_has_a_connection_and_a_new_one_after_each_loss() {
    assert_eq!(None, fake().status().connection);

    let node = fake().ordered();
    let mut numbers: Vec<Option<ConnectionId>> = vec![node.status().connection];
    assert_eq!(Ok(Reply::Granted), acquire(&node, "a").await);
    assert_eq!(numbers[0], node.status().connection);
    node.inject(Fault::disconnect().once());
    assert_eq!(Err(NodeErrorKind::Unknown), acquire(&node, "a").await);
    numbers.push(node.status().connection);
    node.crash();
    assert_eq!(None, node.status().connection);
    node.restart();
    numbers.push(node.status().connection);
    let numbers: Vec<_> = numbers.into_iter().map(Option::unwrap).collect();
    assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2], "{numbers:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_overtakes_on_an_ordered_node() {
    let node = fake().ordered();
    node.inject(Fault::hang().once());
    let write = sent(&node, "a").await;
    let release = {
        let node = node.clone();
        tokio::spawn(
            async move { node.call(Request::Release(claim("a"))).await.map_err(|error| error.kind()) },
        )
    };
    node.wait_for_requests(Operation::Release, 1).await;
    assert_eq!(2, node.pending());
    node.resume().await;
    assert_eq!((Ok(Reply::Granted), Ok(Reply::Deleted(true))), (write.await, release.await.unwrap()));
    assert!(node.inner().is_empty());
}

#[test]
#[should_panic(expected = "reorders requests")]
fn an_ordered_node_rejects_faults_that_reorder() {
    fake().ordered().inject(Fault::apply_late(SECOND));
}

#[tokio::test(start_paused = true)]
async fn keys_expire_by_the_runtimes_clock() {
    let node = fake();
    node.call(Request::Acquire(claim("a"), Ttl::new(10 * SECOND).unwrap())).await.unwrap();
    tokio::time::advance(9 * SECOND).await;
    assert!(has(&node, "a"));
    tokio::time::advance(2 * SECOND).await;
    assert!(!has(&node, "a"));
}

#[tokio::test]
async fn any_node_can_be_wrapped_and_becomes_a_shared_node() {
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::new());
    let twice = Faulty::wrap(fake(), runtime.clone());
    twice.inner().inject(Fault::deny().once());
    twice.inject(Fault::reject().once());
    let node: Arc<dyn LockNode> = twice.into();
    assert_eq!(
        NodeErrorKind::Rejected,
        node.call(Request::Acquire(claim("a"), Ttl::MAX)).await.unwrap_err().kind()
    );
    assert_eq!(
        Reply::Denied(Denial::default()),
        node.call(Request::Acquire(claim("a"), Ttl::MAX)).await.unwrap()
    );

    let mut nodes: Vec<Arc<dyn LockNode>> = fake_nodes(2, runtime).into_iter().map(Into::into).collect();
    nodes.push(MemoryNode::new("plain").into());
    assert_eq!(vec!["fake-0", "fake-1", "plain"], nodes.iter().map(|node| node.label()).collect::<Vec<_>>());
}
