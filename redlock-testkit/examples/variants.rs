//! Breaks the lock itself, in one way after the other, and looks whether the invariants of simulated runs catch it.
//!
//! `variants [--write]`; `scripts/variants` builds and runs it. The table that it prints stands in `docs/variants.md`,
//! where `--write` puts it.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a command talks to people

use std::process::ExitCode;

#[cfg(not(redlock_broken))]
fn main() -> ExitCode {
    eprintln!("nothing is broken in this build: run scripts/variants");
    ExitCode::from(2)
}

#[cfg(redlock_broken)]
fn main() -> ExitCode {
    search::main()
}

#[cfg(redlock_broken)]
mod search {
    use std::collections::BTreeSet;
    use std::fs;
    use std::process::ExitCode;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use redlock_core::broken::{Variant, choose};
    use redlock_testkit::experiment::{Experiment, Report};
    use redlock_testkit::invariant::Invariant;
    use redlock_testkit::plan::{Faults, Incident, Plan};

    /// What is not caught within so many seeds is not caught. The core as it is shows nothing in any of them.
    const SEEDS: u64 = 1_000;

    /// Runs about waiting are longer, and show more: so many.
    const WAITING_SEEDS: u64 = 60;

    /// What is left behind shows when everybody has let go, at the end: so many short runs show more than few long ones.
    const LASTS: Duration = Duration::from_secs(6);

    /// A newer claim has to come between: it takes longer until what is wrong with fencing tokens shows.
    const FENCED_LASTS: Duration = Duration::from_secs(12);

    const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/variants.md");

    /// Where the table stands in the document: from its head to the end.
    const HEAD: &str = "| variant | what is wrong | caught by | seeds |\n|---|---|---|---:|\n";

