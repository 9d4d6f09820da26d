//! Experiments with the real core. Bounded faults violate nothing, and each violated assumption is detected.

use std::collections::BTreeSet;

use redlock_simulation::experiment::{Experiment, Totals};
use redlock_simulation::history::{Event, EventKind, FaultKind, History, TokenNumber};
use redlock_simulation::invariant::{Assumption, Invariant, Rules, Violation, check};
use redlock_simulation::plan::Faults;
use redlock_simulation::timeline;
use redlock_testkit::Operation;

/// The number of seeds. They contain every kind of fault, and take a few seconds.
const SEEDS: u64 = 100;

fn bounded_faults(servers: usize) {
    let totals = Totals::without_defects(SEEDS, |seed| Experiment::new(seed).servers(servers));
    assert!(totals.grants > 1_000 && totals.grants_of_several > 100, "{totals}");
    let excluded = [
        "flush",
        "lost locks",
        "lost counters",
        "older copy",
        "clock step",
        "clock drift",
        "unwatched clock",
    ];
    let is_bounded = |fault: &&&str| !excluded.contains(*fault);
    for fault in FaultKind::NAMES.iter().filter(is_bounded) {
        assert!(totals.faults.get(fault).is_some_and(|count| *count > 10), "{fault}: {totals}");
    }
    // No client can clean up after a request that the network holds back. No other violation is allowed.
    let only = [&(Invariant::Leftovers, Some(Assumption::RequestsArriveSoon))];
    assert!(totals.violations.keys().all(|kind| only.contains(&kind)), "{totals}");
}

#[test]
fn bounded_faults_on_three_servers_violate_nothing() {
    bounded_faults(3);
}

#[test]
fn bounded_faults_on_four_servers_violate_nothing() {
    bounded_faults(4);
}

#[test]
fn bounded_faults_on_five_servers_violate_nothing() {
    bounded_faults(5);
}

#[test]
fn attempts_are_numbered_without_gaps_and_watches_have_no_number() {
    let history = Experiment::new(3).notifies(true).run().history;
    let (mut claims, mut watches) = (BTreeSet::new(), BTreeSet::new());
    for event in &history.0 {
        // The place of a waiting request, for which a server has reserved a resource.
        if let EventKind::Moved { token, .. } = event.kind {
            claims.insert(token);
        }
        let EventKind::Sent(request) = event.kind else { continue };
        let tokens = if request.operation == Operation::Watch { &mut watches } else { &mut claims };
        tokens.insert(request.token);
    }
    let numbers = (0..).map(TokenNumber).take(claims.len());
    assert!(claims.len() > 10 && claims.iter().copied().eq(numbers), "{claims:?}");
    assert_eq!(BTreeSet::from([TokenNumber::NONE]), watches);
    let is_shown = |line: &str| line.contains(" Watch - (") && line.ends_with(" is sent");
    assert!(history.to_string().lines().any(is_shown));
}

/// Returns the violations in a prefix of a history, except those about events that are missing at its end.
fn shown(history: &[Event], rules: &Rules) -> Vec<Violation> {
    let mut violations = check(&History(history.to_vec()), rules);
    let known_at_the_end =
        |one: &Violation| one.invariant == Invariant::Liveness || one.description.contains("has not ended");
    violations.retain(|violation| !known_at_the_end(violation));
    violations
}

#[test]
fn a_violation_is_shown_by_the_prefix_that_ends_with_it_and_by_no_shorter_one() {
    let mut checked = 0;
    for (seed, (_, faults)) in (0..5).flat_map(|seed| Faults::ALL.map(|faults| (seed, faults))) {
        let report = Experiment::new(seed).servers(3).faults(faults).run();
        let (events, rules) = (&report.history.0, report.rules());
        let all = shown(events, &rules);
        for (before, violation) in all.iter().enumerate() {
            let context = format!("seed {seed}, {faults}: {violation}");
            assert!(shown(&events[..=violation.event], &rules).contains(violation), "{context}");
            let earlier = all[..before].iter().filter(|other| other.event < violation.event).count();
            assert_eq!(earlier, shown(&events[..violation.event], &rules).len(), "{context}");
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn a_violation_is_reported_with_its_seed_its_events_and_a_picture() {
    let faults = Faults::Violating(Assumption::HoldersCheckLeases);
    let caught = |seed: &u64| !Experiment::new(*seed).servers(3).faults(faults).run().violations.is_empty();
    let seed =
        (0..50).find(caught).expect("a holder that does not check its lease acts too late in some run");
    let report = Experiment::new(seed).servers(3).faults(faults).run();
    let (text, violation) = (report.to_string(), &report.violations[0]);
    assert!(text.contains(&format!("seed {seed}: {violation}")), "{text}");
    let prefix = report.prefix(violation);
    assert_eq!(report.history.0[violation.event], *prefix.0.last().unwrap());
    assert!(text.contains(&prefix.to_string()) && prefix.0.len() < violation.event / 2, "{text}");
    assert!(text.contains(timeline::LEGEND), "{text}");
    assert!(
        text.contains(&format!(
            "again: scripts/simulate --nodes 3 --clients 3 --faults careless-holders --seed {seed}"
        )),
        "{text}"
    );
}

/// Checks that a violated assumption is detected, and that the violations name no other one.
fn violating_faults(assumption: Assumption, invariants: &[Invariant]) {
    let totals = Totals::without_defects(50, |seed| {
        Experiment::new(seed).servers(3).faults(Faults::Violating(assumption))
    });
    for invariant in invariants {
        assert!(totals.violations_of(*invariant, assumption) > 0, "{invariant}: {totals}");
    }
}

#[test]
fn lost_data_breaks_exclusion() {
    violating_faults(Assumption::DataIsKept, &[Invariant::Exclusion, Invariant::Validity]);
}

#[test]
fn clock_steps_break_exclusion() {
    violating_faults(Assumption::ClocksAreNotSet, &[Invariant::Exclusion, Invariant::Validity]);
}

#[test]
fn fast_and_slow_clocks_break_exclusion() {
    violating_faults(Assumption::ClocksRunEvenly, &[Invariant::Exclusion, Invariant::Validity]);
}

#[test]
fn careless_holders_break_exclusion() {
    violating_faults(Assumption::HoldersCheckLeases, &[Invariant::Exclusion]);
}

/// The clocks drift within the bounds, but the client does not allow for drift.
#[test]
fn a_drift_factor_of_zero_is_detected() {
    let caught = (0..50).find(|seed| {
        let report = Experiment::new(*seed).servers(3).clock_drift_factor(0.0).run();
        report.defects().any(|violation| violation.invariant == Invariant::Validity)
    });
    assert!(caught.is_some());
}
