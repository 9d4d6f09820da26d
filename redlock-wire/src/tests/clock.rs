//! Tests of the measured rate of a server's clock.

use super::reconnect::{Log, subscribe};
use super::*;

/// Sets by how much the clock of the server is ahead, in milliseconds.
fn set_ahead(fake: &Fake, millis: u64) {
    fake.is(|behavior| behavior.ahead = Some(Duration::from_millis(millis)));
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_runs_fast_is_logged_once_and_again_when_it_is_right() {
    let log = Log::default();
    let _subscribed = subscribe(log.clone());
    let (fake, node) = node();
    let fast = || node.status().clock_rate.is_some_and(|rate| rate.exceeds(0.01));
    let messages = || {
        let lines = log.0.lock().unwrap();
        let count = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
        (count("clock of the server runs fast"), count("clock of the server right again"))
    };
    node.set_clock_drift_factor(0.01);
    lock(&node).await.unwrap();
    assert_eq!(None, node.status().clock_rate, "there is one reading");
    pass(6).await;
    assert!(node.status().clock_rate.is_some() && !fast());
    for more in 1..=3 {
        set_ahead(&fake, 150 * more);
        pass(10).await;
        assert_eq!((true, (1, 0)), (fast(), messages()));
    }
    // Over another connection to the same server, the measurement goes on.
    fake.cut();
    fake.until(|fake| fake.connects() == 2).await;
    settles(|| node.status().connection.is_some()).await;
    assert_eq!((true, (1, 0)), (fast(), messages()));
    pass(100).await;
    assert_eq!((false, (1, 1)), (fast(), messages()));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_stands_still_is_logged_once() {
    let log = Log::default();
    let _subscribed = subscribe(log.clone());
    let (fake, node) = node();
    set_ahead(&fake, 1_000_000);
    node.set_clock_drift_factor(0.01);
    lock(&node).await.unwrap();
    for second in 1..=200 {
        set_ahead(&fake, 1_000_000 - 1_000 * second);
        pass(1).await;
    }
    let lines = log.0.lock().unwrap().clone();
    let count = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    assert_eq!((0, 1), (count("runs fast"), count("runs slowly, or stands still")), "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn probes_read_the_clock_and_requests_do_not() {
    let (fake, node) = node();
    lock(&node).await.unwrap();
    for _ in 0..100 {
        lock(&node).await.unwrap();
    }
    assert!(fake.calls().iter().all(|name| *name == "SET"));
    pass(16).await;
    assert_eq!(vec!["TIME"; 3], fake.calls());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_must_not_be_read_is_not_read_again() {
    let (fake, node) = node();
    fake.is(|behavior| behavior.ahead = None);
    lock(&node).await.unwrap();
    pass(16).await;
    assert_eq!((vec!["SET", "TIME", "PING", "PING"], None), (fake.calls(), node.status().clock_rate));
    assert_eq!(Some(ConnectionId(1)), node.status().connection);
}

#[tokio::test(start_paused = true)]
async fn with_restart_admission_only_the_quarantine_is_logged() {
    let log = Log::default();
    let _subscribed = subscribe(log.clone());
    let fake = Fake::default();
    fake.is(|behavior| behavior.stamp = Some("1 run 0 5 1000"));
    let options = Options::new(Arc::new(TokioRuntime::new())).longest_ttl(Duration::from_secs(1));
    let node = Node::new(fake.clone(), &options);
    node.set_clock_drift_factor(0.01);
    lock(&node).await.unwrap();
    pass(3).await;
    set_ahead(&fake, 500);
    pass(3).await;
    assert!(node.status().clock_rate.is_some_and(|rate| rate.exceeds(0.01)));
    let lines = log.0.lock().unwrap().clone();
    let count = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    assert_eq!((0, 1), (count("runs fast"), count("jumped ahead")), "{lines:#?}");
}
