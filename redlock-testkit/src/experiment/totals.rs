//! What came of many runs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::Report;
use crate::history::Trouble;
use crate::invariant::{Assumption, Invariant};

/// What came of many runs: that locks were granted, that everything went wrong that can, and what did not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many runs.
    pub runs: u64,
    /// How much time passed in their worlds.
    pub lasted: Duration,
    /// How many things happened in all.
    pub events: usize,
    /// How often a client was told that it has a lock.
    pub grants: usize,
    /// How often of them it has several resources at once.
    pub grants_of_several: usize,
    /// How often it has a fencing token.
    pub fenced_grants: usize,
    /// How many writes with a fencing token were taken by what the locks protect.
    pub writes_taken: usize,
    /// How many it has refused: they came too late.
    pub writes_refused: usize,
    /// How often each thing went wrong.
    pub troubles: BTreeMap<&'static str, usize>,
    /// How many violations there were, by what was broken before; `None` for defects.
    pub violations: BTreeMap<(Invariant, Option<Assumption>), usize>,
}

impl Totals {
    /// Adds one run.
    pub fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.lasted += report.lasted;
        self.events += report.history.0.len();
        self.grants += report.history.grants();
        self.grants_of_several += report.history.grants_of_several();
        self.fenced_grants += report.history.fenced_grants();
        let (taken, refused) = report.history.writes();
        self.writes_taken += taken;
        self.writes_refused += refused;
        for (trouble, count) in report.history.troubles() {
            *self.troubles.entry(trouble).or_default() += count;
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
        self.writes_taken += other.writes_taken;
        self.writes_refused += other.writes_refused;
        for (trouble, count) in &other.troubles {
            *self.troubles.entry(trouble).or_default() += count;
        }
        for (kind, count) in &other.violations {
            *self.violations.entry(*kind).or_default() += count;
        }
    }

    /// How many violations there were for which no assumption was broken.
    pub fn defects(&self) -> usize {
        self.violations.iter().filter(|((_, broken), _)| broken.is_none()).map(|(_, count)| count).sum()
    }

    /// How many violations of an invariant followed a broken assumption.
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
        writeln!(f, "{:>10} of them of several resources at once", self.grants_of_several)?;
        if self.fenced_grants > 0 {
            writeln!(f, "{:>10} of them with a fencing token", self.fenced_grants)?;
            writeln!(f, "{:>10} writes that a resource took, by their fencing token", self.writes_taken)?;
            writeln!(f, "{:>10} writes that it refused", self.writes_refused)?;
        }
        for name in Trouble::NAMES {
            writeln!(f, "{:>10} {name}", self.troubles.get(name).copied().unwrap_or(0))?;
        }
        writeln!(f, "{:>10} violations while all assumptions were kept", self.defects())?;
        for ((invariant, broken), count) in &self.violations {
            match broken {
                Some(broken) => writeln!(f, "{count:>10} {invariant}, where not: {broken}")?,
                None => writeln!(f, "{count:>10} {invariant}")?,
            }
        }
        Ok(())
    }
}
