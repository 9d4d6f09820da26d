//! Goodput, latency and losses of a process that requests more locks than it can get: `scripts/bench load`.
//!
//! Each measurement starts its own servers, runtime and lock. Each has a time limit, so a collapse shows up as
//! unfinished requests and not as a program that hangs.

mod burst;
mod client;
mod curve;
mod kept;
mod open;
mod stage;
mod stalls;
mod tally;
mod waiters;

use std::error::Error;
use std::path::Path;

use self::client::Kind;
use crate::report::{self, Fact};
use crate::round::Effort;

/// The measurements requested on the command line.
pub(crate) struct Plan {
    effort: Effort,
    /// The only group to run.
    only: Option<String>,
    kinds: Vec<Kind>,
    /// Numbers of locks that replace those of the group.
    locks: Option<Vec<usize>>,
    /// The duration of a measurement, which replaces that of the group.
    seconds: Option<f64>,
}

impl Plan {
    /// Reads `--only GROUP`, `--client NAME`, `--locks N,N,..` and `--seconds S`.
    pub(crate) fn new(effort: Effort, args: &[String]) -> Result<Self, Box<dyn Error>> {
        let value = |flag: &str| {
            let position = args.iter().position(|arg| arg == flag);
            position.and_then(|position| args.get(position + 1)).map(String::as_str)
        };
        let kinds = match value("--client") {
            None => Kind::ALL.into(),
            Some(name) => vec![Kind::named(name).ok_or("--client is redis-rs, fred or rslock")?],
        };
        let locks = value("--locks").map(|list| list.split(',').map(str::parse).collect()).transpose()?;
        let seconds = value("--seconds").map(str::parse).transpose()?;
        Ok(Self { effort, only: value("--only").map(str::to_owned), kinds, locks, seconds })
    }

    /// Returns true if everything is measured as published.
    fn is_complete(&self) -> bool {
        self.only.is_none()
            && self.locks.is_none()
            && self.seconds.is_none()
            && self.kinds.len() == Kind::ALL.len()
    }

    fn includes(&self, group: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == group)
    }

    /// Returns the clients that can wait and renew locks.
    fn adapters(&self) -> impl Iterator<Item = Kind> {
        self.kinds.iter().copied().filter(|kind| *kind != Kind::Rslock)
    }

    fn locks(&self, full: &[usize], quick: &[usize], smoke: usize) -> Vec<usize> {
        self.locks.clone().unwrap_or_else(|| self.effort.choose(full.to_vec(), quick.to_vec(), vec![smoke]))
    }

    fn seconds(&self, full: f64, quick: f64, smoke: f64) -> f64 {
        self.seconds.unwrap_or_else(|| self.effort.choose(full, quick, smoke))
    }
}

/// Measures the groups and prints a table for each. Writes the tables to `folder` if nothing was left out.
pub(crate) fn run(plan: &Plan, machine: &str, folder: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let mut text = format!("{INTRODUCTION}\n{machine}\n![]({CHART})\n");
    let mut print = |facts: &[Fact]| {
        let table = report::facts(facts);
        println!("{table}");
        text.push_str(&table);
    };
    if plan.includes("burst") {
        print(&burst::run(plan));
    }
    let mut curves = Vec::new();
    if plan.includes("open") {
        curves = open::run(plan);
        print(&open::facts(&curves));
    }
    if plan.includes("waiters") {
        print(&waiters::run(plan));
    }
    if plan.includes("kept") {
        print(&kept::run(plan));
    }
    if plan.includes("stalls") {
        print(&stalls::run(plan));
    }
    if let Some(folder) = folder.filter(|_| plan.is_complete()) {
        curve::draw(&curves, &folder.join(CHART))?;
        std::fs::write(folder.join("load.md"), text)?;
    }
    Ok(())
}

const CHART: &str = "load.svg";

const INTRODUCTION: &str = "\
# Load

`scripts/bench load` writes this page. Each measurement has its own five servers, which share the machine with the
client. It runs on tokio's multi-thread runtime with default settings. All names are different, so no lock is contended
unless a heading states it. Requests of a burst wait for up to 60 s.

- *goodput*: locks that were acquired and released, per second.
- *capacity*: the goodput of 64 tasks, each of which locks and releases without a pause.
- *demand*: requests that start per second, as a multiple of the capacity. New requests start even if earlier ones have
  not finished.
- *one in 10 requests acquires a lock*: the other requests return at once, without the library. The row shows the
  goodput of a machine that starts ten times as many tasks as it can serve. The difference from the row above is the
  cost of denials by the library.
- *p50*, *p99*: the median and the 99th percentile of the time from the start of a request to the end of its release.
  Only requests that succeeded are included.
- *keys left*: keys on all five servers after `close()` has returned, or after its time limit of 30 s.
- *rslock*: the crate `rslock` with its default settings, which are three attempts.
";
