//! Nodes that are changed while clients lock: from the old list over both lists to the new one.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::time::Duration;

use redlock_simulation::experiment::{Experiment, Totals};
use redlock_simulation::invariant::Invariant;
use redlock_simulation::plan::Faults;

/// The old and the new list of each change.
const CHANGES: [(&[usize], &[usize]); 7] = [
    (&[0], &[0, 1, 2]),
    (&[0], &[1, 2, 3]),
    (&[0, 1, 2], &[0, 1, 2, 3, 4]),
    (&[0, 1, 2, 3, 4], &[2, 3, 4]),
    (&[0, 1, 2], &[2, 3, 4]),
    (&[0, 1, 2], &[3, 4, 5]),
    (&[0, 1, 2], &[0, 1, 3]),
];

fn experiment(seed: u64) -> Experiment {
    let (old, new) = CHANGES[usize::try_from(seed).expect("a small seed") % CHANGES.len()];
    Experiment::new(seed).changing(old, new).clients(4).resources(1)
}

#[test]
fn changes_violate_nothing() {
    let totals = Totals::without_defects(140, experiment);
    assert!(totals.grants > 1_000, "{totals}");
    assert!(totals.faults["kill"] > 800, "each of four clients restarts twice: {totals}");
}

/// A resource that nobody locks in the middle step gets its next token from the clocks of the new servers. So this step must
/// last longer than the clocks of servers differ, as here: a tenth of the run at least, and half a second.
#[test]
fn tokens_increase_over_changes() {
    let long = |seed| experiment(seed).lasts(Duration::from_secs(64)).faults(Faults::LateRestarts);
    let totals = Totals::without_defects(28, long);
    assert!(totals.fenced_grants > 300, "{totals}");
}

#[test]
fn changes_with_losses_and_restart_admission_violate_nothing() {
    Totals::without_defects(42, |seed| experiment(seed).faults(Faults::Losses));
}

#[test]
fn readers_and_writers_exclude_each_other_over_changes() {
    Totals::without_defects(42, |seed| experiment(seed).sharing());
}

#[test]
fn the_whole_stack_changes_its_nodes() {
    Totals::without_defects(14, |seed| experiment(seed).whole());
}

#[test]
fn without_the_middle_step_locks_overlap() {
    let overlaps = |seed: u64| {
        let report = experiment(seed).without_middle_step().faults(Faults::None).run();
        report.defects().any(|violation| violation.invariant == Invariant::Exclusion)
    };
    assert!((0..140).any(overlaps));
}

/// The lists have a server in common, which all clients reach.
#[test]
fn lists_that_must_agree_never_overlap_without_the_middle_step() {
    let lists = CHANGES.iter().filter(|(old, new)| old.iter().any(|server| new.contains(server)));
    let lists: Vec<_> = lists.collect();
    let totals = Totals::without_defects(10 * lists.len() as u64, |seed| {
        let (old, new) = lists[usize::try_from(seed / 10).expect("a small seed")];
        let experiment = Experiment::new(seed).changing(old, new).clients(4).resources(1);
        experiment.without_middle_step().agreeing().faults(Faults::None)
    });
    assert!(totals.grants > 200, "{totals}");
}
