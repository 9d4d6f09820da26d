//! Several resources in one lock, compared with one resource.

use std::sync::Arc;

use redlock_core::Guard;

use super::{micros, servers};
use crate::contender::redlock_client::RedlockClient;
use crate::contender::{Contender, TTL};
use crate::lane::{Flavor, Lane, lane};
use crate::report::Row;
use crate::round::{Effort, Slice, interleaved, median, ratios};

const COUNTS: [usize; 3] = [1, 10, 100];

/// Locks several resources at once.
#[derive(Clone)]
struct Several {
    client: RedlockClient,
    names: Arc<[String]>,
}

impl Several {
    fn new(client: RedlockClient, count: usize) -> Self {
        Self { client, names: (0..count).map(|number| format!("several-{count}-{number}")).collect() }
    }
}

impl Contender for Several {
    type Held = Guard;

    async fn acquire(&self, _key: &str) -> Guard {
        self.client.0.lock(&*self.names, TTL).await.expect("the resources are free")
    }

    async fn release(&self, held: Guard) {
        self.client.release(held).await;
    }

    async fn extend(&self, held: &mut Guard) {
        self.client.extend(held).await;
    }
}

type Connect = fn(&[String]) -> RedlockClient;

pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let (_servers, urls) = servers(5);
    let adapters: [(&str, Connect); 2] =
        [("redis-rs", RedlockClient::redis_rs), ("fred", RedlockClient::fred)];
    let mut rows = Vec::new();
    for (name, connect) in adapters {
        // The adapters run one after the other, since they lock the same names.
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
