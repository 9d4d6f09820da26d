//! The output through `tracing`: events, their fields, their spans, and no secrets.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

mod common;

use std::collections::BTreeSet;
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{MS, TTL, World, stranger, with_five};
use redlock_core::{FencingToken, KeepAlive, ReleaseOutcome, Ttl};
use redlock_testkit::{Fault, Operation};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber, subscriber};

/// One event: its message, its level, its other fields, and the spans around it.
#[derive(Clone, Debug, Default)]
struct Told {
    message: String,
    level: String,
    fields: String,
    spans: Vec<String>,
}

/// A recording of all events.
#[derive(Clone, Default)]
struct Recording(Arc<Inner>);

#[derive(Default)]
struct Inner {
    told: Mutex<Vec<Told>>,
    spans: Mutex<Vec<String>>,
    entered: Mutex<Vec<u64>>,
    next: AtomicU64,
}

struct Fields<'a>(&'a mut Told);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.0.message = format!("{value:?}"),
            name => write!(self.0.fields, " {name}={value:?}").expect("a String takes all"),
        }
    }
}

impl Subscriber for Recording {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redlock")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut told = Told::default();
        span.record(&mut Fields(&mut told));
        assert_eq!(("redlock", Level::DEBUG), (span.metadata().target(), *span.metadata().level()));
        self.0.spans.lock().unwrap().push(format!("{}{}", span.metadata().name(), told.fields));
        Id::from_u64(self.0.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut told = Told { level: event.metadata().level().to_string(), ..Told::default() };
        event.record(&mut Fields(&mut told));
        let spans = self.0.spans.lock().unwrap();
        let entered = self.0.entered.lock().unwrap();
        told.spans = entered.iter().map(|id| spans[usize::try_from(*id).unwrap() - 1].clone()).collect();
        self.0.told.lock().unwrap().push(told);
    }

    fn enter(&self, span: &Id) {
        self.0.entered.lock().unwrap().push(span.into_u64());
    }

    fn exit(&self, span: &Id) {
        assert_eq!(Some(span.into_u64()), self.0.entered.lock().unwrap().pop());
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}
}

impl Recording {
    /// Returns the events since the last call.
    fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.0.told.lock().unwrap())
    }

    /// Returns the events with one message since the last call.
    fn of(&self, message: &str) -> Vec<Told> {
        let mut told = self.told();
        told.retain(|told| told.message == message);
        told
    }
}

/// Runs a test on five fake nodes, and records all events.
fn recorded<F>(test: impl FnOnce(World, Recording) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let recording = Recording::default();
    subscriber::with_default(recording.clone(), || with_five(|world| test(world, recording)));
}

#[test]
fn an_attempt_tells_its_votes_and_its_end() {
    recorded(async |world, recording| {
        world.nodes[4].inject(Fault::delay(7 * MS));
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        world.sleep(10 * MS).await;
        let told = recording.told();
        let messages: Vec<_> = told.iter().map(|told| &*told.message).collect();
        assert_eq!(
            [
                "node response",
                "node response",
                "node response",
                "attempt completed",
                "node response",
                "request completed",
                "node response",
            ],
            *messages
        );
        let span = format!("attempt resources=\"a\" lease={}", guard.fingerprint());
        for vote in told.iter().filter(|told| told.message == "node response") {
            assert_eq!(
                (vec![span.clone()], "TRACE"),
                (vote.spans.clone(), &*vote.level),
                "in the background too"
            );
        }
        assert_eq!(
            " node=\"fake-4\" operation=\"acquire\" outcome=\"granted\" latency=7ms",
            told.last().unwrap().fields
        );
        assert_eq!(
            format!(" resources=\"a\" lease={} outcome=\"granted\"", guard.fingerprint()),
            told[3].fields
        );
        assert_eq!(" resources=\"a\" outcome=\"granted\" waited=0ns", told[5].fields);
    });
}

