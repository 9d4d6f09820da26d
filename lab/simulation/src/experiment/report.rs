//! The result of a run.

use std::fmt;
use std::time::Duration;

use super::Experiment;
use crate::history::History;
use crate::invariant::{Rules, Violation};
use crate::plan::{Faults, Plan};
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

    /// Returns the command that repeats this run and shows it.
    ///
    /// Of the settings in code, it includes only servers, clients, faults, fencing and restart admission.
    pub fn replay(&self) -> String {
        let Experiment { seed, servers, clients, faults, .. } = self.experiment;
        let faults = if faults == Faults::Bounded { String::new() } else { format!(" --faults {faults}") };
        let whole = if self.experiment.whole { " --whole" } else { "" };
        let options = self.unusual(" --", " ") + whole;
        format!("scripts/simulate --nodes {servers} --clients {clients}{faults}{options} --seed {seed}")
    }

    /// Returns the address that shows this run in the playground, with the same settings as
    /// [`replay`](Report::replay). The playground does not run the whole stack.
    pub fn page(&self) -> String {
        let Experiment { seed, servers, clients, faults, .. } = self.experiment;
        let fields = self.unusual("&", "=");
        let run = format!("faults={faults}&nodes={servers}&clients={clients}{fields}&seed={seed}");
        format!("http://127.0.0.1:{PLAYGROUND_PORT}/?{run}")
    }

    /// Returns the settings that differ from the usual ones for the faults, each after `before` and with `between` before
    /// its value.
    fn unusual(&self, before: &str, between: &str) -> String {
        let Experiment { faults, .. } = self.experiment;
        let setting = |name, is: bool, is_usual, values: [&str; 2]| {
            let value = values[usize::from(is)];
            if is == is_usual { String::new() } else { format!("{before}{name}{between}{value}") }
        };
        let (fenced, admission) = (self.experiment.is_fenced(), self.experiment.has_admission());
        let locks = setting("locks", fenced, faults.is_about_fencing(), ["plain", "mixed"]);
        locks + &setting("admission", admission, faults.has_admission(), ["off", "on"])
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
        if self.experiment.whole {
            return Ok(());
        }
        writeln!(f, "page:  {} (cargo run -p redlock-playground)", self.page())
    }
}
