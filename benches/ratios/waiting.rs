//! The waiting time of waiters: `scripts/bench waiting`.
//!
//! Separate processes take turns, so the time between a release and the next hold is the time that an application sees.
//! Each process is another instance of this program, started as a [`party`](party::Party).

mod crowd;
mod foreign;
mod hand_over;
mod keys;
mod leader;
mod monitor;
mod party;
mod queue;
mod shares;
mod turns;

pub(crate) use self::party::run as party;

use crate::report::Fact;
use crate::round::Effort;

type Group = fn(Effort) -> Vec<Fact>;

/// All groups by name.
pub(crate) const GROUPS: [(&str, Group); 8] = [
    ("turns", turns::run),
    ("handover", hand_over::run),
    ("foreign", foreign::run),
    ("crowd", crowd::run),
    ("shares", shares::run),
    ("queue", queue::run),
    ("keys", keys::run),
    ("leader", leader::run),
];

/// Returns all, a tenth or a hundredth of `full`, depending on the extent.
fn scaled(effort: Effort, full: u64) -> u64 {
    effort.choose(full, (full / 10).max(1), (full / 100).max(1))
}

fn millis(nanos: f64) -> String {
    format!("{:.2} ms", nanos / 1e6)
}