    pub(super) fn main() -> ExitCode {
        let searches: Vec<_> = [None].into_iter().chain(Variant::ALL.iter().map(Some)).collect();
        let found = on_all_cores(&searches, |search| match search {
            Some((variant, _)) => seeds_until_caught(*variant),
            None => first_defect(),
        });
        let sound = found[0].is_none();
        let rows: Vec<_> = Variant::ALL.iter().zip(&found[1..]).map(row).collect();
        let table = rows.iter().fold(HEAD.to_owned(), |table, (row, seeds)| table + row + seeds + " |\n");
        println!("{table}");
        println!("the core as it is: {} in {SEEDS} seeds", if sound { "nothing" } else { "a defect" });
        let escaped = found[1..].iter().filter(|seeds| seeds.is_none()).count();
        println!("{escaped} of {} variants not caught within {SEEDS} seeds", rows.len());
        if std::env::args().any(|argument| argument == "--write") {
            write(&table);
        }
        let documented = documented().iter().eq(rows.iter().map(|(row, _)| row));
        if !documented {
            eprintln!("docs/variants.md has another table: scripts/variants --write");
        }
        if sound && escaped == 0 && documented { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// A row of the table, and its last field.
    fn row(((variant, says), seeds): (&(Variant, &str), &Option<u64>)) -> (String, String) {
        let row = format!("| {variant:?} | {} | {} | ", says.trim(), caught_by(*variant));
        (row, seeds.map_or("not caught".into(), |seeds| seeds.to_string()))
    }

    /// Which invariant a variant breaks. It may break others too, and sooner.
    fn caught_by(variant: Variant) -> Invariant {
        match variant {
            Variant::HalfQuorum | Variant::ReleaseComparesNothing => Invariant::Exclusion,
            Variant::ElapsedIgnored
            | Variant::ValidityFromReply
            | Variant::ValidityUnchecked
            | Variant::NoDrift
            | Variant::OneToken
            | Variant::ExtensionOfFirstNodes
            | Variant::ExtensionShortens
            | Variant::FailedExtensionUnlocks
            | Variant::ExpiredRevived => Invariant::Validity,
            Variant::ReleaseOnGrantingNodes
            | Variant::StragglerKept
            | Variant::CancelledKept
            | Variant::ChaseGivesUp
            | Variant::ChaseEndsAtFirstAnswer
            | Variant::ChaseEndsWithTtl
            | Variant::ExtensionRecreates => Invariant::Leftovers,
            Variant::WaitsForAll => Invariant::Minority,
            Variant::TimeoutsAreRefusals => Invariant::Honesty,
            Variant::SleepsBeforeArming | Variant::NoSafetyPoll | Variant::ExpiryLeftToNodes => {
                Invariant::Waking
            }
            Variant::LostIsFree | Variant::TriesAtEveryChange | Variant::AskedWithoutEnd => Invariant::Thrift,
            Variant::TokenUnconfirmed | Variant::ConfirmAnywhere | Variant::ConfirmRefills => {
                Invariant::Unique
            }
            Variant::ConfirmIgnoresCounter
            | Variant::FencedExtensionIsPlain
            | Variant::FencedExtensionAcquires => Invariant::Supersession,
            Variant::AcquireCountsTwice => Invariant::Counting,
        }
    }

    /// How many seeds it takes until the invariant that a variant breaks is seen to be broken.
    fn seeds_until_caught(variant: Variant) -> Option<u64> {
        choose(Some(variant));
        let (wanted, mut others) = (caught_by(variant), BTreeSet::new());
        let caught = |report: Report| {
            others.extend(report.defects().map(|defect| defect.invariant));
            report.defects().any(|defect| defect.invariant == wanted)
        };
        let kind = Kind::of(wanted);
        let seeds = (0..kind.seeds()).map(|seed| kind.run(seed)).position(caught);
        if seeds.is_none() {
            eprintln!("{variant:?} breaks {others:?}");
        }
        seeds.and_then(|seeds| u64::try_from(seeds + 1).ok())
    }

    /// Shows the first violation of the core as it is, if there is one within the seeds.
    fn first_defect() -> Option<u64> {
        choose(None);
        let kinds = [Kind::Plain, Kind::Fenced, Kind::Waiting].into_iter();
        let mut reports = kinds.flat_map(|kind| (0..kind.seeds()).map(move |seed| kind.run(seed)));
        let report = reports.find(|report| report.defects().next().is_some())?;
        eprintln!("the core as it is:\n{report}");
        Some(SEEDS)
    }

    /// What the runs are about in which a variant shows.
    #[derive(Clone, Copy)]
    enum Kind {
        Plain,
        Fenced,
        Waiting,
    }

    impl Kind {
        fn of(invariant: Invariant) -> Self {
            use Invariant::{Counting, Fairness, Order, Resource, Supersession, Thrift, Unique, Waking};
            match invariant {
                Unique | Order | Supersession | Resource | Counting => Self::Fenced,
                Waking | Fairness | Thrift => Self::Waiting,
                _ => Self::Plain,
            }
        }

        fn seeds(self) -> u64 {
            match self {
                Self::Plain | Self::Fenced => SEEDS,
                Self::Waiting => WAITING_SEEDS,
            }
        }

        fn run(self, seed: u64) -> Report {
            let experiment = Experiment::new(seed).lasts(LASTS);
            match self {
                // Three, four and five servers in turn.
                Self::Plain => experiment.servers([3, 4, 5][(seed % 3) as usize]).run(),
                // Three and five servers, four seeds each: there are four kinds of servers.
                Self::Waiting => experiment.servers(if seed % 8 < 4 { 3 } else { 5 }).waiting().run(),
                Self::Fenced => {
                    let clients = if seed % 2 == 0 { 5 } else { 3 };
                    let experiment = experiment.servers(3).clients(clients).resources(1);
                    let experiment = experiment.faults(Faults::Fencing).lasts(FENCED_LASTS);
                    let experiment = experiment.plan(evictions(seed));
                    // Where counters do not jump with the time they are close to each other, as they are in quiet times.
                    if seed / 4 % 4 < 3 { experiment.counters_without_time().run() } else { experiment.run() }
                }
            }
        }
    }

    /// One of three servers after the other loses its locks, mostly in a storm: whatever a newer claim depends on happens far
    /// more often than where locks are kept for most of the time. In every other run it is so often that a claim is gone
    /// between its round and the one that confirms it; in the others a lock lives long enough to be extended.
    fn evictions(seed: u64) -> Plan {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut plan = Plan::new();
        let often = seed % 2 == 0;
        if often || seed / 2 % 2 == 0 {
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

    fn write(table: &str) {
        let text = fs::read_to_string(DOCUMENT).expect("docs/variants.md is there");
        let (before, _) = text.split_once(HEAD).expect("docs/variants.md has a table");
        fs::write(DOCUMENT, format!("{before}{table}")).expect("docs/variants.md can be written");
    }

    /// The rows of the document, but for the number of seeds: that changes whenever a run draws once more.
    fn documented() -> Vec<String> {
        let text = fs::read_to_string(DOCUMENT).expect("docs/variants.md is there");
        let table = text.split_once(HEAD).map_or("", |(_, table)| table);
        let rows = table.lines().filter_map(|row| row.trim_end_matches(" |").rsplit_once(' '));
        rows.map(|(row, _)| format!("{row} ")).collect()
    }

    fn on_all_cores<T: Sync, U: Send>(work: &[T], each: impl Fn(&T) -> U + Sync) -> Vec<U> {
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let turns = || {
            while let Some((index, item)) = work.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed))
            {
                let result = each(item);
                done.lock().expect("pushing does not panic").push((index, result));
            }
        };
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, Into::into) {
                scope.spawn(turns);
            }
        });
        let mut done = done.into_inner().expect("pushing does not panic");
        done.sort_by_key(|(index, _)| *index);
        done.into_iter().map(|(_, result)| result).collect()
    }
}
