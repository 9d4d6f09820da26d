//! Several resources in one lock, against one resource.

use std::sync::Arc;

use redlock_core::Guard;

use super::{micros, servers};
use crate::contender::ours::Ours;
use crate::contender::{Contender, TTL};
use crate::lane::{Flavor, Lane, lane};
use crate::report::Row;
use crate::round::{Effort, Slice, interleaved, median, ratios};

const COUNTS: [usize; 3] = [1, 10, 100];

/// Locks so many resources at once.
#[derive(Clone)]
struct Several {
    ours: Ours,
    names: Arc<[String]>,
}

impl Several {
    fn new(ours: Ours, count: usize) -> Self {
        Self { ours, names: (0..count).map(|number| format!("several-{count}-{number}")).collect() }
    }
}

impl Contender for Several {
    type Held = Guard;

    async fn acquire(&self, _key: &str) -> Guard {
        self.ours.0.lock(&*self.names, TTL).await.expect("nobody else has them")
    }

    async fn release(&self, held: Guard) {
        self.ours.release(held).await;
    }

    async fn extend(&self, held: &mut Guard) {
        self.ours.extend(held).await;
    }
}

type Connect = fn(&[String]) -> Ours;

pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let (_servers, urls) = servers(5);
    let adapters: [(&str, Connect); 2] = [("redis-rs", Ours::redis_rs), ("fred", Ours::fred)];
    let mut rows = Vec::new();
    for (name, connect) in adapters {
        // Adapters after each other: their locks are on the same names.
        let lanes: Vec<Box<dyn Lane>> = COUNTS
            .into_iter()
            .map(|count| lane(Flavor::CurrentThread, async { Several::new(connect(&urls), count) }))
            .collect();
        let slices =
            lanes.iter().map(|lane| Box::new(|| lane.latency(effort.cycles).cycle.p50) as Slice<'_, f64>);
        let figures = interleaved(effort.rounds, slices.collect());
        for (position, count) in COUNTS.into_iter().enumerate().skip(1) {
            rows.push(Row {
                group: "Several resources in one lock",
                what: format!("{name}: cycle p50, {count} resources"),
                against: "1 resource".to_owned(),
                ratios: ratios(&figures[position], &figures[0], |time| *time),
                figure: micros(median(figures[position].iter().copied())),
                goal: None,
                charted: false,
            });
        }
    }
    rows
}
