//! Tests of requests that begin over one connection, and of the replies that have no vote.

use redlock_core::node::{Quarantine, QuarantineReason};

use super::*;

/// Ends the connection because the server does not reply, and waits for another one.
async fn reconnect(fake: &Fake, node: &Node<Fake>) {
    let connects = fake.connects();
    fake.is(|behavior| behavior.replies = false);
    for _ in 0..3 {
        drop_request(node).await;
    }
    fake.is(|behavior| behavior.replies = true);
    fake.until(|fake| fake.connects() == connects + 1).await;
    settles(|| node.status().connection.is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_over_its_connection_or_never() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    let (before, replaced) = (sent(&node), sent(&node));
    assert_eq!(Some(ConnectionId(1)), before.connection);
    assert_eq!(node::Reply::Deleted(true), before.reply.await.unwrap());

    reconnect(&fake, &node).await;
    let after = sent(&node);
    assert_eq!(Some(ConnectionId(2)), after.connection);
    fake.calls();
    assert_eq!("the connection was lost", unavailable(replaced.reply.await));
    assert!(fake.calls().is_empty(), "a release that began over another connection is not sent");
    assert_eq!(Some(ConnectionId(2)), node.status().connection, "its failure does not concern the new one");
    assert_eq!(node::Reply::Deleted(true), after.reply.await.unwrap());
    assert_eq!(["EVALSHA"], fake.calls()[..]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_a_connection_is_begun_again() {
    let (fake, node) = node();
    fake.is(|behavior| behavior.accepts = Ok(false));
    let request = Request::Release(claim("a"));
    let begin = || match node.begin(&request) {
        Begun::Connecting(attempt) => attempt,
        Begun::Sent(exchange) => panic!("there is no connection: {exchange:?}"),
    };
    let (mut first, second) = (begin(), begin());
    assert!(at_once(&mut first).await.is_none());
    drop(second);
    fake.until(|fake| fake.connects() == 1).await;
    assert!(at_once(&mut first).await.is_none(), "the attempt is still in progress");
    fake.is(|behavior| behavior.accepts = Ok(true));
    timeout(PATIENCE, first).await.expect("the attempt has ended");
    assert!(fake.calls().is_empty(), "nothing was sent");
    let exchange = sent(&node);
    assert_eq!(Some(ConnectionId(1)), exchange.connection);
    assert_eq!(node::Reply::Deleted(true), exchange.reply.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_one_failed_attempt_only() {
    let (fake, node) = node();
    fake.is(|behavior| behavior.accepts = Err("refused"));
    let request = Request::Release(claim("a"));
    let Begun::Connecting(attempt) = node.begin(&request) else { panic!("no attempt is in progress") };
    timeout(PATIENCE, attempt).await.expect("the attempt hangs");
    for _ in 0..100 {
        let exchange = sent(&node);
        assert_eq!(None, exchange.connection);
        assert_eq!("refused", unavailable(at_once(exchange.reply).await.expect("the failure is known")));
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_never_polled_is_neither_sent_nor_missed() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    fake.calls();
    fake.is(|behavior| behavior.replies = false);
    let requests: Vec<_> = (0..10).map(|_| sent(&node)).collect();
    tokio::time::sleep(NODE_TIMEOUT).await;
    drop(requests);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!((Some(ConnectionId(1)), true), (node.status().connection, fake.calls().is_empty()));
}

/// Returns a node with restart admission.
fn checked_node() -> (Fake, Node<Fake>) {
    let fake = Fake::default();
    let options = Options::new(Arc::new(TokioRuntime::new())).longest_ttl(Duration::from_secs(1));
    (fake.clone(), Node::new(fake, &options))
}

fn reason(reply: node::Reply) -> Option<QuarantineReason> {
    match reply {
        node::Reply::Quarantined(reply, Quarantine { reason, .. }) => {
            assert_eq!(node::Reply::Granted, *reply);
            Some(reason)
        }
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn votes_count_within_one_admission_and_releases_always() {
    let (fake, node) = checked_node();
    assert_eq!(Some(QuarantineReason::NotChecked), reason(lock(&node).await.unwrap()));
    assert!(node.status().quarantine.is_some());
    assert_eq!(node::Reply::Deleted(true), sent(&node).reply.await.unwrap());

    fake.is(|behavior| behavior.stamp = Some("1 run 0 5 1000"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(None, node.status().quarantine);
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());

    // The server loses its locks.
    let request = Request::Acquire(claim("a"), ttl());
    let begin = || match node.begin(&request) {
        Begun::Sent(exchange) => exchange.reply,
        Begun::Connecting(_) => panic!("the node is connecting"),
    };
    let vote = begin();
    fake.hub().flushed();
    assert_eq!(Some(QuarantineReason::DataLost), reason(lock(&node).await.unwrap()), "lost before");
    assert_eq!(Some(QuarantineReason::DataLost), reason(vote.await.unwrap()), "lost in between");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());

    let vote = begin();
    fake.hub().flushed();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(Some(QuarantineReason::Changed), reason(vote.await.unwrap()), "it was admitted again");
}

#[tokio::test(start_paused = true)]
async fn a_vote_of_a_server_whose_clock_has_jumped_does_not_count() {
    let (fake, node) = checked_node();
    fake.is(|behavior| behavior.stamp = Some("1 run 0 5 1000"));
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());

    let vote = |ahead: u64| {
        fake.is(|behavior| behavior.ahead = Some(Duration::from_millis(ahead)));
        lock(&node)
    };
    assert_eq!(node::Reply::Granted, vote(4).await.unwrap(), "within the tolerance");
    assert_eq!(Some(QuarantineReason::ClockJumped), reason(vote(500).await.unwrap()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    // Within the quarantine, which is counted by the clock of the client although the stamp of this server is old.
    assert_eq!(Some(QuarantineReason::ClockJumped), reason(vote(500).await.unwrap()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(node::Reply::Granted, vote(500).await.unwrap());

    // The comparison with readings over earlier connections goes on.
    fake.cut();
    fake.is(|behavior| behavior.ahead = Some(Duration::from_millis(900)));
    fake.until(|fake| fake.connects() == 2).await;
    settles(|| node.status().quarantine.is_some_and(|out| out.reason == QuarantineReason::ClockJumped)).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_notices_that_the_clock_has_jumped() {
    let (fake, node) = checked_node();
    fake.is(|behavior| behavior.stamp = Some("1 run 0 5 1000"));
    lock(&node).await.unwrap();
    fake.is(|behavior| behavior.ahead = Some(Duration::from_secs(10)));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(Some(QuarantineReason::ClockJumped), node.status().quarantine.map(|out| out.reason));
}

#[tokio::test(start_paused = true)]
async fn a_strict_program_counts_a_server_once_it_has_watched_its_clock() {
    let fake = Fake::default();
    fake.is(|behavior| behavior.stamp = Some("1 run 0 5 1000"));
    let options = Options::new(Arc::new(TokioRuntime::new())).longest_ttl(Duration::from_secs(1));
    let node = Node::new(fake.clone(), &options.strict_clocks(true));
    assert_eq!(Some(QuarantineReason::ClockNotWatched), reason(lock(&node).await.unwrap()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(Some(QuarantineReason::ClockNotWatched), reason(lock(&node).await.unwrap()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
    // It goes on over another connection.
    fake.cut();
    fake.until(|fake| fake.connects() == 2).await;
    settles(|| node.status().connection.is_some()).await;
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn votes_count_although_the_clock_must_not_be_read() {
    let (fake, node) = checked_node();
    fake.is(|behavior| (behavior.stamp, behavior.ahead) = (Some("1 run 0 5 1000"), None));
    fake.calls();
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
    assert!(!fake.calls().contains(&"TIME"), "it is not tried again");
}

#[tokio::test(start_paused = true)]
async fn a_vote_without_the_reading_that_was_permitted_before_does_not_count() {
    // With pushes in order, only the clock is read behind a vote. Otherwise a comparison reads it.
    for reports_flushes in [false, true] {
        let (fake, node) = checked_node();
        fake.is(|behavior| {
            (behavior.stamp, behavior.reports_flushes) = (Some("1 run 0 5 1000"), reports_flushes);
        });
        assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
        fake.is(|behavior| behavior.ahead = None);
        assert_eq!(Some(QuarantineReason::NotChecked), reason(lock(&node).await.unwrap()));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(
            node::Reply::Granted,
            lock(&node).await.unwrap(),
            "as over a connection without the right"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_behind_a_vote_is_sent_in_full_if_the_server_has_lost_its_script() {
    let in_full =
        [vec!["SET", "EVALSHA compare", "EVAL compare"], vec!["SET", "EVALSHA look", "TIME", "EVAL look"]];
    for (keeps_order, in_full) in [true, false].into_iter().zip(in_full) {
        let (fake, node) = checked_node();
        fake.is(|behavior| {
            behavior.stamp = Some("1 run 0 5 1000");
            (behavior.keeps_order, behavior.knows_scripts) = (keeps_order, false);
        });
        for _ in 0..2 {
            assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
            assert_eq!(in_full, fake.calls());
        }
        fake.is(|behavior| behavior.gives_up_scripts = true);
        let error = lock(&node).await.unwrap_err();
        assert_eq!(NodeErrorKind::Unknown, error.kind(), "the vote was sent: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_stamp_only_the_clock_is_read_behind_votes() {
    for keeps_order in [true, false] {
        let (fake, node) = checked_node();
        let info = "redis_version:7.0.15\r\nrun_id:fake\r\nrole:master\r\nmaster_replid2:0\r\nuptime_in_seconds:60\r\n";
        fake.is(|behavior| {
            (behavior.keeps_order, behavior.check_error) = (keeps_order, Some("NOPERM"));
            behavior.info = Reply::Bytes(info.into());
        });
        for _ in 0..2 {
            assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
            let calls = fake.calls();
            assert!(calls.ends_with(&["SET", "TIME"]), "{calls:?}");
        }
        fake.is(|behavior| behavior.ahead = Some(Duration::from_millis(500)));
        assert_eq!(Some(QuarantineReason::ClockJumped), reason(lock(&node).await.unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn the_clock_is_still_read_after_a_check_that_has_failed() {
    for reports_flushes in [false, true] {
        let (fake, node) = checked_node();
        fake.is(|behavior| {
            (behavior.stamp, behavior.reports_flushes) = (Some("1 run 0 5 1000"), reports_flushes);
        });
        assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
        fake.is(|behavior| behavior.check_error = Some("LOADING"));
        if reports_flushes {
            // No check follows the vote, but there is one every second.
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(Some(QuarantineReason::NotChecked), reason(lock(&node).await.unwrap()));
        fake.is(|behavior| behavior.check_error = None);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
        fake.is(|behavior| behavior.ahead = Some(Duration::from_secs(10)));
        assert_eq!(Some(QuarantineReason::ClockJumped), reason(lock(&node).await.unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_vote_over_a_replaced_connection_does_not_count() {
    let (fake, node) = checked_node();
    fake.is(|behavior| behavior.stamp = Some("1 run 0 5 1000"));
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());

    fake.is(|behavior| behavior.holds = true);
    let mut vote = pin!(node.call(Request::Acquire(claim("a"), ttl())));
    assert!(at_once(vote.as_mut()).await.is_none());
    drop_request(&node).await;
    fake.until(|fake| fake.connects() == 2 && fake.open() == 2).await;
    settles(|| node.status().connection == Some(ConnectionId(2))).await;
    fake.is(|behavior| behavior.holds = false);
    let late = vote.await.unwrap();
    assert_eq!(Some(QuarantineReason::Changed), reason(late), "the server may have lost locks in between");
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
}
