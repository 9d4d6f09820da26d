//! The core alone, on nodes that reply at once: its overhead over calling the nodes. The figures are CPU time, which
//! does not depend on the load of the machine.

use std::future::Future;

use redlock_benches::InstantNode;
use redlock_core::node::{Claim, LockNode, Request, Token, Ttl};
use redlock_core::{IntoResources, Redlock};
use rustix::time::ClockId;
use tokio::runtime::{Builder, Runtime};

use super::micros;
use crate::contender::TTL;
use crate::lane::cpu_micros;
use crate::report::{Goal, Row};
use crate::round::{Effort, Slice, interleaved, median, ratios};

const NODES: [usize; 4] = [1, 3, 5, 9];

/// A slice takes milliseconds, far more than the resolution of its timer.
const CYCLES: u32 = 2_000;

pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let runtime = Builder::new_current_thread().enable_all().build().expect("the runtime starts");
    let worlds = NODES.map(|nodes| World::new(&runtime, nodes));
    let slices = worlds.iter().flat_map(|world| {
        [
            Box::new(|| world.timed(|| world.cycle())) as Slice<'_, f64>,
            Box::new(|| world.timed(|| world.denied_attempt())),
            Box::new(|| world.timed(|| world.bare_calls())),
        ]
    });
    let figures = interleaved(effort.rounds, slices.collect());

    let mut rows = Vec::new();
    for (position, world) in worlds.iter().enumerate() {
        let [cycle, denied, bare] = [0, 1, 2].map(|slice| &figures[3 * position + slice]);
        let operations = [
            ("cycle", cycle, world.allocations(|| world.cycle())),
            ("denied attempt", denied, world.allocations(|| world.denied_attempt())),
        ];
        for (operation, times, allocations) in operations {
            rows.push(Row {
                group: "The core alone, on nodes that reply at once",
                what: format!("{operation}, N = {}", world.nodes.len()),
                against: "two bare calls to each node".to_owned(),
                ratios: ratios(times, bare, |time| *time),
                figure: format!("{}, {allocations} allocations", micros(median(times.iter().copied()))),
                goal: None,
                charted: false,
            });
        }
    }
    for position in 1..NODES.len() {
        let nodes = NODES[position];
        rows.push(Row {
            group: "The core alone, on nodes that reply at once",
            what: format!("cycle, N = {nodes}"),
            against: "cycle, N = 1".to_owned(),
            ratios: ratios(&figures[3 * position], &figures[0], |time| *time),
            figure: micros(median(figures[3 * position].iter().copied())),
            // Linear: at most N times the time of one node.
            goal: u32::try_from(nodes).ok().map(|nodes| Goal::AtMost(nodes.into())),
            charted: false,
        });
    }
    rows
}

struct World<'a> {
    runtime: &'a Runtime,
    nodes: Vec<InstantNode>,
    free: Redlock,
    held: Redlock,
    claim: Claim,
}

impl<'a> World<'a> {
    fn new(runtime: &'a Runtime, nodes: usize) -> Self {
        let holder = Token::from_bytes("other");
        Self {
            runtime,
            nodes: InstantNode::granting(nodes),
            free: InstantNode::redlock(InstantNode::granting(nodes)),
            held: InstantNode::redlock(InstantNode::denying(nodes, &holder)),
            claim: Claim::new("a".into_resources().expect("the name is valid"), holder),
        }
    }

    async fn cycle(&self) {
        let guard = self.free.lock("a", TTL).await.expect("the lock is free");
        guard.release().await.expect("all nodes reply");
    }

    async fn denied_attempt(&self) {
        assert!(self.held.lock("a", TTL).try_now().await.expect("all nodes reply").is_none());
    }

    /// Makes the calls that every lock needs: an acquire and a release per node.
    async fn bare_calls(&self) {
        for node in &self.nodes {
            node.call(Request::Acquire(self.claim.clone(), Ttl::MAX)).await.expect("the node replies");
            node.call(Request::Release(self.claim.clone())).await.expect("the node replies");
        }
    }

    /// Returns the microseconds of one operation.
    fn timed<F: Future<Output = ()>>(&self, operation: impl Fn() -> F) -> f64 {
        self.runtime.block_on(async {
            let start = cpu_micros(ClockId::ThreadCPUTime);
            for _ in 0..CYCLES {
                operation().await;
            }
            (cpu_micros(ClockId::ThreadCPUTime) - start) / f64::from(CYCLES)
        })
    }

    /// Returns the allocations of one operation.
    fn allocations<F: Future<Output = ()>>(&self, operation: impl Fn() -> F) -> u64 {
        let counted = allocation_counter::measure(|| {
            self.runtime.block_on(async {
                for _ in 0..100 {
                    operation().await;
                }
            });
        });
        counted.count_total / 100
    }
}
