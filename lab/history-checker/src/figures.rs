//! Counts of a history.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::history::History;
use crate::line::{Action, FaultKind, Mode, Phase};
use crate::overlaps::Overlaps;
use crate::violation::seconds;

/// Counts of a history.
#[derive(Debug, Default)]
pub struct Figures {
    seconds: f64,
    processes: usize,
    acquired: BTreeMap<Mode, u64>,
    tokens: u64,
    counts: BTreeMap<(Group, String), u64>,
    faults: BTreeMap<FaultKind, u64>,
    readers_together: usize,
    overlaps: usize,
}

/// The heading of a count.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    NotAcquired,
    Extensions,
    Releases,
    Lost,
}

impl Figures {
    pub(crate) fn of(history: &History, overlaps: &Overlaps) -> Self {
        let mut figures = Self {
            readers_together: overlaps.readers,
            overlaps: overlaps.violations.len(),
            ..Self::default()
        };
        if let [first, .., last] = &history.events[..] {
            figures.seconds = seconds(last.time - first.time);
        }
        let processes: BTreeSet<_> = history.events.iter().map(|event| &event.id.process).collect();
        figures.processes = processes.len();
        for hold in history.holds.iter().filter(|hold| hold.acquired.is_some()) {
            *figures.acquired.entry(hold.mode).or_default() += 1;
            figures.tokens += u64::from(hold.token.is_some());
        }
        for event in &history.events {
            let (group, name) = match &event.action {
                Action::NotAcquired { reason } => (Group::NotAcquired, reason.clone()),
                Action::Extended { .. } => (Group::Extensions, "extended".to_owned()),
                Action::NotExtended { reason } => (Group::Extensions, reason.clone()),
                Action::Released { outcome } => (Group::Releases, outcome.clone()),
                Action::NotReleased { reason } => (Group::Releases, reason.clone()),
                Action::Left => (Group::Releases, "left to expire".to_owned()),
                Action::Lost { reason } => (Group::Lost, reason.clone()),
                _ => continue,
            };
            *figures.counts.entry((group, name)).or_default() += 1;
        }
        for fault in history.faults.iter().filter(|fault| fault.phase == Phase::Begin) {
            *figures.faults.entry(fault.kind).or_default() += 1;
        }
        figures
    }

    /// Fails if a check had nothing to check.
    pub(crate) fn require(&self) -> Result<(), String> {
        for mode in [Mode::Exclusive, Mode::Write, Mode::Read] {
            if !self.acquired.contains_key(&mode) {
                return Err(format!("the history has no lease with the mode {mode}"));
            }
        }
        if self.tokens == 0 {
            return Err("the history has no fencing token".to_owned());
        }
        if self.readers_together == 0 {
            return Err("the history has no readers at the same time".to_owned());
        }
        Ok(())
    }
}

/// A table.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, count: u64| writeln!(f, "{name:<48} {count:>9}");
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // seconds are positive
        row("seconds", self.seconds as u64)?;
        row("client processes", self.processes as u64)?;
        for (mode, count) in &self.acquired {
            row(&format!("acquired: {mode}"), *count)?;
        }
        row("acquired: with a fencing token", self.tokens)?;
        for ((group, name), count) in &self.counts {
            let group = match group {
                Group::NotAcquired => "not acquired",
                Group::Extensions => "extensions",
                Group::Releases => "releases",
                Group::Lost => "leases that ended without release",
            };
            row(&format!("{group}: {name}"), *count)?;
        }
        for (kind, count) in &self.faults {
            row(&format!("faults: {kind}"), *count)?;
        }
        row("readers at the same time", self.readers_together as u64)?;
        row("overlaps", self.overlaps as u64)
    }
}
