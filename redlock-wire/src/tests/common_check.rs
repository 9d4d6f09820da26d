//! Tests of the check that several votes have in common.

use redlock_core::node::QuarantineReason;
use tokio::task::{JoinHandle, yield_now};

use super::*;

/// Returns a node whose server is admitted, and whose votes have checks in common.
async fn admitted() -> (Fake, Arc<Node<Fake>>) {
    let fake = Fake::default();
    fake.is(|behavior| {
        behavior.stamp = Some("1 run 0 5 1000");
        behavior.queues_at_first_poll = true;
    });
    let options = Options::new(Arc::new(TokioRuntime::new())).longest_ttl(Duration::from_secs(1));
    let node = Arc::new(Node::new(fake.clone(), &options));
    assert_eq!(node::Reply::Granted, lock(&node).await.unwrap());
    assert_eq!(vec!["SET", "EVALSHA compare"], fake.calls());
    (fake, node)
}

/// Begins to lock, in its own task.
fn begin(node: &Arc<Node<Fake>>) -> JoinHandle<Result<node::Reply, NodeError>> {
    let node = Arc::clone(node);
    tokio::spawn(async move { lock(&node).await })
}

/// Waits until the server has these commands, and no further one comes.
async fn commands(fake: &Fake, expected: &[&str]) {
    settle().await;
    assert_eq!(expected, fake.calls());
}

/// Lets all tasks run.
async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_vote_has_a_check_behind_it() {
    let (fake, node) = admitted().await;
    fake.is(|behavior| behavior.holds = true);
    let mut votes = vec![begin(&node)];
    commands(&fake, &["SET", "EVALSHA compare"]).await;
    votes.extend([begin(&node), begin(&node), begin(&node)]);
    commands(&fake, &["SET", "SET", "SET", "EVALSHA compare"]).await;
    votes.push(begin(&node));
    commands(&fake, &["SET", "EVALSHA compare"]).await;
    fake.is(|behavior| behavior.holds = false);
    for vote in votes {
        assert_eq!(node::Reply::Granted, vote.await.unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_vote_behind_a_step_of_the_clock_does_not_count_even_if_an_earlier_check_is_in_flight() {
    let (fake, node) = admitted().await;
    fake.is(|behavior| behavior.holds = true);
    let before = begin(&node);
    commands(&fake, &["SET", "EVALSHA compare"]).await;
    fake.is(|behavior| behavior.ahead = Some(Duration::from_millis(500)));
    let behind = begin(&node);
    settle().await;
    fake.is(|behavior| behavior.holds = false);
    let reason = |reply| match reply {
        Ok(node::Reply::Quarantined(_, quarantine)) => Some(quarantine.reason),
        _ => None,
    };
    assert_eq!(Some(QuarantineReason::ClockJumped), reason(behind.await.unwrap()));
    drop(before);
}
