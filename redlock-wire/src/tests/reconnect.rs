//! Tests of connection attempts: their time limits, their delays and their log messages.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{self, DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Metadata, Subscriber};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn node_with(options: &Options) -> (Fake, Node<Fake>) {
    let fake = Fake::default();
    (fake.clone(), Node::new(fake, options))
}

fn options() -> Options {
    Options::new(Arc::new(TokioRuntime::new()))
}

/// Returns the duration of the first attempt with a server that leaves it hanging.
async fn time_of_attempt(node: &Node<Fake>, fake: &Fake) -> Duration {
    fake.is(|behavior| behavior.accepts = Ok(false));
    let start = Now::now();
    // The clock of the supervisor may be slightly ahead of the paused one.
    let reason =
        timeout(60 * SECOND, node.call(Request::Acquire(claim("a"), ttl()))).await.expect("the call hangs");
    assert!(unavailable(reason).contains("connection attempt timed out"));
    start.elapsed()
}

/// Returns true if the times are equal, except for the rounding of timers to milliseconds.
fn is_about(millis: u64, duration: Duration) -> bool {
    (millis..millis + 10).contains(&u64::try_from(duration.as_millis()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_connection_attempt_can_take_almost_as_long_as_a_request() {
    for (node_timeout, chosen, expected) in [
        (100, 300, 300),
        (1000, 300, 937),
        (300, 300, 300),
        (1000, 2000, 2000),
        (u64::MAX, 300, 9375), // capped
        (u64::MAX, 20_000, 20_000),
    ] {
        let options = options().connect_timeout(Duration::from_millis(chosen));
        let ((fake, node), (another, without_timeout)) = (node_with(&options), node_with(&options));
        node.set_node_timeout(Duration::from_millis(node_timeout));
        let elapsed = time_of_attempt(&node, &fake).await;
        assert!(is_about(expected, elapsed), "{elapsed:?} instead of {expected} ms");
        let elapsed = time_of_attempt(&without_timeout, &another).await;
        assert!(is_about(chosen, elapsed), "each node has its own limit: {elapsed:?} instead of {chosen} ms");
    }
}

/// Returns the delays between the first attempts if the server refuses connections.
async fn pauses(options: Options, reason: &'static str, count: usize) -> Vec<Duration> {
    let (fake, node) = node_with(&options);
    fake.is(|behavior| behavior.accepts = Err(reason));
    assert!(lock(&node).await.is_err());
    let mut last = Now::now();
    let mut pauses = Vec::new();
    for attempt in 2..count + 2 {
        timeout(1000 * SECOND, fake.wait(|fake| fake.connects() == attempt)).await.expect("no attempt");
        pauses.push(last.elapsed());
        last = Now::now();
    }
    pauses
}

#[tokio::test(start_paused = true)]
async fn reconnect_delays_grow_to_the_chosen_maximum() {
    let between = |pause: &Duration, delay: Duration| {
        assert!((delay / 2..=delay + Duration::from_millis(2)).contains(pause), "{pause:?} of {delay:?}");
    };
    let longest = async |options, reason| *pauses(options, reason, 12).await.last().unwrap();
    between(&longest(options(), "refused").await, Duration::from_millis(200));
    between(&longest(options().reconnect_delay(3 * SECOND), "refused").await, 3 * SECOND);
    for refused in ["WRONGPASS invalid username-password pair", "NOAUTH Authentication required."] {
        for pause in pauses(options(), refused, 3).await {
            between(&pause, 5 * SECOND);
        }
        between(&longest(options().reconnect_delay(9 * SECOND), refused).await, 9 * SECOND);
    }
}

/// Records the messages with their fields.
#[derive(Clone, Default)]
pub(super) struct Log(pub(super) Arc<Mutex<Vec<String>>>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name()); // writing to a string cannot fail
    }
}

/// Sends the events of this thread to `subscriber` until the returned value is dropped.
///
/// While a process has one subscriber, `tracing` lets the first thread that reaches an event decide for all threads. A
/// thread of another test, which has no subscriber, would disable the event. With two subscribers, `tracing` consults
/// both.
pub(super) fn subscribe(subscriber: impl Subscriber + Send + Sync) -> (DefaultGuard, Dispatch) {
    let second = Dispatch::new(NoSubscriber::new());
    (subscriber::set_default(subscriber), second)
}

#[tokio::test(start_paused = true)]
async fn a_flapping_connection_does_not_fill_the_log() {
    let log = Log::default();
    let _subscribed = subscribe(log.clone());
    let (fake, node) = node_with(&options());
    lock(&node).await.unwrap();
    for generation in 2..=100 {
        fake.cut();
        fake.until(|fake| fake.connects() == generation && fake.open() == 1).await;
    }
    let lines = || log.0.lock().unwrap().clone();
    let count = |what: &str| lines().iter().filter(|line| line.contains(what)).count();
    // The delays between the losses are at most 200 ms long, so all losses are in one period.
    assert_eq!((7, 6), (count("=node connected "), count("node disconnected")), "{:#?}", lines());

    // A change is logged once, at the latest in the next minute.
    tokio::time::sleep(61 * SECOND).await;
    fake.is(|behavior| behavior.accepts = Err("refused"));
    fake.cut();
    tokio::time::sleep(10 * SECOND).await;
    fake.is(|behavior| behavior.accepts = Err("WRONGPASS"));
    tokio::time::sleep(50 * SECOND).await;
    let lost = count("node disconnected") - 6;
    assert_eq!(
        (1, 1, 3),
        (count("reason=\"refused\""), count("reason=\"WRONGPASS\""), lost),
        "{:#?}",
        lines()
    );
    // The first message after the period counts the 93 losses that were not logged.
    assert_eq!((1, 1), (count("unlogged="), count("unlogged=93 ")), "{:#?}", lines());

    // A failure that lasts is logged again every minute.
    tokio::time::sleep(120 * SECOND).await;
    assert_eq!(3, count("reason=\"WRONGPASS\""), "{:#?}", lines());
}
