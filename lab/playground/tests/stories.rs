//! The stories show the events that their texts describe.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use redlock_core::ErrorKind;
use redlock_core::runtime::Instant;
use redlock_playground::setup::Kind;
use redlock_playground::stories::{Story, named, stories};
use redlock_playground::subject::Subject;
use redlock_playground::view::View;
use redlock_simulation::attempts::{FailedAttempt, failed_attempts};
use redlock_simulation::experiment::{NODE_TIMEOUT, RETRY_DELAY, Report};
use redlock_simulation::history::{Event, EventKind, History, Place, Reply, Request};
use redlock_simulation::invariant::Invariant;
use redlock_simulation::knowledge::{Fact, knowledge};
use redlock_simulation::timeline::Timeline;
use redlock_testkit::Operation;

fn run(story: &Story) -> Report {
    story.setup.check().unwrap();
    story.setup.experiment().run()
}

/// Returns the events of a story until its faults end.
fn events(id: &str) -> Vec<Event> {
    let history = run(&named(id).unwrap()).history;
    history.0.into_iter().take_while(|event| event.kind != EventKind::Calm).collect()
}

fn first(events: &[Event], wanted: impl Fn(&EventKind) -> bool) -> Instant {
    events.iter().find(|event| wanted(&event.kind)).expect("the story has such an event").at
}

