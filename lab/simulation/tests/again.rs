//! Runs that are repeated by their printed command, and runs that are reduced to the incidents that matter.

use std::process::Command;
use std::time::Duration;

use redlock_simulation::experiment::{Experiment, Report, Script, Shrunk};
use redlock_simulation::invariant::{Assumption, Invariant, Violation};
use redlock_simulation::plan::{Faults, Incident, Plan};

/// Reads a printed command, as a shell does.
fn read(command: &str) -> Experiment {
    let script = command.replacen("scripts/simulate", "set --", 1) + "\nprintf '%s\\n' \"$@\"";
    let output = Command::new("sh").arg("-c").arg(script).output().expect("there is a shell");
    let words = String::from_utf8(output.stdout).expect("the command is text");
    Experiment::parse(words.lines().map(str::to_owned)).expect("the command is readable")
}

/// Checks that the printed command gives the same settings, and the same history to the byte.
fn is_repeated(experiment: &Experiment) {
    let report = experiment.run();
    let (command, again) = (report.replay(), read(&report.replay()));
    assert!(report.to_string().contains(&format!("again: {command}\n")), "{report}");
    assert_eq!(*experiment, again, "{command}");
    let again = again.run();
    assert_eq!(report.plan, again.plan, "{command}");
    assert_eq!(report.history, again.history, "{command}");
    assert_eq!(report.violations, again.violations, "{command}");
}

/// A short run of three servers, in the fast layer and as a whole stack.
fn both(seed: u64) -> [Experiment; 2] {
    let short = Experiment::new(seed).servers(3).lasts(Duration::from_secs(8));
    [short.clone(), short.whole()]
}

#[test]
fn another_seed_gives_another_history() {
    for (one, two) in both(3).iter().zip(&both(4)) {
        assert_ne!(one.run().history, two.run().history);
    }
}

#[test]
fn every_activity_is_repeated() {
    for seed in 0..2 {
        for short in both(seed) {
            is_repeated(&short);
            is_repeated(&short.clone().clients(5).sharing());
            is_repeated(&short.clone().keeping());
        }
    }
    for short in both(2) {
        is_repeated(&short.waiting());
    }
}

#[test]
fn a_change_of_the_nodes_is_repeated() {
    for short in both(3) {
        let changing = short.changing(&[0, 1, 2], &[2, 3, 4]).clients(4);
        is_repeated(&changing);
        is_repeated(&changing.clone().faults(Faults::Losses));
        is_repeated(&changing.without_middle_step());
    }
}

#[test]
fn every_kind_of_faults_is_repeated() {
    for (_, faults) in Faults::ALL {
        for short in both(1) {
            is_repeated(&short.faults(faults));
        }
    }
}

/// The world of a seed does not depend on how its plan came about. Otherwise no incident could be removed from the plan.
#[test]
fn a_plan_that_is_written_out_gives_the_same_run() {
    for (_, faults) in Faults::ALL {
        let drawn = Experiment::new(5).servers(3).lasts(Duration::from_secs(8)).faults(faults);
        let report = drawn.run();
        assert_eq!(report.history, drawn.plan(report.plan.clone()).run().history, "{faults}");
    }
}

#[test]
fn every_kind_of_locks_and_admission_is_repeated() {
    for (fenced, short) in [false, true].into_iter().flat_map(|is| both(3).map(|short| (is, short))) {
        let short = short.fenced(fenced);
        is_repeated(&short);
        is_repeated(&short.clone().with_admission());
        is_repeated(&short.clone().faults(Faults::Losses).without_admission());
        is_repeated(&short.clone().faults(Faults::Fencing).counters_without_time());
        is_repeated(&short.without_initial_token_write());
    }
}

