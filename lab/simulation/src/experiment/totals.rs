//! The results of many runs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Experiment, Report};
use crate::history::FaultKind;
use crate::invariant::{Assumption, Invariant};

/// The combined results of many runs: grants, faults and violations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of runs.
    pub runs: u64,
    /// The total simulated time.
    pub lasted: Duration,
    /// The total number of events.
    pub events: usize,
    /// The number of grants.
    pub grants: usize,
    /// The number of grants for several resources at once.
    pub grants_of_several: usize,
    /// The number of grants with a fencing token.
    pub fenced_grants: usize,
    /// The number of writes with a fencing token that the protected resources accepted.
    pub writes_accepted: usize,
    /// The number of writes that they rejected as stale.
    pub writes_rejected: usize,
    /// The number of faults by kind.
    pub faults: BTreeMap<&'static str, usize>,
    /// The number of violations by invariant and broken assumption; `None` for defects.
    pub violations: BTreeMap<(Invariant, Option<Assumption>), usize>,
}

impl Totals {
    /// Runs the experiments of the first `seeds` seeds, and fails at the first defect.
    ///
    /// # Panics
    ///
    /// Panics with the report of a run in which something was violated although all assumptions held.
    ///
    /// ```
    /// use redlock_simulation::experiment::{Experiment, Totals};
    ///
    /// let totals = Totals::without_defects(3, |seed| Experiment::new(seed).servers(3));
    /// assert!(totals.runs == 3 && totals.grants > 10);
    /// ```
    pub fn without_defects(seeds: u64, experiment: impl Fn(u64) -> Experiment) -> Self {
        let mut totals = Self::default();
        for seed in 0..seeds {
            let report = experiment(seed).run();
            assert!(report.defects().next().is_none(), "{report}");
            totals.add(&report);
        }
        totals
    }

    /// Adds one run.
    pub fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.lasted += report.lasted;
        self.events += report.history.0.len();
        self.grants += report.history.grants();
        self.grants_of_several += report.history.grants_of_several();
        self.fenced_grants += report.history.fenced_grants();
        let (accepted, rejected) = report.history.writes();
        self.writes_accepted += accepted;
        self.writes_rejected += rejected;
        for (fault, count) in report.history.faults() {
            *self.faults.entry(fault).or_default() += count;
        }
        for violation in &report.violations {
            *self.violations.entry((violation.invariant, violation.broken)).or_default() += 1;
        }
    }

    /// Adds other runs.
    pub fn merge(&mut self, other: &Self) {
        self.runs += other.runs;
        self.lasted += other.lasted;
        self.events += other.events;
        self.grants += other.grants;
        self.grants_of_several += other.grants_of_several;
        self.fenced_grants += other.fenced_grants;
        self.writes_accepted += other.writes_accepted;
        self.writes_rejected += other.writes_rejected;
        for (fault, count) in &other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (kind, count) in &other.violations {
            *self.violations.entry(*kind).or_default() += count;
        }
    }

    /// Returns the number of violations without a broken assumption.
    pub fn defects(&self) -> usize {
        self.violations.iter().filter(|((_, broken), _)| broken.is_none()).map(|(_, count)| count).sum()
    }

    /// Returns the number of violations of an invariant after a broken assumption.
    pub fn violations_of(&self, invariant: Invariant, broken: Assumption) -> usize {
        self.violations.get(&(invariant, Some(broken))).copied().unwrap_or(0)
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, lasted, events, grants, .. } = self;
        let (hours, minutes) = (lasted.as_secs() / 3600, lasted.as_secs() / 60 % 60);
        writeln!(f, "{runs} runs, {hours} h {minutes} min of simulated time, {events} events")?;
        writeln!(f, "{grants:>10} locks granted")?;
        writeln!(f, "{:>10} of them for several resources at once", self.grants_of_several)?;
        if self.fenced_grants > 0 {
            writeln!(f, "{:>10} of them with a fencing token", self.fenced_grants)?;
            writeln!(
                f,
                "{:>10} writes that a resource accepted by their fencing token",
                self.writes_accepted
            )?;
            writeln!(f, "{:>10} writes that a resource rejected", self.writes_rejected)?;
        }
        for name in FaultKind::NAMES {
            writeln!(f, "{:>10} {name}", self.faults.get(*name).copied().unwrap_or(0))?;
        }
        writeln!(f, "{:>10} violations while all assumptions held", self.defects())?;
        for ((invariant, broken), count) in &self.violations {
            match broken {
                Some(broken) => writeln!(f, "{count:>10} {invariant}, broken assumption: {broken}")?,
                None => writeln!(f, "{count:>10} {invariant}")?,
            }
        }
        Ok(())
    }
}
