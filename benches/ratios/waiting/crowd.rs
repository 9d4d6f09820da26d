//! Several processes with many tasks each, which all contend for one lock: the rate of handoffs, their distribution,
//! and overlaps of holds.

use std::time::Duration;

use super::party::{Hold, Party, Way};
use super::scaled;
use crate::contender::redlock_client::RedlockClient;
use crate::groups::servers;
use crate::lane::{Flavor, lane};
use crate::report::Fact;
use crate::round::Effort;

const PROCESSES: usize = 4;
const TASKS: usize = 16;
const HOLD: Duration = Duration::from_millis(1);

/// The goal as a share of the rate of a single task without contention.
const GOAL: f64 = 0.60;

/// The number of handoffs without an overlap.
const HANDOFFS: usize = 100_000;

const GROUP: &str = "4 processes of 16 tasks on one key, holds of 1 ms";

pub(crate) fn run(effort: Effort) -> Vec<Fact> {
    let lasts = Duration::from_millis(scaled(effort, 30_000));
    let mut facts = Vec::new();
    for way in [Way::RedisRs, Way::Fred, Way::RedisRsPolling, Way::Rslock] {
        let round = Round::of(way, lasts, effort);
        facts.push(round.fact(way));
        facts.push(round.overlaps(way.name()));
    }
    // Handoffs as quick as possible, until there are enough of them.
    let target = effort.choose(HANDOFFS, HANDOFFS / 10, 1);
    let mut all = Round { holds: Vec::new(), lasted: 0.0, cycle: 0.0 };
    while all.handoffs() < target {
        all.holds.extend(Round::of(Way::RedisRs, lasts, effort).holds);
    }
    facts.push(all.overlaps("redis-rs, all rounds"));
    facts
}

/// The results of one round.
struct Round {
    /// The holds of each process.
    holds: Vec<Vec<Hold>>,
    /// The duration in seconds.
    lasted: f64,
    /// The seconds of a cycle without contention.
    cycle: f64,
}

impl Round {
    fn of(way: Way, lasts: Duration, effort: Effort) -> Self {
        let (_servers, urls) = servers(5);
        let baseline = lane(Flavor::CurrentThread, async { RedlockClient::redis_rs(&urls) });
        let cycle = baseline.latency(effort.cycles).cycle.p50 / 1e6;
        drop(baseline);
        let mut parties: Vec<_> = (0..PROCESSES).map(|_| Party::start(way, &urls, TASKS, HOLD)).collect();
        for party in &mut parties {
            party.send(&format!("hold {}", lasts.as_millis()));
        }
        let holds = parties.into_iter().map(Party::holds).collect();
        Self { holds, lasted: lasts.as_secs_f64(), cycle }
    }

    fn handoffs(&self) -> usize {
        self.holds.iter().map(Vec::len).sum()
    }

    #[allow(clippy::cast_precision_loss)] // a few thousands
    fn fact(&self, way: Way) -> Fact {
        let handoffs = self.handoffs() as f64;
        let held: f64 = self.holds.iter().flatten().map(|hold| (hold.until - hold.since) as f64 / 1e9).sum();
        let best = 1.0 / (held / handoffs + self.cycle);
        let rate = handoffs / self.lasted;
        let mut shares: Vec<_> =
            self.holds.iter().map(|holds| 100.0 * holds.len() as f64 / handoffs).collect();
        shares.sort_unstable_by(f64::total_cmp);
        let shares = shares.iter().map(|share| format!("{share:.0} %")).collect::<Vec<_>>().join(", ");
        let is_redlock = matches!(way, Way::RedisRs | Way::Fred);
        Fact {
            group: GROUP,
            what: format!("{}: hand-overs per second", way.name()),
            measured: format!(
                "{rate:.0}/s, {:.0} % of {best:.0}/s; processes: {shares}",
                100.0 * rate / best
            ),
            goal: is_redlock.then(|| (format!("at least {:.0} %", 100.0 * GOAL), rate / best >= GOAL)),
        }
    }

    /// Counts overlapping holds.
    fn overlaps(&self, contenders: &str) -> Fact {
        let mut holds: Vec<_> = self.holds.iter().flatten().copied().collect();
        holds.sort_unstable();
        let overlaps = holds.windows(2).filter(|pair| pair[1].since < pair[0].until).count();
        Fact {
            group: GROUP,
            what: format!("{contenders}: overlaps"),
            measured: format!("{overlaps} in {} hand-overs", holds.len()),
            goal: Some(("none".to_owned(), overlaps == 0)),
        }
    }
}
