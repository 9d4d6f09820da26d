//! Fencing tokens in simulated worlds: they stay correct under all faults of locks and clocks, and under lost counters if
//! servers restart late.

use redlock_simulation::experiment::{Experiment, Totals};
use redlock_simulation::history::EventKind;
use redlock_simulation::invariant::{Assumption, Invariant};
use redlock_simulation::plan::Faults;

/// The invariants of fencing tokens and of the resources that check them.
const FENCING: [Invariant; 5] =
    [Invariant::Unique, Invariant::Order, Invariant::Supersession, Invariant::Resource, Invariant::Counting];

fn count(totals: &Totals, invariants: &[Invariant]) -> usize {
    let violations = totals.violations.iter().filter(|((invariant, _), _)| invariants.contains(invariant));
    violations.map(|(_, count)| count).sum()
}

/// Checks that locks overlap, and that their tokens still increase.
fn check_tokens_of_overlapping_locks(servers: usize) {
    let totals =
        Totals::without_defects(100, |seed| Experiment::new(seed).servers(servers).faults(Faults::Fencing));
    assert!(count(&totals, &[Invariant::Exclusion]) > 0, "{totals}");
    assert_eq!(0, count(&totals, &FENCING), "{totals}");
    assert!(totals.fenced_grants > 500 && totals.fenced_grants < totals.grants, "{totals}");
    assert!(totals.writes_accepted > 1_000 && totals.writes_rejected > 50, "{totals}");
    for fault in ["lost locks", "clock step", "duplicate", "straggler", "crash"] {
        assert!(totals.faults[fault] > 50, "{fault}: {totals}");
    }
    assert_eq!(None, totals.faults.get("lost counters"), "{totals}");
}

#[test]
fn lost_locks_and_clock_steps_leave_tokens_in_order_on_three_servers() {
    check_tokens_of_overlapping_locks(3);
}

#[test]
fn lost_locks_and_clock_steps_leave_tokens_in_order_on_four_servers() {
    check_tokens_of_overlapping_locks(4);
}

#[test]
fn lost_locks_and_clock_steps_leave_tokens_in_order_on_five_servers() {
    check_tokens_of_overlapping_locks(5);
}

/// Faults that violate nothing with plain locks violate nothing with fenced ones.
#[test]
fn bounded_faults_violate_nothing_with_fenced_locks() {
    let totals = Totals::without_defects(100, |seed| Experiment::new(seed).servers(3).fenced(true));
    assert!(totals.fenced_grants > 500, "{totals}");
    let only = [&(Invariant::Leftovers, Some(Assumption::RequestsArriveSoon))];
    assert!(totals.violations.keys().all(|kind| only.contains(&kind)), "{totals}");
}

#[test]
fn lost_counters_with_late_restarts_leave_tokens_in_order() {
    let totals =
        Totals::without_defects(150, |seed| Experiment::new(seed).servers(3).faults(Faults::LateRestarts));
    assert!(totals.faults["lost counters"] > 50, "{totals}");
    assert_eq!(0, count(&totals, &FENCING), "{totals}");
}

#[test]
fn lost_counters_break_the_order_of_tokens() {
    let faults = Faults::Violating(Assumption::CountersAreKept);
    let totals = Totals::without_defects(450, |seed| Experiment::new(seed).servers(3).faults(faults));
    for invariant in [Invariant::Unique, Invariant::Order, Invariant::Supersession, Invariant::Resource] {
        assert!(totals.violations_of(invariant, Assumption::CountersAreKept) > 0, "{invariant}: {totals}");
    }
}

/// A lost counter continues from the time. Without that, no delay of the restart is long enough.
#[test]
fn counters_that_start_with_1_must_never_be_lost() {
    let broken = |seed: &u64| {
        let report =
            Experiment::new(*seed).servers(3).faults(Faults::LateRestarts).counters_without_time().run();
        report.defects().any(|defect| matches!(defect.invariant, Invariant::Unique | Invariant::Order))
    };
    assert!((0..1000).any(|seed| broken(&seed)), "a late restart is not sufficient");
    let kept = |seed| Experiment::new(seed).servers(3).faults(Faults::Fencing).counters_without_time();
    assert_eq!(0, count(&Totals::without_defects(50, kept), &FENCING));
}

/// A holder that reads first may overwrite a value that it has not seen, although the tokens are in perfect order.
#[test]
fn a_holder_that_reads_before_it_writes_its_token_loses_updates() {
    let totals = Totals::without_defects(100, |seed| {
        Experiment::new(seed).servers(3).faults(Faults::Fencing).without_initial_token_write()
    });
    assert!(totals.violations_of(Invariant::Resource, Assumption::TokensComeFirst) > 0, "{totals}");
    assert_eq!(
        0,
        count(&totals, &[Invariant::Unique, Invariant::Order, Invariant::Supersession]),
        "{totals}"
    );
}

#[test]
fn a_report_on_fenced_locks_has_the_tokens_and_the_command_to_repeat_it() {
    let report = Experiment::new(3).servers(3).fenced(true).run();
    let fence = report.history.0.iter().find_map(|event| match event.kind {
        EventKind::Granted { fence: Some(fence), .. } => Some(fence),
        _ => None,
    });
    let shown = format!(", fencing token {}", fence.expect("most locks have a fencing token"));
    assert!(report.history.to_string().contains(&shown));
    assert!(report.replay().contains(" --locks mixed "), "{}", report.replay());
    let usual = Experiment::new(3).servers(3).faults(Faults::Fencing).run();
    assert!(usual.replay().contains(" --faults fencing --seed"), "{}", usual.replay());
}
