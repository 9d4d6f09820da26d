//! Runs of the whole with the real core: within the bounds nothing is violated, and beyond them something is.
#![allow(clippy::unwrap_used)] // helpers of tests, not code that must go on

use std::collections::BTreeMap;

use redlock_testkit::experiment::{Experiment, Report};
use redlock_testkit::history::Trouble;
use redlock_testkit::invariant::{Assumption, Invariant};
use redlock_testkit::plan::Faults;

/// Runs many seeds, fails at the first defect, and answers how many violations of which kind there were.
fn run(experiment: impl Fn(u64) -> Experiment, seeds: u64) -> Summary {
    let mut summary = Summary::default();
    for seed in 0..seeds {
        summary.add(&experiment(seed).run());
    }
    summary
}

#[derive(Debug, Default)]
struct Summary {
    grants: usize,
    troubles: BTreeMap<&'static str, usize>,
    violations: BTreeMap<(Invariant, Option<Assumption>), usize>,
}

impl Summary {
    fn add(&mut self, report: &Report) {
        assert!(report.defects().next().is_none(), "{report}");
        self.grants += report.history.grants();
        for (trouble, count) in report.history.troubles() {
            *self.troubles.entry(trouble).or_default() += count;
        }
        for violation in &report.violations {
            *self.violations.entry((violation.invariant, violation.broken)).or_default() += 1;
        }
    }

    fn of(&self, invariant: Invariant, broken: Assumption) -> usize {
        self.violations.get(&(invariant, Some(broken))).copied().unwrap_or(0)
    }
}

/// So many seeds show every kind of fault, and take some seconds.
const SEEDS: u64 = 200;

fn within_the_bounds(servers: usize) {
    let summary = run(|seed| Experiment::new(seed).servers(servers), SEEDS);
    assert!(summary.grants > 1_000, "{summary:?}");
    let within = |trouble: &&&str| !["flush", "clock step", "clock drift"].contains(*trouble);
    for trouble in Trouble::NAMES.iter().filter(within) {
        assert!(summary.troubles.get(trouble).is_some_and(|count| *count > 10), "{trouble}: {summary:?}");
    }
    // No client can undo what the network holds back; nothing else is excused.
    let only = [&(Invariant::Leftovers, Some(Assumption::RequestsArriveSoon))];
    assert!(summary.violations.keys().all(|kind| only.contains(&kind)), "{summary:?}");
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

/// What breaks an assumption is found out, and the violation names that assumption and no other.
fn beyond_the_bounds(assumption: Assumption, invariants: &[Invariant]) {
    let summary = run(|seed| Experiment::new(seed).servers(3).faults(Faults::Breaking(assumption)), 100);
    for invariant in invariants {
        assert!(summary.of(*invariant, assumption) > 0, "{invariant}: {summary:?}");
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
