//! Processes with different numbers of tasks on one lock: the share of each process, and the longest wait.

use std::time::Duration;

use super::party::{Hold, Party, Way};
use super::{millis, scaled};
use crate::groups::servers;
use crate::report::Fact;
use crate::round::Effort;

const GROUP: &str = "Processes with different numbers of tasks on one key, holds of 1 ms";
const HOLD: Duration = Duration::from_millis(1);

/// The tasks of each process, and the pause of the first process after each hold, in milliseconds.
const CROWDS: [(&str, &[usize], u64); 3] = [
    ("1 task that pauses for 5 ms, and 16 tasks", &[1, 16], 5),
    ("1 task and 16 tasks", &[1, 16], 0),
    ("3 processes of 1 task", &[1, 1, 1], 0),
];

/// The goal for a process, as a share of the turns that its number of tasks entitles it to.
const GOAL: f64 = 0.8;

pub(crate) fn run(effort: Effort) -> Vec<Fact> {
    let ways = [Way::RedisRs, Way::Fred, Way::Rslock];
    CROWDS.into_iter().flat_map(|crowd| ways.map(|way| fact(way, crowd, effort))).collect()
}

#[allow(clippy::cast_precision_loss)] // some thousands
fn fact(way: Way, (name, tasks, pause): (&str, &[usize], u64), effort: Effort) -> Fact {
    let lasts = scaled(effort, 30_000);
    let (_servers, urls) = servers(5);
    let mut parties: Vec<_> = tasks.iter().map(|tasks| Party::start(way, &urls, *tasks, HOLD)).collect();
    for (party, pause) in parties.iter_mut().zip([pause, 0, 0]) {
        party.send(&format!("hold {lasts} {pause}"));
    }
    let holds: Vec<_> = parties.into_iter().map(Party::holds).collect();
    let (of_all, tasks_of_all) =
        (holds.iter().map(Vec::len).sum::<usize>() as f64, tasks.iter().sum::<usize>() as f64);
    let share = holds[0].len() as f64 / of_all;
    let fair = tasks[0] as f64 / tasks_of_all;
    let [one, others] =
        [&holds[..1], &holds[1..]].map(|holds| millis(holds.iter().flatten().map(wait).fold(0.0, f64::max)));
    let is_redlock = way != Way::Rslock;
    Fact {
        group: GROUP,
        what: format!("{}, {name}", way.name()),
        measured: format!(
            "the first has {:.1} % of {:.0} turns/s and waits for at most {one}; the others {others}",
            100.0 * share,
            of_all * 1e3 / lasts as f64,
        ),
        goal: is_redlock.then(|| (format!("at least {:.1} %", 100.0 * GOAL * fair), share >= GOAL * fair)),
    }
}

/// Returns the nanoseconds from the request to the hold.
#[allow(clippy::cast_precision_loss)] // some seconds
fn wait(hold: &Hold) -> f64 {
    hold.since.saturating_sub(hold.requested) as f64
}
