//! Runs of the whole with the real core: within the bounds nothing is violated, and beyond them something is.

use redlock_simulation::experiment::{Experiment, Totals};
use redlock_simulation::history::{Event, History, Trouble};
use redlock_simulation::invariant::{Assumption, Invariant, Rules, Violation, check};
use redlock_simulation::plan::Faults;
use redlock_simulation::timeline;

/// Runs many seeds, fails at the first defect, and answers what came of all of them.
fn run(experiment: impl Fn(u64) -> Experiment, seeds: u64) -> Totals {
    let mut totals = Totals::default();
    for seed in 0..seeds {
        let report = experiment(seed).run();
        assert!(report.defects().next().is_none(), "{report}");
        totals.add(&report);
    }
    totals
}

/// So many seeds show every kind of fault, and take some seconds.
const SEEDS: u64 = 100;

fn within_the_bounds(servers: usize) {
    let totals = run(|seed| Experiment::new(seed).servers(servers), SEEDS);
    assert!(totals.grants > 1_000 && totals.grants_of_several > 100, "{totals}");
    let beyond = ["flush", "lost locks", "lost counters", "clock step", "clock drift"];
    let within = |trouble: &&&str| !beyond.contains(*trouble);
    for trouble in Trouble::NAMES.iter().filter(within) {
        assert!(totals.troubles.get(trouble).is_some_and(|count| *count > 10), "{trouble}: {totals}");
    }
    // No client can undo what the network holds back; nothing else is excused.
    let only = [&(Invariant::Leftovers, Some(Assumption::RequestsArriveSoon))];
    assert!(totals.violations.keys().all(|kind| only.contains(&kind)), "{totals}");
}

#[test]
fn within_the_bounds_three_servers_violate_nothing() {
    within_the_bounds(3);
}

#[test]
fn within_the_bounds_four_servers_violate_nothing() {
    within_the_bounds(4);
}

#[test]
fn within_the_bounds_five_servers_violate_nothing() {
    within_the_bounds(5);
}

#[test]
fn the_same_seed_gives_the_same_history_to_the_byte() {
    let text = |seed| Experiment::new(seed).run().history.to_string();
    assert_eq!(text(3), text(3));
    assert_ne!(text(3), text(4));
}

/// The violations that a beginning of a history shows, but for what has not happened by its end.
fn shown(history: &[Event], rules: &Rules) -> Vec<Violation> {
    let mut violations = check(&History(history.to_vec()), rules);
    let known_at_the_end =
        |one: &Violation| one.invariant == Invariant::Liveness || one.what.contains("not come to an end");
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
            let told = format!("seed {seed}, {faults}: {violation}");
            assert!(shown(&events[..=violation.event], &rules).contains(violation), "{told}");
            let earlier = all[..before].iter().filter(|other| other.event < violation.event).count();
            assert_eq!(earlier, shown(&events[..violation.event], &rules).len(), "{told}");
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn a_violation_is_told_with_its_seed_its_events_and_a_picture() {
    let faults = Faults::Violating(Assumption::HoldersLook);
    let caught = |seed: &u64| !Experiment::new(*seed).servers(3).faults(faults).run().violations.is_empty();
    let seed = (0..50).find(caught).expect("holders that do not look act too late sooner or later");
    let report = Experiment::new(seed).servers(3).faults(faults).run();
    let (text, violation) = (report.to_string(), &report.violations[0]);
    assert!(text.contains(&format!("seed {seed}: {violation}")), "{text}");
    let told = report.prefix(violation);
    assert_eq!(report.history.0[violation.event], *told.0.last().unwrap());
    assert!(text.contains(&told.to_string()) && told.0.len() < violation.event / 2, "{text}");
    assert!(text.contains(timeline::LEGEND), "{text}");
    assert!(
        text.contains(&format!(
            "again: scripts/simulate --nodes 3 --clients 3 --faults careless-holders --seed {seed}"
        )),
        "{text}"
    );
}

/// What breaks an assumption is found out, and the violation names that assumption and no other.
fn beyond_the_bounds(assumption: Assumption, invariants: &[Invariant]) {
    let totals = run(|seed| Experiment::new(seed).servers(3).faults(Faults::Violating(assumption)), 50);
    for invariant in invariants {
        assert!(totals.violations_of(*invariant, assumption) > 0, "{invariant}: {totals}");
    }
}

#[test]
fn servers_that_lose_data_break_exclusion() {
    beyond_the_bounds(Assumption::DataIsKept, &[Invariant::Exclusion, Invariant::Validity]);
}

#[test]
fn clocks_that_are_set_break_exclusion() {
    beyond_the_bounds(Assumption::ClocksAreNotSet, &[Invariant::Exclusion, Invariant::Validity]);
}

#[test]
fn clocks_that_run_away_break_exclusion() {
    beyond_the_bounds(Assumption::ClocksRunEvenly, &[Invariant::Exclusion, Invariant::Validity]);
}

#[test]
fn holders_that_do_not_look_break_exclusion() {
    beyond_the_bounds(Assumption::HoldersLook, &[Invariant::Exclusion]);
}

/// A client that allows nothing for drift, under clocks that drift within the bounds.
#[test]
fn a_drift_factor_of_zero_is_caught() {
    let caught = (0..50).find(|seed| {
        let report = Experiment::new(*seed).servers(3).clock_drift_factor(0.0).run();
        report.defects().any(|violation| violation.invariant == Invariant::Validity)
    });
    assert!(caught.is_some());
}
