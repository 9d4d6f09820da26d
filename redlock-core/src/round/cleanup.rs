//! Cleanup: releases that are repeated until the key cannot appear any more.
//!
//! Each node has one task while its [queue](super::pending) is not empty. A node that does not reply receives one
//! release as a probe, after a growing delay. Once it replies, the rest is sent in batches.
//! [`pending_release`](crate::decide::pending_release) decides when the cleanup of an entry ends. Time alone does not end
//! it before 60 s after the last handle and lease are gone. The queue is limited, too.

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
use crate::round::pending::Queue;
use crate::round::{Cleanup, Heard, Io, Round};
use crate::runtime::{sleep_until, sleep_until_or};
use crate::sync::{MutexGuard, locked};
use crate::types::instant::Instant;

/// The maximum number of releases that are sent to one node at once.
const BATCH: usize = 256;

/// The bounds of the delay between two probes of a node that does not reply.
///
/// Once a node is connected again, the keys left on it are deleted within the longest delay and the time of the
/// batches.
const SHORTEST_DELAY: Duration = Duration::from_millis(10);
const LONGEST_DELAY: Duration = Duration::from_millis(500);

/// The time that cleanup continues after the last handle and lease are gone.
///
/// Thus a program that forgets its lock leaves no task behind forever. `close` waits without a limit.
const GRACE: Duration = Duration::from_secs(60);

impl Nodes {
    /// Cleans up a claim on a node, however long that takes.
    pub(crate) fn clean_up(self: &Arc<Self>, cleanup: Cleanup) {
        let node = cleanup.node;
        self.push_cleanup(cleanup);
        self.resume_cleanup_of(node);
    }

    /// Queues claims for cleanup without a task, because a runtime is about to end.
    ///
    /// The cleanup begins when the lock is next used.
    pub(crate) fn leave(&self, cleanups: impl IntoIterator<Item = Cleanup>) {
        cleanups.into_iter().for_each(|cleanup| self.push_cleanup(cleanup));
        self.stop_cleanup();
    }

    /// Restarts the cleanup that stopped when runtimes ended.
    ///
    /// Returns `false` if it stopped again at once, because there is no runtime to run it.
    pub(crate) fn resume_cleanup(self: &Arc<Self>) -> bool {
        if self.take_stopped_cleanup() {
            (0..self.peers.len()).for_each(|index| self.resume_cleanup_of(index));
        }
        !self.is_cleanup_stopped()
    }

    fn push_cleanup(&self, cleanup: Cleanup) {
        let (node, now) = (cleanup.node, self.now());
        let mut queue = locked(&self.peers[node].cleanup.queue);
        let dropped = queue.push(now, cleanup);
        self.settle_queue(node, queue);
        self.overflowed(node, dropped);
        self.peers[node].cleanup.pushed.notify(usize::MAX);
    }

    /// Counts and logs the claims that were dropped from the queue of a node.
    fn overflowed(&self, index: usize, dropped: usize) {
        let peer = &self.peers[index];
        self.record_abandoned_cleanup(dropped);
        let times = if dropped > 0 { peer.cleanup.overflow.pass(self.now()) } else { None };
        if let Some(times) = times {
            tracing::warn!(
                node = peer.node.label(),
                times,
                "cleanup queue full; dropping the oldest entries (their keys expire with the TTL)"
            );
        }
    }

    /// Handles a change of the queue of a node. No attempt begins while more than a minority of the nodes is behind.
    fn settle_queue(&self, node: usize, mut queue: MutexGuard<'_, Queue>) {
        let Some(is_behind) = queue.update_behind() else { return };
        // Under the lock of the queue, so that the changes of one node are counted in order.
        self.count_node_behind(node, is_behind);
        drop(queue);
        // Read under the lock of the limiter, so that the last caller sees the last count.
        self.limiter.cleanup_is_behind(|| self.is_cleanup_behind());
    }

    fn resume_cleanup_of(self: &Arc<Self>, index: usize) {
        let mut queue = locked(&self.peers[index].cleanup.queue);
        if !queue.is_empty() && !mem::replace(&mut queue.running, true) {
            drop(queue);
            let task = Task { nodes: Arc::clone(self), node: index, over: false };
            self.runtime.spawn(Box::pin(task.run()));
        }
    }
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
        let nodes = Arc::clone(&self.nodes);
        let (mut delay, limit) = (Duration::ZERO, nodes.rules.node_timeout);
        loop {
            let pushed = nodes.peers[self.node].cleanup.pushed.listen();
            let now = nodes.now();
            let Some((due, batch)) = self.take(if delay.is_zero() { BATCH } else { 1 }, now) else { return };
            if due > now {
                sleep_until_or(&*nodes.runtime, due, pushed).await;
                continue;
            }
            let replied = run(&nodes, Batch::new(batch, limit), now, limit, Span::none()).await;
            self.released(now, replied);
            if replied {
                delay = Duration::ZERO;
            } else {
                delay = (delay * 2).clamp(SHORTEST_DELAY, LONGEST_DELAY);
                sleep_until(&*nodes.runtime, nodes.now() + delay).await;
            }
        }
    }

    /// Takes at most `limit` entries that are due, and returns when the first entry is due.
    ///
    /// If that is in the future, nothing was taken. `None` means that the task has ended.
    fn take(&mut self, limit: usize, now: Instant) -> Option<(Instant, Vec<Cleanup>)> {
        let nodes = &self.nodes;
        let is_abandoned = nodes.unused_since().is_some_and(|since| now > since + GRACE);
        let mut queue = self.queue();
        let abandoned = if is_abandoned { queue.clear() } else { 0 };
        let taken = queue.due().map(|due| (due, queue.take(limit, now)));
        queue.running = taken.is_some();
        nodes.settle_queue(self.node, queue);
        if abandoned > 0 {
            nodes.record_abandoned_cleanup(abandoned);
            tracing::warn!(
                node = nodes.label(self.node),
                keys = abandoned,
                "cleanup abandoned {} s after the last handle was dropped (the keys expire with the TTL)",
                GRACE.as_secs()
            );
        }
        self.over = taken.is_none();
        taken
    }

    /// Records whether the node replied to the releases that were sent at `sent`.
    fn released(&self, sent: Instant, replied: bool) {
        let mut queue = self.queue();
        queue.released(sent, replied);
        self.nodes.settle_queue(self.node, queue);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        locked(&self.nodes.peers[self.node].cleanup.queue)
    }
}

/// Ends the task, even if its runtime ends it.
impl Drop for Task {
    fn drop(&mut self) {
        if !self.over {
            self.queue().running = false;
            self.nodes.stop_cleanup();
        }
        self.nodes.notify_idle();
    }
}

/// The releases of several claims on one node. The tag is the position.
pub(super) struct Batch {
    batch: Vec<Option<Cleanup>>,
    replied: bool,
    node_timeout: Duration,
}

impl Batch {
    pub(super) fn new(batch: Vec<Cleanup>, node_timeout: Duration) -> Self {
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
