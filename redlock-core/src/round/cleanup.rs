//! Cleanup: releases that are repeated until the key cannot appear any more.
//!
//! Each node has one task while its [queue](super::pending) is not empty. A node that does not reply receives one
//! release as a probe, after a growing delay. Once it replies, the rest is sent in batches.
//! [`pending_release`](crate::decide::pending_release) decides when the cleanup of an entry ends; time alone never ends
//! it.

#[cfg(all(test, loom))]
mod loom_tests;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

use crate::decide::pending_release::Next;
use crate::node::Request;
use crate::round::engine::run;
use crate::round::nodes::Nodes;
use crate::round::pending::GRACE;
use crate::round::{Cleanup, Heard, Io, Round};
use crate::runtime::{sleep_until, sleep_until_or};
use crate::types::instant::Instant;

/// The maximum number of releases that are sent to one node at once.
const BATCH: usize = 256;

/// The bounds of the delay between two probes of a node that does not reply.
///
/// After a node returns, the keys left on it are deleted within the longest delay.
const SHORTEST_DELAY: Duration = Duration::from_millis(10);
const LONGEST_DELAY: Duration = Duration::from_millis(500);

/// Starts the cleanup task of a node.
pub(crate) fn start(nodes: &Arc<Nodes>, node: usize) {
    let task = Task { nodes: Arc::clone(nodes), node, over: false };
    nodes.runtime.spawn(Box::pin(task.run()));
}

/// The cleanup task of one node.
struct Task {
    nodes: Arc<Nodes>,
    node: usize,
    /// True once the queue knows that the task has ended.
    over: bool,
}

impl Task {
    async fn run(mut self) {
        let (nodes, node) = (Arc::clone(&self.nodes), self.node);
        let (mut delay, limit) = (Duration::ZERO, nodes.rules.node_timeout);
        loop {
            let pushed = nodes.listen_for_cleanup(node);
            let now = nodes.now();
            let is_abandoned = nodes.unused_since().is_some_and(|since| now > since + GRACE);
            match nodes.take_due(node, if delay.is_zero() { BATCH } else { 1 }, is_abandoned) {
                None => break,
                Some(Err(due)) => sleep_until_or(&*nodes.runtime, due, pushed).await,
                Some(Ok(batch)) => {
                    let batch = Batch::new(batch, limit);
                    let replied = run(&nodes, batch, now, limit, Span::none()).await;
                    nodes.released_on(node, now, replied);
                    if replied {
                        delay = Duration::ZERO;
                    } else {
                        delay = (delay * 2).clamp(SHORTEST_DELAY, LONGEST_DELAY);
                        sleep_until(&*nodes.runtime, nodes.now() + delay).await;
                    }
                }
            }
        }
        self.over = true;
    }
}

/// Ends the task, even if its runtime ends it.
impl Drop for Task {
    fn drop(&mut self) {
        if !self.over {
            self.nodes.cleanup_stopped(self.node);
        }
        self.nodes.notify_idle();
    }
}

/// The releases of several claims on one node. The tag is the position.
struct Batch {
    batch: Vec<Option<Cleanup>>,
    replied: bool,
    node_timeout: Duration,
}

impl Batch {
    fn new(batch: Vec<Cleanup>, node_timeout: Duration) -> Self {
        Self { batch: batch.into_iter().map(Some).collect(), replied: false, node_timeout }
    }
}

impl Round for Batch {
    type Tag = usize;
    /// True if the node replied.
    type Output = bool;

    fn start(&mut self, io: &mut Io<usize>) {
        for (position, cleanup) in self.batch.iter().enumerate() {
            io.sends.extend(cleanup.as_ref().map(|cleanup| (cleanup.node, position)));
        }
    }

    fn request(&self, _node: usize, position: usize) -> Option<Request> {
        Some(Request::Release(self.batch.get(position)?.as_ref()?.claim.clone()))
    }

    fn heard(&mut self, heard: Heard<usize>, io: &mut Io<usize>) {
        let Some(mut cleanup) = self.batch.get_mut(heard.tag).and_then(Option::take) else { return };
        let ended = heard.ended_release();
        self.replied |= ended.deleted.is_some();
        if let Next::Again(due) = cleanup.release.next(ended, self.node_timeout) {
            io.cleanups.push(Cleanup { due, ..cleanup });
        }
    }

    fn result(&mut self, _now: Instant, _io: &mut Io<usize>) -> Option<bool> {
        self.batch.iter().all(Option::is_none).then_some(self.replied)
    }

    fn abandon(&mut self, now: Instant, io: &mut Io<usize>) {
        self.interrupt(now, io);
    }

    fn interrupt(&mut self, _now: Instant, io: &mut Io<usize>) {
        io.cleanups.extend(mem::take(&mut self.batch).into_iter().flatten());
    }
}
