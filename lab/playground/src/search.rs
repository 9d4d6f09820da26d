//! The search for a seed that violates an invariant.

use std::time::{Duration, Instant};

use redlock_simulation::experiment::Report;
use redlock_simulation::invariant::Violation;
use redlock_simulation::plan::Faults;
use redlock_simulation::timeline::Timeline;
use serde::{Deserialize, Serialize};

use crate::setup::within;
use crate::subject::{self, Random, Subject};
use crate::view::{Picture, Shown};

/// A request to search.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// The name of the faults, which determines the broken assumption.
    pub faults: String,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of clients.
    pub clients: usize,
    /// The first seed.
    pub first: u64,
    /// The number of seeds.
    pub seeds: u64,
    /// The width of the picture.
    pub width: f64,
}

/// One line of the reply.
///
/// `out_of_time` means that the time limit was reached before all seeds were tried.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // the names of the fields
pub enum Progress {
    /// This number of seeds was tried, without a violation.
    Tried(u64),
    /// A seed violates an invariant.
    Found(Box<Found>),
    /// All seeds were tried, without a violation.
    Nothing { tried: u64, out_of_time: bool },
}

/// A violation, and the shortest prefix of the history that shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    seed: u64,
    tried: u64,
    address: String,
    violation: Shown,
    prefix: String,
    picture: Picture,
}

/// The maximum number of seeds of a search.
pub const MOST_SEEDS: u64 = 5_000;

/// The time limit of a search. The longest run takes a fraction of it.
const LONGEST: Duration = Duration::from_secs(60);

impl Search {
    /// Checks all bounds.
    ///
    /// # Errors
    ///
    /// A sentence about the first field that is unknown or out of bounds.
    pub fn check(&self) -> Result<(), String> {
        within("the number of seeds", self.seeds, &(1..=MOST_SEEDS))?;
        self.random(0).and_then(|random| random.check())
    }

    /// Runs one seed after another, up to the first violation. Stops if `report` returns `false`.
    pub fn run(&self, mut report: impl FnMut(Progress) -> bool) {
        let begun = Instant::now();
        for tried in 0..self.seeds {
            let Ok(random) = self.random(self.first.saturating_add(tried)) else { return };
            let Ok(run) = subject::run(&random.experiment()) else { return };
            if let Some(violation) = random.announced(&run) {
                report(Progress::Found(Box::new(self.found(random, tried + 1, &run, violation))));
                return;
            }
            if begun.elapsed() > LONGEST {
                report(Progress::Nothing { tried: tried + 1, out_of_time: true });
                return;
            }
            if !report(Progress::Tried(tried + 1)) {
                return;
            }
        }
        report(Progress::Nothing { tried: self.seeds, out_of_time: false });
    }

    fn random(&self, seed: u64) -> Result<Random, String> {
        let faults = Faults::named(&self.faults);
        let faults = faults.ok_or_else(|| format!("there are no faults \"{}\"", self.faults))?;
        Ok(Random { faults, nodes: self.nodes, clients: self.clients, fenced: None, admission: None, seed })
    }

    fn found(&self, random: Random, tried: u64, report: &Report, violation: &Violation) -> Found {
        let drawing = Timeline::about(&report.history, violation)
            .width(self.width)
            .without_texts()
            .stretched()
            .drawing();
        Found {
            seed: random.seed,
            tried,
            address: Subject::Random(random).address(),
            violation: Shown::of(violation, report),
            prefix: report.prefix(violation).to_string(),
            picture: Picture::of(drawing),
        }
    }
}

/// The faults of a search, with the sentence about the assumption.
pub const KINDS: [(&str, &str); 7] = [
    ("bounded", "All assumptions hold"),
    ("losses", "Nodes may lose data, with restart admission"),
    ("data-loss", "Nodes may lose data, without restart admission"),
    ("clock-steps", "Clocks may be set"),
    ("clock-drift", "Clocks may run unevenly"),
    ("careless-holders", "Holders may act without a check of their lease"),
    ("counter-loss", "Nodes may lose the counters of fencing tokens"),
];