#[test]
fn a_fencing_token_is_told_and_so_is_the_round_that_confirms_it() {
    recorded(async |world, recording| {
        world.nodes[0].inner().set_counter("a", FencingToken::new(41));
        let guard = world.redlock.lock("a", TTL).fenced().await.unwrap();
        world.settle().await;
        let told = recording.told();
        let attempted = told.iter().find(|told| told.message == "attempt completed").unwrap();
        assert!(attempted.fields.ends_with(" outcome=\"granted\" fencing_token=42"), "{attempted:?}");
        let confirmed = told.iter().filter(|told| told.fields.contains("operation=\"confirm\""));
        assert_eq!(3, confirmed.clone().count(), "by the votes that decided");
        assert!(confirmed.clone().all(|vote| vote.spans == attempted.spans), "{told:?}");

        world.nodes.iter().for_each(|node| node.inner().set_counter("a", FencingToken::new(43)));
        guard.extend(TTL).await.unwrap_err();
        let told = recording.of("node response");
        assert!(told.iter().any(|vote| vote.fields.contains("outcome=\"superseded\"")), "{told:?}");
    });
}

#[test]
fn whoever_is_kept_waiting_is_told_by_whom() {
    recorded(async |world, recording| {
        for node in &world.nodes[..3] {
            node.inner().set_holder("a", stranger().token().clone(), Ttl::MAX);
        }
        world.nodes[3].crash();
        world.redlock.lock("a", TTL).max_attempts(1).await.unwrap_err();
        let told = recording.told();
        let attempted = told.iter().find(|told| told.message == "attempt completed").unwrap();
        let holder = stranger().token().fingerprint();
        assert!(
            attempted.fields.ends_with(&format!(" outcome=\"contended\" holder={holder}")),
            "{attempted:?}"
        );
        let failed = told.iter().find(|told| told.fields.contains("outcome=\"failed\"")).unwrap();
        assert_eq!("DEBUG", failed.level);
        assert!(failed.fields.ends_with(" error=connection refused"), "{failed:?}");
        assert_eq!(1, told.iter().filter(|told| told.message == "attempt completed").count(), "once");
    });
}

