//! Fencing tokens in simulated worlds: what must hold of them whatever happens to locks and clocks, and what it takes where
//! counters are lost.

use redlock_simulation::experiment::{Experiment, Totals};
use redlock_simulation::history::What;
use redlock_simulation::invariant::{Assumption, Invariant};
use redlock_simulation::plan::Faults;

/// About fencing tokens and what they are for.
const FENCING: [Invariant; 5] =
    [Invariant::Unique, Invariant::Order, Invariant::Supersession, Invariant::Resource, Invariant::Counting];

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

fn count(totals: &Totals, invariants: &[Invariant]) -> usize {
    let violations = totals.violations.iter().filter(|((invariant, _), _)| invariants.contains(invariant));
    violations.map(|(_, count)| count).sum()
}

/// Locks overlap, and their tokens are in order, with no excuse at all.
fn tokens_survive_what_locks_do_not(servers: usize) {
    let totals = run(|seed| Experiment::new(seed).servers(servers).faults(Faults::Fencing), 100);
    assert!(count(&totals, &[Invariant::Exclusion]) > 0, "{totals}");
    assert_eq!(0, count(&totals, &FENCING), "{totals}");
    assert!(totals.fenced_grants > 500 && totals.fenced_grants < totals.grants, "{totals}");
    assert!(totals.writes_accepted > 1_000 && totals.writes_rejected > 50, "{totals}");
    for trouble in ["lost locks", "clock step", "duplicate", "straggler", "crash"] {
        assert!(totals.troubles[trouble] > 50, "{trouble}: {totals}");
    }
    assert_eq!(None, totals.troubles.get("lost counters"), "{totals}");
}

#[test]
fn locks_that_are_lost_and_clocks_that_are_set_leave_tokens_in_order_on_three_servers() {
    tokens_survive_what_locks_do_not(3);
}

#[test]
fn locks_that_are_lost_and_clocks_that_are_set_leave_tokens_in_order_on_four_servers() {
    tokens_survive_what_locks_do_not(4);
}

#[test]
fn locks_that_are_lost_and_clocks_that_are_set_leave_tokens_in_order_on_five_servers() {
    tokens_survive_what_locks_do_not(5);
}

/// Within the bounds of plain locks nothing is violated with fenced ones either.
#[test]
fn fenced_locks_keep_what_plain_ones_keep() {
    let totals = run(|seed| Experiment::new(seed).servers(3).fenced(true), 100);
    assert!(totals.fenced_grants > 500, "{totals}");
    let only = [&(Invariant::Leftovers, Some(Assumption::RequestsArriveSoon))];
    assert!(totals.violations.keys().all(|kind| only.contains(&kind)), "{totals}");
}

#[test]
fn servers_that_lose_their_counters_and_stay_out_long_enough_leave_tokens_in_order() {
    let totals = run(|seed| Experiment::new(seed).servers(3).faults(Faults::LateRestarts), 150);
    assert!(totals.troubles["lost counters"] > 50, "{totals}");
    assert_eq!(0, count(&totals, &FENCING), "{totals}");
}

#[test]
fn servers_that_lose_their_counters_and_come_back_at_once_break_the_order_of_tokens() {
    let faults = Faults::Violating(Assumption::CountersAreKept);
    let totals = run(|seed| Experiment::new(seed).servers(3).faults(faults), 900);
    for invariant in [Invariant::Unique, Invariant::Order, Invariant::Supersession, Invariant::Resource] {
        assert!(totals.violations_of(invariant, Assumption::CountersAreKept) > 0, "{invariant}: {totals}");
    }
}

/// The time is what a lost counter goes on with: without it no time out is long enough.
#[test]
fn counters_that_do_not_begin_with_the_time_may_never_be_lost() {
    let broken = |seed: &u64| {
        let report =
            Experiment::new(*seed).servers(3).faults(Faults::LateRestarts).counters_without_time().run();
        report.defects().any(|defect| matches!(defect.invariant, Invariant::Unique | Invariant::Order))
    };
    assert!((0..1000).any(|seed| broken(&seed)), "staying out makes up for it");
    let kept = |seed| Experiment::new(seed).servers(3).faults(Faults::Fencing).counters_without_time();
    assert_eq!(0, count(&run(kept, 50), &FENCING));
}

/// The order at the resource matters: who reads first may overwrite what it has not seen, with tokens in perfect order.
#[test]
fn a_holder_that_reads_before_it_has_written_its_token_loses_updates() {
    let totals = run(
        |seed| Experiment::new(seed).servers(3).faults(Faults::Fencing).without_initial_token_write(),
        100,
    );
    assert!(totals.violations_of(Invariant::Resource, Assumption::TokensComeFirst) > 0, "{totals}");
    assert_eq!(
        0,
        count(&totals, &[Invariant::Unique, Invariant::Order, Invariant::Supersession]),
        "{totals}"
    );
}

#[test]
fn a_run_with_fenced_locks_tells_tokens_and_how_to_repeat_it() {
    let report = Experiment::new(3).servers(3).fenced(true).run();
    let fence = report.history.0.iter().find_map(|event| match event.what {
        What::Granted { fence: Some(fence), .. } => Some(fence),
        _ => None,
    });
    let told = format!(", fencing token {}", fence.expect("most locks have one"));
    assert!(report.history.to_string().contains(&told));
    assert!(report.replay().contains(" --locks mixed "), "{}", report.replay());
    let usual = Experiment::new(3).servers(3).faults(Faults::Fencing).run();
    assert!(usual.replay().contains(" --faults fencing --seed"), "{}", usual.replay());
}

#[test]
fn the_same_seed_gives_the_same_fenced_history_to_the_byte() {
    let text = |seed| Experiment::new(seed).servers(3).faults(Faults::Fencing).run().history.to_string();
    assert_eq!(text(3), text(3));
    assert_ne!(text(3), text(4));
}
