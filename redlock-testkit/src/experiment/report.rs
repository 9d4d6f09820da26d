//! What came of a run.

use std::fmt;
use std::time::Duration;

use super::Experiment;
use crate::history::History;
use crate::invariant::Violation;
use crate::plan::{Faults, Plan};

/// What came of a run. Its `Display` says it in a few lines, with the command that repeats it.
#[derive(Clone, Debug)]
pub struct Report {
    pub(super) experiment: Experiment,
    /// What was to go wrong.
    pub plan: Plan,
    /// How much time passed in the simulated world.
    pub lasted: Duration,
    /// Everything that happened.
    pub history: History,
    /// What did not hold, in the order of events.
    pub violations: Vec<Violation>,
}

impl Report {
    /// The violations for which no assumption was broken: defects of the lock, or of the checks.
    pub fn defects(&self) -> impl Iterator<Item = &Violation> {
        self.violations.iter().filter(|violation| violation.broken.is_none())
    }

    /// The command that repeats this run and shows it; of what was set in code it knows servers, clients and faults.
    pub fn replay(&self) -> String {
        let Experiment { seed, servers, clients, faults, .. } = self.experiment;
        let faults = if faults == Faults::Bounded { String::new() } else { format!(" --faults {faults}") };
        format!("scripts/simulate --nodes {servers} --clients {clients}{faults} --seed {seed}")
    }

    /// The events up to a violation that are about its tokens, or about what went wrong at servers and clients.
    pub fn prefix(&self, violation: &Violation) -> History {
        let last = violation.event.min(self.history.0.len().saturating_sub(1));
        let events = self.history.0[..=last].iter();
        let concerned = events.filter(|event| event.what.concerns(&violation.tokens));
        History(concerned.cloned().collect())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (grants, lasted) = (self.history.grants(), self.lasted.as_secs());
        writeln!(f, "seed {}: {lasted} s, {grants} grants", self.experiment.seed)?;
        for violation in &self.violations {
            writeln!(f, "{violation}\n{}", self.prefix(violation))?;
        }
        writeln!(f, "again: {}", self.replay())
    }
}
