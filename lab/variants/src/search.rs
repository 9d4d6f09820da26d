//! Runs one seed after another until an invariant is violated although all assumptions hold.
//!
//! `search INVARIANT [KIND]` prints the number of seeds until the violation, or nothing. The kind of runs follows from the
//! invariant, unless it is `fenced` (fencing tokens), `losses` (servers lose data), `clocks` (the same, and their clocks jump),
//! `checking` (servers may have lost data, and never have), `sharing` (readers and writers), `keeping` (locks that are kept
//! for a time), `changing` (the nodes are changed), or `agreeing` (node lists differ, and must agree). `whole`, or `whole-`
//! before a kind, runs the whole stack. `search` without arguments looks for a violation of any invariant in all kinds of
//! runs.
//!
//! With the environment variable `SHRUNK`, the smallest run that violates the invariant is shown, and its picture is written
//! to the file of that name.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a command prints its results

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use redlock_simulation::experiment::{Experiment, Report};
use redlock_simulation::invariant::{Invariant, Violation};
use redlock_simulation::plan::{Faults, Incident, Plan};
use redlock_simulation::server::Persistence;
use redlock_simulation::timeline::Timeline;

/// The number of seeds. The correct core violates no invariant in any of them.
const SEEDS: u64 = 1_000;

/// The number of seeds of runs about waiting. These runs are longer, and each detects more.
const WAITING_SEEDS: u64 = 150;

/// The number of seeds of runs of the whole stack, each of which takes five times as long.
const WHOLE_SEEDS: u64 = 300;

/// The duration of a run. Leftovers are detected at the end, so many short runs detect more than a few long ones.
const LASTS: Duration = Duration::from_secs(6);

/// The duration of a run about fencing tokens. It must be long enough for a newer claim in between.
const FENCED_LASTS: Duration = Duration::from_secs(12);

/// The duration of a run in which servers lose data, or their clocks jump.
const LOSSES_LAST: Duration = Duration::from_secs(20);

/// The old and the new list of each change of the nodes.
const CHANGES: [(&[usize], &[usize]); 4] =
    [(&[0], &[0, 1, 2]), (&[0, 1, 2], &[0, 1, 2, 3, 4]), (&[0, 1, 2], &[2, 3, 4]), (&[0, 1, 2], &[3, 4, 5])];

/// The old and the new list of a change without a middle step. Server 0 is in both.
const DIFFERENT: (&[usize], &[usize]) = (&[0, 1, 2], &[0, 3, 4]);

/// All clients that are restarted after this time of a run have the new list.
const ALL_CHANGED: Duration = Duration::from_secs(9);

fn main() {
    let (name, kind) = (std::env::args().nth(1), std::env::args().nth(2));
    let seeds = match name {
        Some(name) => {
            let (kind, is_whole) = match kind.as_deref().map(|kind| (kind, kind.strip_prefix("whole"))) {
                None => (Kind::of(&name), false),
                Some((_, Some(""))) => (Kind::of(&name), true),
                Some((_, Some(kind))) => (Kind::named(kind.trim_start_matches('-')), true),
                Some((kind, None)) => (Kind::named(kind), false),
            };
            seeds_until_violated(&name, Runs { kind, is_whole })
        }
        None => first_defect(),
    };
    if let Some(seeds) = seeds {
        println!("{seeds}");
    }
}

fn seeds_until_violated(name: &str, runs: Runs) -> Option<usize> {
    let mut others = BTreeSet::new();
    let violated = |report: Report| {
        others.extend(report.defects().map(|defect| defect.invariant.to_string()));
        let defect = report.defects().find(|defect| defect.invariant.to_string() == name);
        if let (Some(defect), Some(file)) = (defect, std::env::var_os("SHRUNK")) {
            show_smallest(&report, defect, Path::new(&file));
        }
        defect.is_some()
    };
    let seeds = (0..runs.seeds()).map(|seed| runs.run(seed)).position(violated);
    if seeds.is_none() {
        eprintln!("not violated: {name}, but {others:?}");
    }
    seeds.map(|seeds| seeds + 1)
}

/// Shows the smallest run with the same violation, and writes its picture.
fn show_smallest(report: &Report, violation: &Violation, file: &Path) {
    let shrunk = report.shrink(violation);
    eprintln!("{shrunk}");
    let is_same = |other: &&Violation| other.invariant == violation.invariant && other.broken.is_none();
    let smallest = &shrunk.report;
    let shown = smallest.violations.iter().find(is_same).expect("the smallest run shows the violation");
    let picture = Timeline::about(&smallest.history, shown).title(smallest.replay()).svg();
    fs::write(file, picture).expect("the folder of the picture exists");
}

/// Shows the first violation of the correct core, if there is one within the seeds.
fn first_defect() -> Option<usize> {
    let runs = |is_whole| KINDS.into_iter().map(move |(_, kind)| Runs { kind, is_whole });
    // Changes of the nodes are searched in the fast layer only. Without data losses and jumps of clocks, a whole stack that
    // checks its servers shows nothing else.
    let adds_nothing = |runs: &Runs| matches!(runs.kind, Kind::Checking | Kind::Changing | Kind::Agreeing);
    let runs = runs(false).chain(runs(true).filter(|runs| !adds_nothing(runs)));
    let mut reports = runs.flat_map(|runs| (0..runs.seeds()).map(move |seed| runs.run(seed)));
    let position = reports.position(|report| {
        let is_violated = report.defects().next().is_some();
        if is_violated {
            eprintln!("the correct core:\n{report}");
        }
        is_violated
    });
    position.map(|position| position + 1)
}

/// The runs in which a variant is detected.
#[derive(Clone, Copy)]
struct Runs {
    kind: Kind,
    /// True for the whole stack.
    is_whole: bool,
}