#[test]
fn explicit_plans_programs_and_networks_are_repeated() {
    let (millis, seconds) = (Duration::from_millis, Duration::from_secs);
    let plan = Plan::new()
        .at(millis(1_500), Incident::Hang { server: 0, lasts: seconds(2) })
        .at(seconds(3), Incident::Kill { client: 1, lasts: millis(20) });
    let (renews, fenced, checks) = (true, true, true);
    let (waits, rests) = (Some(seconds(2)), Some(millis(500)));
    let script = Script {
        starts: millis(500),
        ttl: seconds(2),
        waits,
        works: seconds(1),
        rests,
        renews,
        fenced,
        checks,
    };
    let other = Script { starts: millis(700), fenced: false, renews: false, ..script };
    for short in both(4) {
        is_repeated(&short.clone().plan(Plan::new()));
        let planned = short.faults(Faults::None).plan(plan.clone());
        is_repeated(&planned);
        is_repeated(
            &planned.clone().resources(1).notifies(true).delays(millis(1), Duration::from_micros(5_500)),
        );
        is_repeated(&planned.clone().clock_drift(20_000).clock_drift_factor(0.05).shortest_ttl(seconds(1)));
        is_repeated(&planned.scripts(vec![script, other]));
    }
}

/// Returns the first run with the violation, and the violation.
fn first(
    experiment: impl Fn(u64) -> Experiment,
    is_wanted: impl Fn(&Violation) -> bool,
) -> (Report, Violation) {
    let mut reports = (0..100).map(|seed| experiment(seed).run());
    let found = reports.find_map(|report| {
        let violation = report.violations.iter().find(|violation| is_wanted(violation)).cloned();
        violation.map(|violation| (report, violation))
    });
    found.expect("the violation shows in some run")
}

/// Checks that the smaller run shows the same kind of violation, and that it does not without any one of its incidents.
fn is_smallest(report: &Report, violation: &Violation) -> Shrunk {
    let shrunk = report.shrink(violation);
    let shows = |report: &Report| {
        let mut same = report.violations.iter();
        same.any(|other| (other.invariant, other.broken) == (violation.invariant, violation.broken))
    };
    let (smaller, count) = (&shrunk.report, shrunk.report.plan.incidents().len());
    assert!(shows(smaller) && count < report.plan.incidents().len(), "{shrunk}");
    let again = read(&smaller.replay());
    assert_eq!(smaller.history, again.run().history, "the printed command repeats it: {shrunk}");
    for left_out in 0..count {
        let mut number = 0..count;
        let plan = smaller.plan.filter(|_, _| number.next() != Some(left_out));
        assert_eq!(count - 1, plan.incidents().len());
        assert!(!shows(&again.clone().plan(plan).run()), "incident {left_out} is not necessary: {shrunk}");
    }
    shrunk
}

#[test]
fn a_run_is_reduced_to_the_incidents_without_which_nothing_is_violated() {
    let faults = |assumption| {
        let faults = Faults::Violating(assumption);
        move |seed| Experiment::new(seed).servers(3).lasts(Duration::from_secs(12)).faults(faults)
    };
    let overlaps = |violation: &Violation| violation.invariant == Invariant::Exclusion;
    let (report, violation) = first(faults(Assumption::DataIsKept), overlaps);
    let shrunk = is_smallest(&report, &violation);
    let is_flush = |(_, incident): &(_, Incident)| matches!(incident, Incident::Flush { .. });
    assert!(
        shrunk.report.plan.incidents().iter().any(is_flush),
        "without lost data, nothing overlaps: {shrunk}"
    );
    let (report, violation) = first(faults(Assumption::ClocksAreNotSet), overlaps);
    is_smallest(&report, &violation);
    let (report, violation) = first(faults(Assumption::HoldersCheckLeases), overlaps);
    is_smallest(&report, &violation);
}

/// The clocks drift within the bounds, and the clients do not allow for drift. No incident is necessary for that.
#[test]
fn a_defect_that_needs_no_incident_is_reduced_to_an_empty_plan() {
    let (report, violation) = first(
        |seed| Experiment::new(seed).servers(3).clock_drift_factor(0.0),
        |violation| violation.broken.is_none() && violation.invariant == Invariant::Validity,
    );
    let shrunk = is_smallest(&report, &violation);
    assert!(shrunk.report.plan.incidents().is_empty(), "{shrunk}");
    assert!(shrunk.report.replay().contains(" --incidents '' "), "{shrunk}");
}

#[test]
fn a_whole_stack_is_reduced_too() {
    let (report, violation) = first(
        |seed| {
            let short = Experiment::new(seed).servers(3).resources(1).lasts(Duration::from_secs(12));
            short.faults(Faults::Losses).without_admission().whole()
        },
        |violation| violation.invariant == Invariant::Exclusion,
    );
    is_smallest(&report, &violation);
}
