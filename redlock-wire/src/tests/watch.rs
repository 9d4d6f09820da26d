//! Tests of change notifications, and of watches at the end of a connection.

use redlock_core::Resource;
use redlock_core::node::{Availability, Request, Watch};

use super::*;

fn name(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

async fn watch(node: &Node<Fake>, resource: &str) -> Watch {
    let reply = timeout(PATIENCE, node.call(Request::Watch(name(resource)))).await.expect("the call hangs");
    match reply.unwrap() {
        node::Reply::Watching(watch) => watch,
        other => panic!("no reply to a watch: {other:?}"),
    }
}

async fn is_notified(watch: Watch) -> bool {
    at_once(watch.changed).await.is_some()
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_armed_by_one_pair_and_completes_with_the_push() {
    let (fake, node) = node();
    let free = watch(&node, "a").await;
    assert_eq!(["CLIENT", "PTTL", "GET"], fake.calls()[..]);
    fake.is(|behavior| behavior.pttl = Reply::Int(70));
    let taken = watch(&node, "a").await;
    assert_eq!(Availability::Free, free.availability);
    assert_eq!(Availability::Taken(Some(Duration::from_millis(70))), taken.availability);

    let mut free = free.changed;
    assert!(at_once(free.as_mut()).await.is_none());
    fake.hub().changed(b"b");
    assert!(at_once(free.as_mut()).await.is_none());
    fake.calls();
    fake.hub().changed(b"a");
    assert!(at_once(free.as_mut()).await.is_some() && is_notified(taken).await);
    assert!(fake.calls().is_empty(), "no further command is sent");
}

#[tokio::test(start_paused = true)]
async fn a_prefix_belongs_to_the_watched_key() {
    let fake = Fake::default();
    let options = Options::new(Arc::new(TokioRuntime::new())).key_prefix("lock:");
    let node = Node::new(fake.clone(), &options);
    let watch = watch(&node, "a").await;
    fake.hub().changed(b"lock:a");
    assert!(is_notified(watch).await);
}

#[tokio::test(start_paused = true)]
async fn a_push_before_the_reply_is_not_missed() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.is(|behavior| behavior.replies = false);
    assert!(timeout(NODE_TIMEOUT, node.call(Request::Watch(name("a")))).await.is_err());
    assert_eq!(0, fake.hub().len(), "the dropped watch is removed");

    fake.is(|behavior| (behavior.replies, behavior.pushed) = (true, b"a"));
    assert!(is_notified(watch(&node, "a").await).await);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_connection_completes_its_watches() {
    let ways: [fn(&Fake); 2] = [Fake::cut, |fake| fake.is(|behavior| behavior.replies = false)];
    for (round, way) in ways.into_iter().enumerate() {
        let (fake, node) = node();
        let old = watch(&node, "a").await;
        let hub = fake.hub();
        way(&fake);
        if round == 1 {
            for _ in 0..3 {
                drop_request(&node).await;
            }
            fake.is(|behavior| behavior.replies = true);
        }
        timeout(PATIENCE, old.changed).await.expect("the watch hangs");
        fake.until(|fake| fake.connects() == 2 && fake.open() == 1).await;
        assert_eq!(0, hub.len());

        let new = watch(&node, "a").await;
        hub.changed(b"a");
        hub.all_changed();
        assert!(!is_notified(new).await, "the end of an old connection is ignored");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_node_completes_its_watches() {
    let (_, node) = node();
    let watch = watch(&node, "a").await;
    drop(node);
    timeout(PATIENCE, watch.changed).await.expect("the watch hangs");
}

#[test]
fn a_runtime_that_ends_completes_its_watches() {
    let (_, node) = node();
    let old = runtime().block_on(watch(&node, "a"));
    runtime().block_on(async {
        assert!(is_notified(old).await);
        assert!(!is_notified(watch(&node, "a").await).await);
    });
}

#[tokio::test(start_paused = true)]
async fn dropped_watches_leave_nothing() {
    let (fake, node) = node();
    for round in 0..1000 {
        let watches = [watch(&node, "a").await, watch(&node, &round.to_string()).await];
        assert_eq!(2, fake.hub().len());
        drop(watches);
        assert_eq!(0, fake.hub().len());
    }
    fake.is(|behavior| behavior.pttl = Reply::Error("NOPERM no".into()));
    assert_eq!(NodeErrorKind::Rejected, node.call(Request::Watch(name("a"))).await.unwrap_err().kind());
    assert_eq!(0, fake.hub().len());
    assert!(node.status().connection.is_some(), "an error reply is a reply");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_tracking_can_still_lock() {
    for client in [None, Some(Reply::Error("NOPERM no".into()))] {
        let (fake, node) = node();
        assert!(node.profile().watch, "the client can receive pushes");
        fake.is(|behavior| behavior.client = client);
        assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
        fake.calls();
        assert_eq!(
            NodeErrorKind::Unsupported,
            node.call(Request::Watch(name("a"))).await.unwrap_err().kind()
        );
        assert!(fake.calls().is_empty());

        // Each connection is checked again.
        fake.is(|behavior| behavior.client = Behavior::default().client);
        fake.cut();
        fake.until(|fake| fake.connects() == 2 && fake.open() == 1).await;
        settles(|| node.status().connection.is_some()).await;
        watch(&node, "a").await;
    }
}