fn is_granted(client: usize) -> impl Fn(&EventKind) -> bool {
    move |kind| matches!(kind, EventKind::Granted { client: holder, .. } if *holder == client)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn each_story_violates_the_invariants_that_it_names_and_no_other() {
    for story in stories() {
        let report = run(&story);
        let violated: BTreeSet<Invariant> = report.violations.iter().map(|one| one.invariant).collect();
        let expected = story.violated.iter().copied().collect();
        assert_eq!(violated, expected, "{}: {report}", story.id);
        assert_eq!(0, report.defects().count(), "{}: {report}", story.id);
    }
}

#[test]
fn each_text_has_two_short_sentences() {
    let ids: BTreeSet<_> = stories().iter().map(|story| story.id).collect();
    assert_eq!(stories().len(), ids.len());
    for Story { sentences, .. } in stories() {
        for sentence in sentences {
            assert!(sentence.ends_with('.') && !sentence.contains(". "), "one sentence: {sentence}");
            assert!(sentence.split_whitespace().count() <= 25, "at most 25 words: {sentence}");
        }
    }
}

/// The words of texts for kinds of incidents, by their beginnings.
const WORDS: [(&str, Kind); 8] = [
    ("hang", Kind::Hang),
    ("hung", Kind::Hang),
    ("down", Kind::Crash),
    ("restarts", Kind::CrashEmpty),
    ("loses", Kind::Partition),
    ("pause", Kind::Pause),
    ("killed", Kind::Kill),
    ("clock", Kind::Step),
];

#[test]
fn each_text_names_the_incidents_of_its_experiment() {
    for Story { id, title, sentences, setup, .. } in stories() {
        let text = format!("{title} {}", sentences.join(" "));
        let named = |kind: Kind| {
            let mut words = text.split_whitespace();
            words.any(|word| WORDS.iter().any(|(begin, other)| *other == kind && word.starts_with(begin)))
        };
        let has = |kind: Kind| setup.incidents.iter().any(|incident| incident.kind == kind);
        for (name, kind) in Kind::ALL {
            // Some texts name the votes of a client instead of its partitions.
            assert!(named(kind) == has(kind) || kind == Kind::Partition && has(kind), "{id}: {name}");
        }
    }
}

/// Returns the numbers before "ms" or "s" in a text, with this unit.
fn times(text: &str) -> Vec<String> {
    let words: Vec<_> =
        text.split_whitespace().map(|word| word.trim_end_matches([',', '.', ';', ':'])).collect();
    let is_time = |pair: &&[&str]| pair[0].parse::<f64>().is_ok() && ["ms", "s"].contains(&pair[1]);
    words.windows(2).filter(is_time).map(|pair| pair.join(" ")).collect()
}

#[test]
fn the_times_in_texts_are_those_of_the_experiments() {
    let [holder, clock] = ["dead-holder", "clock-step"].map(|id| named(id).unwrap().setup);
    let expected = [
        ("hung-majority", format!("{} ms", NODE_TIMEOUT.as_millis())),
        // Another test checks the times of attempts.
        ("lost-majority", "0.1 s".into()),
        ("dead-holder", format!("{} s", holder.ttl / 1_000)),
        (
            "clock-step",
            format!("{} s", clock.incidents.iter().find(|one| one.kind == Kind::Step).unwrap().ms / 1_000),
        ),
    ];
    let times =
        |story: Story| times(&story.sentences.join(" ")).into_iter().map(move |time| (story.id, time));
    assert_eq!(expected.to_vec(), stories().into_iter().flat_map(times).collect::<Vec<_>>());
}

#[test]
fn each_violation_is_marked_in_the_picture() {
    for story in stories() {
        let (id, report) = (story.id, run(&story));
        let view = serde_json::to_value(View::of(&Subject::Story(story), 800.0).unwrap()).unwrap();
        let picture = view["picture"]["svg"].as_str().unwrap();
        for violation in &report.violations {
            assert!(picture.contains(&format!("<title>{violation}</title>")), "{id}: {violation}");
        }
        let badges = picture.matches("r=\"8\"").count();
        assert_eq!(report.violations.len(), badges, "{id}: a number above each violation");
    }
}

#[test]
fn a_waiter_acquires_a_released_lock_without_polling() {
    let events = events("hand-over");
    let released = first(&events, |kind| matches!(kind, EventKind::Releasing { client: 0, .. }));
    let granted = first(&events, is_granted(1));
    assert!(granted.saturating_duration_since(released) < millis(50));
    let polls = |event: &&Event| {
        matches!(event.kind, EventKind::Sent(Request { client: 1, operation: Operation::Acquire, .. }))
            && event.at
                > first(&events, |kind| matches!(kind, EventKind::Requested { client: 1, .. })) + millis(100)
            && event.at < released
    };
    assert_eq!(0, events.iter().filter(polls).count());
}

#[test]
fn hung_and_dead_nodes_cause_no_delay() {
    for id in ["hung-node", "dead-minority"] {
        let events = events(id);
        let requested = first(&events, |kind| matches!(kind, EventKind::Requested { client: 0, .. }));
        assert!(first(&events, is_granted(0)).saturating_duration_since(requested) < millis(20), "{id}");
    }
}

#[test]
fn without_a_majority_requests_fail_until_the_nodes_are_back() {
    let events = events("lost-majority");
    let failed =
        |kind: &EventKind| matches!(kind, EventKind::NotGranted { why: Some(ErrorKind::NoQuorum), .. });
    assert!(first(&events, failed) < first(&events, is_granted(0)));
    assert!(first(&events, is_granted(0)) > Instant::since_origin(millis(4_100)));
}

/// Returns the failed attempts before the first result of a request, with its time.
fn attempts_before_the_first_result(id: &str) -> (Vec<FailedAttempt>, Duration) {
    let events = events(id);
    let requested = first(&events, |kind| matches!(kind, EventKind::Requested { .. }));
    let failed =
        |event: &Event| matches!(event.kind, EventKind::NotGranted { why: Some(ErrorKind::NoQuorum), .. });
    let index = events.iter().position(failed).unwrap();
    let waited = events[index].at.saturating_duration_since(requested);
    let attempts = failed_attempts(&History(events)).into_iter();
    (attempts.take_while(|attempt| attempt.event <= index).collect(), waited)
}

#[test]
fn three_attempts_without_a_quorum_of_replies_end_a_request_before_its_wait() {
    let story = named("hung-majority").unwrap();
    let (attempts, waited) = attempts_before_the_first_result("hung-majority");
    assert_eq!(3, attempts.len());
    for FailedAttempt { replies, .. } in attempts {
        let replied: Vec<_> =
            replies.iter().filter(|(_, reply)| reply.is_some()).map(|(node, _)| *node).collect();
        assert_eq!(vec![3, 4], replied);
    }
    let (shortest, longest) = (3 * NODE_TIMEOUT + RETRY_DELAY, 3 * NODE_TIMEOUT + 2 * RETRY_DELAY);
    assert!(shortest <= waited && waited <= longest, "{waited:?}");
    assert!(waited < millis(story.setup.clients[0].waits.unwrap()), "{waited:?}");
    let granted = first(&events("hung-majority"), is_granted(0));
    assert!(granted > Instant::since_origin(millis(4_100)), "the nodes resume before");
}

#[test]
fn nodes_that_refuse_connections_end_a_request_within_a_tenth_of_a_second() {
    let (attempts, waited) = attempts_before_the_first_result("lost-majority");
    assert_eq!(3, attempts.len());
    assert!(waited < millis(100), "{waited:?}");
}

/// The last events at the marked moment of each story.
const MARKED: [(&str, &str); 17] = [
    ("uncontended", "c0 acquires r0"),
    ("hand-over", "c1 acquires r0"),
    ("first-come", "c0 acquires r0"),
    ("hung-node", "c0 has renewed"),
    ("dead-minority", "c1 acquires r0"),
    ("hung-majority", "c0 does not acquire the lock: too few nodes replied"),
    ("lost-majority", "c0 does not acquire the lock: too few nodes replied"),
    ("dead-holder", "c1 acquires r0"),
    ("paused-holder", "c0 acts under #0"),
    ("fenced-holder", "r0 rejects write"),
    ("empty-restart", "c1 acquires r0"),
    ("empty-restart-guarded", "n2 does not count"),
    ("clock-step", "c1 acquires r0"),
    ("clock-step-guarded", "n2 does not count"),
    ("late-write", "attempt #1 of c1 fails (n0 denied, n1 denied, n2 granted), and its votes are released"),
    ("split-vote", "attempt #2 of c0 fails (n0 granted, n1 denied, n2 denied), and its votes are released"),
    ("failed-renewal", "c0 learns that #0 is lost"),
];

#[test]
fn each_story_opens_at_the_moment_of_its_text() {
    let stories = stories();
    assert_eq!(MARKED.map(|(id, _)| id).to_vec(), stories.iter().map(|story| story.id).collect::<Vec<_>>());
    for (story, (id, expected)) in stories.into_iter().zip(MARKED) {
        let view = serde_json::to_value(View::of(&Subject::Story(story), 800.0).unwrap()).unwrap();
        let moment = view["moment"].as_f64().unwrap();
        let texts: Vec<_> = view["events"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["at"].as_f64() <= Some(moment) && event["is_message"] == false)
            .map(|event| event["text"].as_str().unwrap())
            .collect();
        let latest = &texts[texts.len().saturating_sub(4)..];
        assert!(latest.iter().any(|text| text.contains(expected)), "{id} at {moment} s: {latest:#?}");
    }
}

#[test]
fn a_resource_rejects_the_write_of_the_resumed_client() {
    let rejected = |event: &&Event| matches!(event.kind, EventKind::Wrote { accepted: false, .. });
    let by = |event: &Event| if let EventKind::Wrote { client, .. } = event.kind { client } else { 99 };
    let events = events("fenced-holder");
    assert_eq!(vec![0], events.iter().filter(rejected).map(by).collect::<Vec<_>>());
    assert!(
        events.iter().any(|event| matches!(event.kind, EventKind::Wrote { client: 1, accepted: true, .. }))
    );
}

#[test]
fn a_dead_holder_blocks_others_for_its_ttl() {
    let events = events("dead-holder");
    let granted = [0, 1].map(|client| first(&events, is_granted(client)));
    let waited = granted[1].saturating_duration_since(granted[0]);
    assert!(waited > millis(2_900) && waited < millis(3_100), "{waited:?}");
}

/// The guide has pictures of some stories. `REDLOCK_WRITE_DOCS=1` writes them.
#[test]
fn the_pictures_in_the_guide_are_up_to_date() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (id, file) in
        [("paused-holder", "long-pause"), ("fenced-holder", "fenced-pause"), ("hand-over", "hand-over")]
    {
        let story = named(id).unwrap();
        let report = run(&story);
        let drawn = Timeline::new(&report.history, &report.violations).title(story.title).svg();
        let file = docs.join(file).with_extension("svg");
        if std::env::var_os("REDLOCK_WRITE_DOCS").is_some() {
            std::fs::write(&file, &drawn).unwrap();
        }
        assert!(std::fs::read_to_string(&file).unwrap() == drawn, "{} is out of date", file.display());
    }
}

