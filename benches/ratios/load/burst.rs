//! Many tasks, each of which locks and releases a different free name at the same moment.

use std::time::{Duration, Instant};

use super::Plan;
use super::client::Kind;
use super::stage::{Ending, Stage};
use super::tally::{Attempt, Tally};
use crate::lane::Flavor;
use crate::report::Fact;

const GROUP: &str = "Bursts: N tasks lock and release different free names at the same moment";

/// The maximum time of a burst, and the waiting time of its requests. With the default of 10 s, the result would depend
/// on the other load of the machine.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn run(plan: &Plan) -> Vec<Fact> {
    let locks = plan.locks(&[2_000, 5_000, 10_000, 20_000, 50_000], &[2_000, 10_000, 20_000], 20);
    plan.kinds.iter().flat_map(|kind| bursts(*kind, &locks)).collect()
}

fn bursts(kind: Kind, locks: &[usize]) -> Vec<Fact> {
    let bursts: Vec<(usize, Tally, Ending)> = locks.iter().map(|tasks| burst(kind, *tasks)).collect();
    let goodput = |tally: &Tally| tally.goodput(Duration::ZERO);
    let fact = |(tasks, tally, ending): &(usize, Tally, Ending)| {
        let (share, lasted, goodput) = (tally.share(), tally.lasted().as_secs_f64(), goodput(tally));
        let goal = ("all; 0 keys left".to_owned(), tally.errors.count() == 0 && ending.keys == 0);
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
            tokio::spawn(async move {
                Attempt::new(start, client.cycle_within(format!("burst-{number}"), LIMIT).await)
            })
        };
        let tasks = (0..count).map(task).collect();
        Tally::of(start, tasks, LIMIT).await
    });
    (count, tally, stage.end("burst-"))
}
