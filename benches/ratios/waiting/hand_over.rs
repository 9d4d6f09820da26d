//! The hand-over of one lock among the tasks of a process, and the share of a task of another process.

use std::time::Duration;

use super::party::{Hold, Party, Way};
use super::scaled;
use crate::contender::redlock_client::RedlockClient;
use crate::groups::servers;
use crate::lane::{Flavor, lane};
use crate::network::{Link, proxies};
use crate::report::Fact;
use crate::round::Effort;

const TASKS: usize = 16;
const HOLD: Duration = Duration::from_millis(1);

/// The delays of a round trip to each server.
const DELAYS: [u64; 2] = [0, 20];

/// The goal as a share of the greatest possible rate: a hold and one round trip for each hand-over.
const GOAL: f64 = 0.95;

const GROUP: &str = "16 tasks of one process on one key, holds of 1 ms";

pub(crate) fn run(effort: Effort) -> Vec<Fact> {
    DELAYS.into_iter().flat_map(|millis| with_delay(Duration::from_millis(millis), effort)).collect()
}

#[allow(clippy::cast_precision_loss)] // a few thousands
fn with_delay(delay: Duration, effort: Effort) -> Vec<Fact> {
    let lasts = Duration::from_millis(scaled(effort, 20_000));
    let (servers, mut urls) = servers(5);
    let proxied = (!delay.is_zero()).then(|| proxies(&servers, &[Link { delay, ..Link::default() }; 5]));
    if let Some((_, proxied)) = &proxied {
        urls.clone_from(proxied);
    }
    let baseline = lane(Flavor::CurrentThread, async { RedlockClient::redis_rs(&urls) });
    // Measured after a pause as long as a hold: idle servers take longer to reply than busy ones.
    let round_trip = baseline.acquire_after(HOLD, effort.cycles / 2).p50 / 1e6;
    drop(baseline);
    let holds_of = |tasks: &[usize]| -> Vec<Vec<Hold>> {
        let start = |tasks: &usize| Party::start(Way::RedisRs, &urls, *tasks, HOLD);
        let mut parties: Vec<_> = tasks.iter().map(start).collect();
        for party in &mut parties {
            party.send(&format!("hold {}", lasts.as_millis()));
        }
        parties.into_iter().map(Party::holds).collect()
    };

    let mut holds = holds_of(&[TASKS]).remove(0);
    holds.sort_unstable();
    let held: f64 = holds.iter().map(|hold| (hold.until - hold.since) as f64 / 1e9).sum();
    let count = holds.len() as f64;
    let span = holds.last().zip(holds.first()).map_or(1, |(last, first)| last.since - first.since);
    let (rate, best) = ((count - 1.0) * 1e9 / span as f64, 1.0 / (held / count + round_trip));
    let in_order = holds.windows(TASKS + 1).filter(|turns| turns[0].task == turns[TASKS].task).count();
    let turns = holds.len().saturating_sub(TASKS);

    let shared = holds_of(&[TASKS, 1]);
    let of_both: usize = shared.iter().map(Vec::len).sum();
    let share = 100.0 * shared[1].len() as f64 / of_both as f64;
    let name = format!("round trip longer by {} ms", delay.as_millis());
    vec![
        Fact {
            group: GROUP,
            what: format!("{name}: hand-overs per second"),
            measured: format!("{rate:.1}/s, {:.3} of {best:.1}/s", rate / best),
            goal: Some((format!("at least {GOAL}"), rate / best >= GOAL)),
        },
        Fact {
            group: GROUP,
            what: format!("{name}: first come, first served"),
            measured: format!("{in_order} of {turns} turns"),
            goal: Some(("all".to_owned(), in_order == turns)),
        },
        Fact {
            group: GROUP,
            what: format!("{name}, one more task in another process: hand-overs per second"),
            measured: format!(
                "{:.1}/s, {share:.1} % by the other process",
                of_both as f64 / lasts.as_secs_f64()
            ),
            goal: None,
        },
    ]
}