#[test]
fn the_lock_is_granted_in_the_order_of_the_requests() {
    let granted = events("first-come").into_iter().filter_map(|event| match event.kind {
        EventKind::Granted { client, .. } => Some(client),
        _ => None,
    });
    assert_eq!(vec![0, 1, 2, 0], granted.take(4).collect::<Vec<_>>());
}

#[test]
fn late_keys_are_deleted_before_their_ttl() {
    let story = named("late-write").unwrap();
    let events = events("late-write");
    let failed = first(&events, |kind| matches!(kind, EventKind::NotGranted { client: 0, .. }));
    let late = first(&events, |kind| {
        matches!(
            kind,
            EventKind::CarriedOut { request: Request { client: 0, server: 0, .. }, until: Some(_), .. }
        )
    });
    let granted = first(&events, is_granted(1));
    assert!(failed < late && late < granted && granted < late + millis(story.setup.ttl));
}

#[test]
fn each_client_has_one_vote_before_the_first_grant() {
    let story = named("split-vote").unwrap();
    let report = run(&story);
    let granted = [0, 1, 2].map(|client| first(&report.history.0, is_granted(client)));
    let begun = granted.into_iter().min().unwrap();
    let mut votes = BTreeMap::new();
    let mut periods = knowledge(&report.history);
    periods.sort_by_key(|period| period.from);
    for period in periods.into_iter().filter(|period| period.from < begun) {
        if let Fact::Key { client, .. } = period.fact {
            votes.entry(period.place).or_insert(client);
        }
    }
    let clients: BTreeSet<_> = votes.values().collect();
    assert_eq!((3, 3), (votes.len(), clients.len()), "{votes:?}");
}

