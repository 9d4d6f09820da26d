//! Two processes in turns: the time from the release of one to the hold of the other, which has waited all the while.

use std::time::Duration;

use super::party::{Party, Way};
use super::{millis, scaled};
use crate::groups::servers;
use crate::report::Fact;
use crate::round::{Effort, median};

const HOLD: Duration = Duration::from_millis(20);

/// The goal for the median gap, which excludes waiting for a timer.
const GOAL: f64 = 3e6;

pub(crate) fn run(effort: Effort) -> Vec<Fact> {
    [Way::RedisRs, Way::RedisRsPolling, Way::Fred, Way::FredPolling, Way::Rslock]
        .map(|way| {
            let gaps = gaps(way, scaled(effort, 200));
            let gap = median(gaps);
            let pushed = matches!(way, Way::RedisRs | Way::Fred);
            Fact {
                group: "Two processes that take turns, holds of 20 ms",
                what: format!("{}: from release to the next hold", way.name()),
                measured: millis(gap),
                goal: pushed.then(|| ("under 3 ms".to_owned(), gap < GOAL)),
            }
        })
        .into()
}

/// Returns the nanoseconds from the start of a release to the next hold, over several turns.
fn gaps(way: Way, turns: u64) -> Vec<f64> {
    let (_servers, urls) = servers(5);
    let mut parties = [0, 1].map(|_| Party::start(way, &urls, 1, HOLD));
    let mut gaps = Vec::new();
    parties[0].send("hold");
    parties[0].moment();
    for turn in 0..turns {
        let (holder, waiter) = if turn % 2 == 0 { (0, 1) } else { (1, 0) };
        parties[waiter].send("hold");
        let released = parties[holder].moment();
        let held = parties[waiter].moment();
        #[allow(clippy::cast_precision_loss)] // some milliseconds
        gaps.push(held.saturating_sub(released) as f64);
    }
    gaps
}
