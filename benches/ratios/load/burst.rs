//! Many tasks that each lock and release a different free name, all at the same moment.

use std::time::{Duration, Instant};

use super::Plan;
use super::client::Kind;
use super::stage::{Ending, Stage};
use super::tally::{Attempt, Tally};
use crate::lane::Flavor;
use crate::report::Fact;

const GROUP: &str = "Bursts: N tasks lock and release different free names at the same moment";

/// How long a burst may take: the default wait of 10 s, and what comes after it.
const LIMIT: Duration = Duration::from_secs(60);

/// The default wait, in seconds.
const WAIT: f64 = 10.0;

/// Of the best goodput of all bursts, for a burst that is too large to be served within the wait.
const GOAL: f64 = 0.9;

pub(super) fn run(plan: &Plan) -> Vec<Fact> {
    let locks = plan.locks(&[2_000, 5_000, 10_000, 20_000, 50_000], &[2_000, 10_000, 20_000], 20);
    plan.kinds.iter().flat_map(|kind| bursts(*kind, &locks)).collect()
}

#[allow(clippy::cast_precision_loss)] // some thousands
fn bursts(kind: Kind, locks: &[usize]) -> Vec<Fact> {
    let bursts: Vec<(usize, Tally, Ending)> = locks.iter().map(|tasks| burst(kind, *tasks)).collect();
    let goodput = |tally: &Tally| tally.goodput(Duration::ZERO);
    let best = bursts.iter().map(|(_, tally, _)| goodput(tally)).fold(0.0, f64::max);
    let fact = |(tasks, tally, ending): &(usize, Tally, Ending)| {
        let (share, lasted, goodput) = (tally.share(), tally.lasted().as_secs_f64(), goodput(tally));
        let fits = *tasks as f64 <= WAIT * best;
        let served = tally.errors.count() == 0 || (!fits && goodput >= GOAL * best);
        let goal = if fits { "all" } else { "90 % of the best goodput" };
        let goal = (format!("{goal}; 0 keys left"), served && ending.keys == 0);
        Fact {
            group: GROUP,
            what: format!("{}, N = {tasks}", kind.name()),
            measured: format!("{share:.1} % in {lasted:.2} s ({goodput:.0}/s); {}; {ending}", tally.errors),
            goal: (kind != Kind::Rslock).then_some(goal),
        }
    };
    bursts.iter().map(fact).collect()
}

fn burst(kind: Kind, count: usize) -> (usize, Tally, Ending) {
    let stage = Stage::new(kind, Flavor::MultiThread);
    let tally = stage.block_on(async {
        let start = Instant::now();
        let task = |number: usize| {
            let client = stage.client.clone();
            tokio::spawn(async move { Attempt::new(start, client.cycle(format!("burst-{number}")).await) })
        };
        let tasks = (0..count).map(task).collect();
        Tally::of(start, tasks, LIMIT).await
    });
    (count, tally, stage.end("burst-"))
}