#[test]
fn each_client_releases_its_vote_before_it_tries_again() {
    let attempts = failed_attempts(&run(&named("split-vote").unwrap()).history);
    let one_vote = |attempt: &&FailedAttempt| {
        attempt.releases && attempt.replies.values().flatten().filter(|reply| reply.is_grant()).count() == 1
    };
    let clients: BTreeSet<_> = attempts[..3].iter().filter(one_vote).map(|attempt| attempt.client).collect();
    assert_eq!(BTreeSet::from([0, 1, 2]), clients, "{attempts:?}");
}

#[test]
fn a_loss_is_reported_before_the_lease_ends() {
    let report = run(&named("failed-renewal").unwrap());
    let reported = first(&report.history.0, |kind| matches!(kind, EventKind::LossReported { client: 0, .. }));
    let deadline = knowledge(&report.history).into_iter().rev().find_map(|period| match period.fact {
        Fact::Lease { deadline, .. } if period.place == Place::Client(0) => Some(deadline),
        _ => None,
    });
    assert!(reported < deadline.unwrap());
    assert!(first(&report.history.0, is_granted(1)) > deadline.unwrap());
}

#[test]
fn the_vote_of_a_node_that_has_lost_locks_does_not_count() {
    for id in ["empty-restart-guarded", "clock-step-guarded"] {
        let report = run(&named(id).unwrap());
        let events = &report.history.0;
        let is_vote = |request: &Request| {
            (request.client, request.server, request.operation) == (1, 2, Operation::Acquire)
        };
        let granted = |kind: &EventKind| matches!(kind, EventKind::CarriedOut { request, reply: Reply::Granted, .. } if is_vote(request));
        let uncounted = |kind: &EventKind| matches!(kind, EventKind::Received { request, reply: Reply::Uncounted } if is_vote(request));
        let released = first(events, |kind| matches!(kind, EventKind::Releasing { client: 0, .. }));
        assert!(
            first(events, granted) < first(events, uncounted) && first(events, uncounted) < released,
            "{id}"
        );
        assert!(released < first(events, is_granted(1)), "{id}");
        let drawn = Timeline::new(&report.history, &report.violations).svg();
        assert!(drawn.contains(", does not count\n</text>"), "{id}: a key of n2 has this label");
    }
}

#[test]
fn two_pairs_of_stories_differ_in_restart_admission_only() {
    for id in ["empty-restart", "clock-step"] {
        let [without, with] = [id, &format!("{id}-guarded")].map(|id| named(id).unwrap().setup);
        assert_eq!(with, redlock_playground::setup::Setup { restart_admission: true, ..without });
    }
}