#[test]
fn an_attempt_that_nobody_waits_for_is_told_once() {
    recorded(async |world, recording| {
        world.nodes.iter().for_each(|node| node.inject(Fault::hang().on(Operation::Acquire)));
        let redlock = world.redlock.clone();
        let mut asking = Box::pin(IntoFuture::into_future(redlock.lock("a", TTL)));
        std::future::poll_fn(|cx| {
            assert!(asking.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(asking);
        world.sleep(Duration::from_secs(1)).await;
        let told = recording.of("attempt completed");
        assert_eq!(1, told.len(), "{told:?}");
        assert!(told[0].fields.ends_with("outcome=\"abandoned\""), "{told:?}");
        assert_eq!(1, told[0].spans.len(), "within the span of the attempt");
    });
}

#[test]
fn a_release_is_told_also_of_a_guard_that_is_dropped() {
    recorded(async |world, recording| {
        let guard = world.lock().await;
        let token = guard.fingerprint();
        drop(guard);
        world.settle().await;
        let released = recording.of("lease released");
        assert_eq!(1, released.len());
        assert_eq!(format!(" resources=\"a\" lease={token} outcome=\"released\""), released[0].fields);
        assert_eq!(vec![format!("release resources=\"a\" lease={token}")], released[0].spans);

        let guard = world.lock().await;
        world.sleep(TTL).await;
        assert_eq!(ReleaseOutcome::AlreadyExpired, guard.release().await.unwrap());
        assert!(recording.of("lease released")[0].fields.ends_with("outcome=\"already_expired\""));
    });
}

#[test]
fn renewals_and_a_loss_are_told() {
    recorded(async |world, recording| {
        let guard = world.redlock.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        world.sleep(TTL).await;
        let told = recording.told();
        let renewed = told.iter().filter(|told| told.message == "lease renewed").count();
        assert!((2..=4).contains(&renewed), "{renewed}");
        world.nodes.iter().for_each(|node| node.inject(Fault::unavailable()));
        guard.lost().await;
        let told = recording.told();
        let failed: Vec<_> = told.iter().filter(|told| told.message == "renewal failed").collect();
        let levels: Vec<_> = failed.iter().map(|told| &*told.level).collect();
        assert_eq!("INFO", levels[0]);
        assert!(
            (2..24).contains(&levels.len()) && levels[1..].iter().all(|level| *level == "DEBUG"),
            "{failed:?}"
        );
        assert_eq!(1, told.iter().filter(|told| told.level == "WARN").count(), "{told:?}");
        let lost: Vec<_> = told.iter().filter(|told| told.message == "lease lost").collect();
        assert_eq!((1, "WARN"), (lost.len(), &*lost[0].level));
        assert!(lost[0].fields.contains("reason=lease expired before it could be renewed"), "{lost:?}");
        drop(guard);
        world.settle().await;
        assert!(recording.of("lease lost").is_empty(), "told once");
    });
}

/// Returns the first cells of the tables in `docs/monitoring.md`.
fn documented() -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/monitoring.md");
    let text = std::fs::read_to_string(path).unwrap();
    let first = |line: &str| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned());
    text.lines().filter_map(first).filter(|name| !name.starts_with("redlock_")).collect()
}

#[test]
fn all_that_is_told_is_documented_and_no_token_is_ever_told() {
    recorded(async |world, recording| {
        let ours = common::builder(&world.process, &world.nodes).owner("host-1").build().unwrap();
        let guard = ours.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        let mut tokens = vec![world.nodes[0].inner().holder("a").unwrap()];
        world.redlock.try_lock("a", TTL).await.unwrap();
        world.redlock.inspect("a").await.unwrap();
        world.sleep(TTL).await;
        guard.extend(TTL).await.unwrap();
        let detached = guard.detach().await;
        let guard = ours.resume(&detached).await.unwrap();
        world.nodes.iter().for_each(|node| node.inner().clear());
        guard.extend(TTL).await.unwrap_err();
        guard.lost().await;
        drop(guard);
        let guard = ours.lock("b", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        tokens.push(world.nodes[0].inner().holder("b").unwrap());
        world.nodes.iter().for_each(|node| node.inject(Fault::hang().on(Operation::Extend)));
        world.sleep(TTL / 2).await;
        drop(guard);
        world.nodes.iter().for_each(redlock_testkit::Faulty::clear_faults);
        let work = async {
            world.nodes.iter().for_each(|node| node.inject(Fault::unavailable()));
        };
        ours.run("c", TTL, async |_| work.await).await.unwrap();
        world.nodes.iter().for_each(redlock_testkit::Faulty::clear_faults);
        world.nodes.iter().for_each(|node| node.inject(Fault::hang()));
        let busy = common::builder(&world.process, &world.nodes).max_concurrent_attempts(1).build().unwrap();
        let lock = |name| busy.lock(name, TTL).max_wait(Duration::ZERO).into_future();
        let results = futures_util::future::join_all(["d", "e", "f", "g"].map(lock)).await;
        let overloaded = results.iter().filter_map(|result| result.as_ref().err());
        assert!(overloaded.filter(|error| error.kind() == redlock_core::ErrorKind::Overloaded).count() > 0);

        let told = recording.told();
        let spans = recording.0.spans.lock().unwrap().clone();
        let names = spans.iter().map(|span| span.split(' ').next().unwrap());
        let names = names.chain(told.iter().map(|told| &*told.message)).map(str::to_owned);
        assert_eq!(documented(), names.collect::<BTreeSet<_>>());
        let everything = format!("{told:?} {spans:?}");
        for token in &tokens {
            let token = String::from_utf8(token.as_bytes().to_vec()).unwrap();
            assert!(token.starts_with("host-1#") && !everything.contains(&token[7..]), "{token}");
        }
        assert!(everything.contains(&tokens[0].fingerprint().to_string()));
        assert!(!everything.contains(std::str::from_utf8(stranger().token().as_bytes()).unwrap()));
    });
}
