//! The `tracing` output: events, fields and spans, without secrets.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::recording::{Inner, Recording};
use crate::common::{MS, TTL, World, foreign_claim, subscribe, with_five};
use redlock_core::node::Ttl;
use redlock_core::{FencingToken, KeepAlive, ReleaseOutcome};
use redlock_testkit::{Fault, Operation};

/// Runs a test on five fake nodes, and records all events.
fn recorded<F>(test: impl FnOnce(World, Recording) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    recorded_by(Recording::default(), test);
}

fn recorded_by<F>(recording: Recording, test: impl FnOnce(World, Recording) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let _subscribed = subscribe(recording.clone());
    with_five(|world| test(world, recording));
}

#[test]
fn an_attempt_emits_its_node_responses_and_its_outcome() {
    recorded(async |world, recording| {
        world.nodes[4].inject(Fault::delay(7 * MS));
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        world.sleep(10 * MS).await;
        let events = recording.events();
        let messages: Vec<_> = events.iter().map(|event| &*event.message).collect();
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
        for vote in events.iter().filter(|event| event.message == "node response") {
            assert_eq!(
                (vec![span.clone()], "TRACE"),
                (vote.spans.clone(), &*vote.level),
                "even for a reply in the background"
            );
        }
        assert_eq!(
            " node=\"fake-4\" operation=\"acquire\" outcome=\"granted\" latency=7ms",
            events.last().unwrap().fields
        );
        assert_eq!(
            format!(" resources=\"a\" lease={} outcome=\"granted\"", guard.fingerprint()),
            events[3].fields
        );
        assert_eq!(" resources=\"a\" outcome=\"granted\" waited=0ns", events[5].fields);
    });
}

#[test]
fn a_fencing_token_and_its_confirmation_are_emitted() {
    recorded(async |world, recording| {
        world.nodes[0].inner().set_counter("a", FencingToken::new(41));
        let guard = world.redlock.lock("a", TTL).fenced().await.unwrap();
        world.settle().await;
        let events = recording.events();
        let attempted = events.iter().find(|event| event.message == "attempt completed").unwrap();
        assert!(attempted.fields.ends_with(" outcome=\"granted\" fencing_token=42"), "{attempted:?}");
        let confirmed = events.iter().filter(|event| event.fields.contains("operation=\"confirm\""));
        assert_eq!(5, confirmed.clone().count(), "those after the decision, too");
        assert!(confirmed.clone().all(|vote| vote.spans == attempted.spans), "{events:?}");

        world.nodes.iter().for_each(|node| node.inner().set_counter("a", FencingToken::new(43)));
        guard.extend(TTL).await.unwrap_err();
        let events = recording.of("node response");
        assert!(events.iter().any(|vote| vote.fields.contains("outcome=\"superseded\"")), "{events:?}");
    });
}

#[test]
fn the_event_of_a_contended_attempt_names_the_holder() {
    recorded(async |world, recording| {
        for node in &world.nodes[..3] {
            node.inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX);
        }
        world.nodes[3].crash();
        world.redlock.lock("a", TTL).max_attempts(1).await.unwrap_err();
        let events = recording.events();
        let attempted = events.iter().find(|event| event.message == "attempt completed").unwrap();
        let holder = foreign_claim().token().fingerprint();
        assert!(
            attempted.fields.ends_with(&format!(" outcome=\"contended\" holder={holder}")),
            "{attempted:?}"
        );
        let failed = events.iter().find(|event| event.fields.contains("outcome=\"failed\"")).unwrap();
        assert_eq!("DEBUG", failed.level);
        assert!(failed.fields.ends_with(" error=connection refused"), "{failed:?}");
        assert_eq!(1, events.iter().filter(|event| event.message == "attempt completed").count(), "once");
    });
}

#[test]
fn the_event_of_a_waiter_has_its_position() {
    recorded(async |world, recording| {
        let _guard = world.other_client().lock("a", TTL).await.unwrap();
        world.redlock.lock("a", TTL).max_wait(50 * MS).await.unwrap_err();
        let events = recording.of("attempt completed");
        assert!(events.last().unwrap().fields.ends_with(" rank=1 waiters=1"), "{events:?}");
    });
}