/// All kinds of runs by name.
const KINDS: [(&str, Kind); 10] = [
    ("plain", Kind::Plain),
    ("fenced", Kind::Fenced),
    ("losses", Kind::Losses),
    ("clocks", Kind::Clocks),
    ("checking", Kind::Checking),
    ("sharing", Kind::Sharing),
    ("keeping", Kind::Keeping),
    ("changing", Kind::Changing),
    ("agreeing", Kind::Agreeing),
    ("waiting", Kind::Waiting),
];

/// The kind of runs.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Fenced,
    Losses,
    Clocks,
    Checking,
    Sharing,
    Keeping,
    Changing,
    Agreeing,
    Waiting,
}

impl Runs {
    fn seeds(self) -> u64 {
        match self.kind {
            Kind::Waiting if self.is_whole => WAITING_SEEDS / 3,
            Kind::Waiting => WAITING_SEEDS,
            _ if self.is_whole => WHOLE_SEEDS,
            _ => SEEDS,
        }
    }

    fn run(self, seed: u64) -> Report {
        let experiment = Experiment::new(seed).lasts(LASTS);
        self.kind.run(if self.is_whole { experiment.whole() } else { experiment }, seed)
    }
}

impl Kind {
    fn named(name: &str) -> Self {
        let is_it = |(known, _): &&(&str, Self)| *known == name;
        KINDS.iter().find(is_it).unwrap_or_else(|| panic!("no kind of runs: {name}")).1
    }

    fn of(invariant: &str) -> Self {
        use Invariant::{Cost, Counting, Fairness, Order, Resource, Supersession, Unique, Waking};
        let is_one_of = |invariants: &[Invariant]| invariants.iter().any(|one| one.to_string() == invariant);
        match () {
            () if is_one_of(&[Unique, Order, Supersession, Resource, Counting]) => Self::Fenced,
            () if is_one_of(&[Waking, Fairness, Cost]) => Self::Waiting,
            () => Self::Plain,
        }
    }

    fn run(self, experiment: Experiment, seed: u64) -> Report {
        let is_even = seed.is_multiple_of(2);
        let in_turn = || experiment.clone().servers(if is_even { 3 } else { 5 });
        // A quarantine takes six seconds, so a loss and its consequences need a longer run.
        let losing = |faults| in_turn().lasts(LOSSES_LAST).faults(faults);
        let changing = |(old, new): (&[usize], &[usize])| {
            experiment.clone().changing(old, new).clients(4).resources(1).lasts(LOSSES_LAST)
        };
        let experiment = match self {
            // Three, four and five servers in turn.
            Self::Plain => experiment.servers([3, 4, 5][(seed % 3) as usize]),
            Self::Losses => losing(Faults::Losses),
            Self::Clocks => losing(Faults::Clocks),
            // Each new connection is checked before the first vote, so requests wait for it.
            Self::Checking => in_turn().with_admission(),
            Self::Sharing => in_turn().clients(5).sharing(),
            Self::Keeping => in_turn().keeping(),
            Self::Changing => changing(CHANGES[(seed % 4) as usize]),
            Self::Agreeing => {
                let agreeing = changing(DIFFERENT).without_middle_step().agreeing().faults(Faults::None);
                if is_even { agreeing } else { agreeing.plan(partly_reached(seed)) }
            }
            // Three and five servers, four seeds each: there are four kinds of servers.
            Self::Waiting => experiment.servers(if seed % 8 < 4 { 3 } else { 5 }).waiting(),
            Self::Fenced => {
                let experiment = experiment.servers(3).clients(if is_even { 5 } else { 3 }).resources(1);
                let experiment = experiment.faults(Faults::Fencing).lasts(FENCED_LASTS).plan(evictions(seed));
                // Counters that do not jump with the time are close to each other, as in times without faults.
                if seed / 4 % 4 < 3 { experiment.counters_without_time() } else { experiment }
            }
        };
        experiment.run()
    }
}

/// Lets two of four clients change to the new list while each list has a server that is down. Then the server of the old list
/// is up again.
fn partly_reached(seed: u64) -> Plan {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut after = |least: Duration| least + Duration::from_millis(chance.u64(..2_000));
    let kill = |client| Incident::Kill { client, lasts: Duration::from_millis(50) };
    let is_up = after(ALL_CHANGED + Duration::from_secs(3));
    let [old, new] = [DIFFERENT.0, DIFFERENT.1].map(|list| list[2]);
    Plan::new()
        .at(Duration::ZERO, Incident::Crash { server: old, persistence: Persistence::All, lasts: is_up })
        .at(
            Duration::ZERO,
            Incident::Crash { server: new, persistence: Persistence::All, lasts: LOSSES_LAST },
        )
        .at(after(ALL_CHANGED), kill(2))
        .at(after(ALL_CHANGED), kill(3))
}

/// Makes one of three servers after another lose its locks, mostly in a storm.
///
/// Newer claims are thus far more frequent than with locks that are kept for most of the time. In every other run, losses
/// are so frequent that a claim is lost between its round and the confirmation. In the others, a lock lives long enough to
/// be extended.
fn evictions(seed: u64) -> Plan {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut plan = Plan::new();
    let often = seed.is_multiple_of(2);
    if often || (seed / 2).is_multiple_of(2) {
        plan = plan.at(Duration::ZERO, Incident::Storm { lasts: FENCED_LASTS });
    }
    let longest = if often { 20 } else { 400 };
    let mut when = Duration::ZERO;
    while when < FENCED_LASTS {
        when += Duration::from_millis(chance.u64(10..longest));
        plan = plan.at(when, Incident::Evict { server: chance.usize(..3) });
    }
    plan
}
