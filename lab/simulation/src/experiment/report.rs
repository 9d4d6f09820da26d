//! The result of a run.

use std::fmt;
use std::time::Duration;

use super::Experiment;
use crate::history::History;
use crate::invariant::{Rules, Violation};
use crate::plan::Plan;
use crate::timeline::Timeline;

/// The port of the playground, which runs experiments on a page.
pub const PLAYGROUND_PORT: u16 = 7331;

/// The width of timelines.
const COLUMNS: usize = 100;

/// The result of a run.
///
/// Its `Display` has a few lines, with the command that repeats the run.
#[derive(Clone, Debug)]
pub struct Report {
    pub(super) experiment: Experiment,
    /// The plan of faults.
    pub plan: Plan,
    /// The duration of the run in simulated time.
    pub lasted: Duration,
    /// All events of the run.
    pub history: History,
    /// The violations, in the order of events.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Returns the violations without a broken assumption: defects of the lock, or of the checks.
    pub fn defects(&self) -> impl Iterator<Item = &Violation> {
        self.violations.iter().filter(|violation| violation.broken.is_none())
    }

    /// Returns the command that repeats this run and shows it: [`Experiment::command`].
    pub fn replay(&self) -> String {
        self.experiment.command()
    }

    /// Returns the address that shows this run in the playground.
    ///
    /// `None` if the experiment has a setting that addresses of random runs do not contain, such as the whole stack.
    pub fn page(&self) -> Option<String> {
        let Experiment { seed, servers, clients, faults, fenced, admission, .. } = self.experiment;
        let shown = Experiment { servers, clients, faults, fenced, admission, ..Experiment::new(seed) };
        if shown != self.experiment {
            return None;
        }
        let setting = |name: &str, is: Option<bool>, values: [&str; 2]| {
            is.map_or(String::new(), |is| format!("&{name}={}", values[usize::from(is)]))
        };
        let (locks, admission) =
            (setting("locks", fenced, ["plain", "mixed"]), setting("admission", admission, ["off", "on"]));
        let run = format!("faults={faults}&nodes={servers}&clients={clients}{locks}{admission}&seed={seed}");
        Some(format!("http://127.0.0.1:{PLAYGROUND_PORT}/?{run}"))
    }

    /// Returns the rules of the checks.
    pub fn rules(&self) -> Rules {
        self.experiment.rules()
    }

    /// Returns the shortest prefix of the history that shows a violation: [`Violation::prefix`].
    pub fn prefix(&self, violation: &Violation) -> History {
        violation.prefix(&self.history)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (grants, lasted) = (self.history.grants(), self.lasted.as_secs());
        writeln!(f, "seed {}: {lasted} s, {grants} grants", self.experiment.seed)?;
        for violation in &self.violations {
            let picture = Timeline::about(&self.history, violation).text(COLUMNS);
            writeln!(f, "seed {}: {violation}\n{}\n{picture}", self.experiment.seed, self.prefix(violation))?;
        }
        writeln!(f, "again: {}", self.replay())?;
        match self.page() {
            Some(page) => writeln!(f, "page:  {page} (cargo run -p redlock-playground)"),
            None => Ok(()),
        }
    }
}