#[test]
fn a_dropped_attempt_is_emitted_once() {
    recorded(async |world, recording| {
        world.nodes.iter().for_each(|node| node.inject(Fault::hang().on(Operation::Acquire)));
        let redlock = world.redlock.clone();
        let mut request = Box::pin(IntoFuture::into_future(redlock.lock("a", TTL)));
        std::future::poll_fn(|cx| {
            assert!(request.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(request);
        world.sleep(Duration::from_secs(1)).await;
        let events = recording.of("attempt completed");
        assert_eq!(1, events.len(), "{events:?}");
        assert!(events[0].fields.ends_with("outcome=\"canceled\""), "{events:?}");
        assert_eq!(1, events[0].spans.len(), "within the span of the attempt");
    });
}

#[test]
fn the_release_of_a_dropped_guard_is_emitted() {
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
        let mut events = recording.events();
        events.retain(|event| event.message.starts_with("lease "));
        let [lost, released] = &events[..] else { panic!("{events:?}") };
        assert!(lost.fields.ends_with("reason=lease expired"), "{lost:?}");
        assert!(released.fields.ends_with("outcome=\"already_expired\""), "{released:?}");
    });
}

#[test]
fn renewals_and_a_loss_are_emitted() {
    recorded(async |world, recording| {
        let guard = world.redlock.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        world.sleep(TTL).await;
        let events = recording.events();
        let renewed = events.iter().filter(|event| event.message == "lease renewed").count();
        assert!((2..=4).contains(&renewed), "{renewed}");
        world.nodes.iter().for_each(|node| node.inject(Fault::unavailable()));
        guard.lost().await;
        guard.check().unwrap_err(); // sees the loss again
        let events = recording.events();
        let failed: Vec<_> = events.iter().filter(|event| event.message == "renewal failed").collect();
        let levels: Vec<_> = failed.iter().map(|event| &*event.level).collect();
        assert_eq!("INFO", levels[0]);
        assert!(
            (2..24).contains(&levels.len()) && levels[1..].iter().all(|level| *level == "DEBUG"),
            "{failed:?}"
        );
        assert_eq!(1, events.iter().filter(|event| event.level == "WARN").count(), "{events:?}");
        let lost: Vec<_> = events.iter().filter(|event| event.message == "lease lost").collect();
        assert_eq!((1, "WARN"), (lost.len(), &*lost[0].level));
        assert!(lost[0].fields.contains("reason=lease expired before it could be renewed"), "{lost:?}");
        drop(guard);
        world.settle().await;
        assert!(recording.of("lease lost").is_empty(), "a loss is emitted once");
    });
}

/// Its release finds that the keys are gone.
#[test]
fn work_that_finishes_without_its_lock_emits_one_loss() {
    recorded(async |world, recording| {
        let request = world.redlock.lock("a", TTL);
        let result = request.run(async |_| world.nodes.iter().for_each(|node| node.inner().clear())).await;
        result.unwrap_err();
        let lost = recording.of("lease lost");
        assert_eq!(1, lost.len(), "{lost:?}");
    });
}

/// Acquires and releases a lock on 128 names of 1 KiB.
async fn large_cycle(world: &World, number: u32) {
    let names = (0..128).map(|name| format!("{number:04}-{name:04}{}", "x".repeat(1015)));
    let guard = world.redlock.lock(names.collect::<Vec<_>>(), 100 * MS).await.unwrap();
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
}

#[test]
fn a_node_that_grants_and_denies_releases_costs_bounded_memory_and_one_message_a_minute() {
    /// The number of large claims in the queue of a node that acknowledges nothing: 16 MiB.
    const LIMIT: u64 = 128;
    const CYCLES: u32 = 176;

    let quiet = Recording(Arc::new(Inner { is_quiet: true, ..Inner::default() }));
    recorded_by(quiet, async |world, recording| {
        world.nodes[0].inject(Fault::reject().on(Operation::Release));
        // Eleven minutes, of which the queue is full in the last three.
        for number in 0..CYCLES {
            large_cycle(&world, number).await;
            world.sleep(Duration::from_secs(660) / CYCLES).await;
        }
        let logged = recording.events();
        assert!(logged.iter().all(|event| event.message.starts_with("cleanup queue full")), "{logged:#?}");
        assert!((3..=4).contains(&logged.len()), "one a minute, once the queue is full: {logged:#?}");

        // Each claim that the queue still has is released once more.
        let before = world.request_counts(Operation::Release)[0];
        world.nodes[0].clear_faults();
        let dropped = world.redlock.close().await;
        let kept = world.request_counts(Operation::Release)[0] - before;
        assert_eq!(u64::from(CYCLES), kept + dropped);
        assert!((LIMIT / 2..=LIMIT).contains(&kept), "{kept} claims");
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
fn all_events_are_documented_and_contain_no_token() {
    recorded(async |world, recording| {
        let client = crate::common::builder(&world.process, &world.nodes).owner("host-1").build().unwrap();
        let guard = client.lock("a", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        let mut tokens = vec![world.nodes[0].inner().holder("a").unwrap()];
        world.redlock.lock("a", TTL).try_now().await.unwrap();
        world.redlock.inspect("a").await.unwrap();
        world.sleep(TTL).await;
        guard.extend(TTL).await.unwrap();
        let broken = client.lock("broken", TTL).await.unwrap();
        tokens.push(world.nodes[0].inner().holder("broken").unwrap());
        let inspection = client.inspect("broken").await.unwrap();
        client.break_lock(&inspection, &broken.fingerprint()).await.unwrap();
        let detached = guard.detach().await;
        let guard = client.resume(&detached).await.unwrap();
        world.nodes.iter().for_each(|node| node.inner().clear());
        guard.extend(TTL).await.unwrap_err();
        guard.lost().await;
        drop(guard);
        let guard = client.lock("b", TTL).keep_alive(KeepAlive::new()).await.unwrap();
        tokens.push(world.nodes[0].inner().holder("b").unwrap());
        world.nodes.iter().for_each(|node| node.inject(Fault::hang().on(Operation::Extend)));
        world.sleep(TTL / 2).await;
        drop(guard);
        world.nodes.iter().for_each(redlock_testkit::Faulty::clear_faults);
        let work = async {
            world.nodes.iter().for_each(|node| node.inject(Fault::unavailable()));
        };
        client.lock("c", TTL).run(async |_| work.await).await.unwrap();
        world.nodes.iter().for_each(redlock_testkit::Faulty::clear_faults);
        let job = async |_| {
            world.nodes.iter().for_each(|node| node.inject(Fault::unavailable()));
            Ok::<_, ()>(())
        };
        drop(client.lock("job", TTL).once_per(60 * TTL, job).await.unwrap());
        world.nodes.iter().for_each(redlock_testkit::Faulty::clear_faults);
        let program = |count| {
            let builder = crate::common::builder(&world.process, &world.nodes[..count]);
            builder.compare_node_lists(true).build().unwrap()
        };
        let (three, five) = (program(3), program(5));
        for program in [&three, &five] {
            program.lock("lists", TTL).await.unwrap().release().await.unwrap();
        }
        world.sleep(2 * TTL).await;
        drop(three);
        world.sleep(2 * TTL).await;
        world.nodes[0].inject(Fault::reject().of("redlock:nodes"));
        world.sleep(2 * TTL).await;
        world.nodes[0].clear_faults();
        drop(five);
        world.nodes[0].inner().set_longest_ttl(TTL);
        let guarded = crate::common::builder(&world.process, &world.nodes).build().unwrap();
        world.nodes[0].inner().flush();
        guarded.lock("d", TTL).try_now().await.unwrap();
        guarded.vouch(0).await.unwrap();
        guarded.lock("e", TTL).try_now().await.unwrap();
        world.nodes.iter().for_each(|node| node.inject(Fault::hang()));
        let busy =
            crate::common::builder(&world.process, &world.nodes).max_concurrent_attempts(1).build().unwrap();
        let lock = |name| busy.lock(name, TTL).max_wait(Duration::ZERO).into_future();
        let results = futures_util::future::join_all(["d", "e", "f", "g"].map(lock)).await;
        let overloaded = results.iter().filter_map(|result| result.as_ref().err());
        assert!(overloaded.filter(|error| error.kind() == redlock_core::ErrorKind::Overloaded).count() > 0);

        let events = recording.events();
        let spans = recording.0.spans.lock().unwrap().clone();
        let names = spans.iter().map(|span| span.split(' ').next().unwrap());
        let names = names.chain(events.iter().map(|event| &*event.message)).map(str::to_owned);
        // Only a process that stops causes this event, as in the adapters' tests.
        let names = names.chain(["renewal timer late".to_owned()]);
        assert_eq!(documented(), names.collect::<BTreeSet<_>>());
        let everything = format!("{events:?} {spans:?}");
        for token in &tokens {
            let token = String::from_utf8(token.as_bytes().to_vec()).unwrap();
            assert!(token.starts_with("host-1#") && !everything.contains(&token[7..]), "{token}");
        }
        assert!(everything.contains(&tokens[0].fingerprint().to_string()));
        assert!(!everything.contains(std::str::from_utf8(foreign_claim().token().as_bytes()).unwrap()));
    });
}
