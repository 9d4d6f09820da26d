//! The cleanup of claims: releases that are repeated until the key cannot appear any more.
//!
//! Each node has a cleanup queue and, while it is not empty, one task. A node that is down receives only the oldest
//! entry as a probe, after a growing delay. Once it replies, the rest is sent in batches.
//! [`pending_release`](crate::decide::pending_release) decides when the cleanup of an entry ends; time alone never ends it.
//!
//! The following limits apply:
//!
//! - The queue of a node that acknowledges no release holds 16 MiB, about 64 Ki claims with one short name.
//! - The queue of any other node holds 256 MiB.
//! - Above these limits, the entries that are due first are dropped with a warning.
//! - Load alone drops no entry: while the queues of more than a minority of the nodes are long, no new attempt begins.
//! - After the last handle and lease are gone, cleanup continues for one minute.

#[cfg(all(test, loom))]
mod loom_tests;

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use event_listener::Event;

use crate::decide::pending_release::{Next, PendingRelease};
use crate::inner::{Inner, ReplyCount};
use crate::node::Request;
use crate::protocol::call::Call;
use crate::protocol::ended_lease::ended;
use crate::protocol::fan_out::Calls;
use crate::runtime::{sleep_until, sleep_until_or};
use crate::sync::{Mutex, MutexGuard, locked};
use crate::telemetry::throttle::Throttle;
use crate::types::claim::Claim;
use crate::types::instant::Instant;
use crate::types::report::Outcome;

/// The maximum size of the queue of a node that has acknowledged no release for [`SILENCE`].
const MAX_BYTES_UNANSWERED: usize = 16 << 20;

/// The maximum size of the queue of a node that acknowledges releases and so empties the queue.
const MAX_BYTES: usize = 256 << 20;

/// The silence that is caused by the node itself, not by the load of this process.
const SILENCE: Duration = Duration::from_secs(30);

/// The size of a claim in bytes, without its names and its token.
const BYTES_OF_CLAIM: usize = 200;

/// The queue length above which a node is behind, until the length is halved.
///
/// A node that does not reply is not behind: no new lock waits for a minority of the nodes.
const BEHIND: usize = 4096;

/// The maximum number of releases that are sent to one node at once.
const BATCH: usize = 256;

/// The bounds of the delay between two probes of a node that does not reply.
///
/// After a node returns, the keys left on it are deleted within the longest delay.
const SHORTEST_DELAY: Duration = Duration::from_millis(10);
const LONGEST_DELAY: Duration = Duration::from_millis(500);

/// The time that cleanup continues after the last handle and lease are gone.
///
/// Thus a program that forgets its lock leaves no task behind forever. `close` waits without a limit.
const GRACE: Duration = Duration::from_secs(60);

/// The repeated release of one claim on one node.
#[derive(Debug)]
pub(crate) struct CleanupEntry {
    pub(crate) claim: Claim,
    pub(crate) release: PendingRelease,
}

/// The pending cleanup of one node.
#[derive(Default)]
pub(crate) struct CleanupQueue {
    queue: Mutex<Queue>,
    /// Notified at each push: the new entry may be due before the awaited one.
    pushed: Event,
    overflow: Throttle,
}

#[derive(Default)]
struct Queue {
    /// The entries, by the time of the next release, then by age.
    entries: BTreeMap<(Instant, u64), CleanupEntry>,
    pushed: u64,
    bytes: usize,
    /// The time of the first failed release since the last acknowledged one.
    silent_since: Option<Instant>,
    is_behind: bool,
    /// True while there is a task; it may have taken entries out of the queue.
    running: bool,
}

impl CleanupQueue {
    pub(crate) fn len(&self) -> usize {
        locked(&self.queue).entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let queue = locked(&self.queue);
        queue.entries.is_empty() && !queue.running
    }
}

impl Queue {
    /// Adds an entry; returns how many of those due first were dropped to make room.
    fn push(&mut self, due: Instant, now: Instant, entry: CleanupEntry) -> usize {
        self.pushed += 1;
        self.bytes += entry.bytes();
        self.entries.insert((due, self.pushed), entry);
        let silence = self.silent_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let limit = if silence < SILENCE { MAX_BYTES } else { MAX_BYTES_UNANSWERED };
        let before = self.entries.len();
        while self.bytes > limit && self.entries.len() > 1 {
            self.pop_first();
        }
        before - self.entries.len()
    }

    /// Takes at most `limit` entries that are due.
    fn take(&mut self, limit: usize, now: Instant) -> Vec<CleanupEntry> {
        let due = self.entries.keys().take(limit).take_while(|(due, _)| *due <= now).count();
        (0..due).filter_map(|_| self.pop_first()).collect()
    }

    fn pop_first(&mut self) -> Option<CleanupEntry> {
        let (_, entry) = self.entries.pop_first()?;
        self.bytes -= entry.bytes();
        Some(entry)
    }

    /// Updates whether the node is behind; returns `Some` if this has changed.
    fn update_behind(&mut self) -> Option<bool> {
        let limit = if self.is_behind { BEHIND / 2 } else { BEHIND };
        let is_behind = self.silent_since.is_none() && self.entries.len() > limit;
        let changed = is_behind != self.is_behind;
        self.is_behind = is_behind;
        changed.then_some(is_behind)
    }
}

impl CleanupEntry {
    fn bytes(&self) -> usize {
        let names: usize = self.claim.resources().iter().map(|resource| resource.as_bytes().len()).sum();
        names + self.claim.token().as_bytes().len() + BYTES_OF_CLAIM
    }
}

impl Inner {
    /// Cleans up a claim on a node from `due` on, however long that takes.
    pub(crate) fn clean_up(self: &Arc<Self>, index: usize, due: Instant, entry: CleanupEntry) {
        self.push_cleanup(index, due, entry);
        self.resume_cleanup_of(index);
    }

    /// Queues a claim for cleanup without a task, because a runtime is about to end.
    ///
    /// The cleanup begins when the lock is next used.
    pub(crate) fn leave_to_cleanup(&self, index: usize, due: Instant, entry: CleanupEntry) {
        self.push_cleanup(index, due, entry);
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

    fn push_cleanup(&self, index: usize, due: Instant, entry: CleanupEntry) {
        let peer = &self.peers[index];
        let mut queue = locked(&peer.cleanup.queue);
        let dropped = queue.push(due, self.now(), entry);
        self.settle_queue(queue);
        self.overflowed(index, dropped);
        peer.cleanup.pushed.notify(usize::MAX);
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

    /// Handles a change of a queue. No attempt begins while more than a minority of the nodes is behind.
    fn settle_queue(&self, mut queue: MutexGuard<'_, Queue>) {
        let Some(is_behind) = queue.update_behind() else { return };
        // Under the lock of the queue, so that the changes of one node are counted in order.
        self.count_node_behind(is_behind);
        drop(queue);
        let minority = self.peers.len() - self.quorum();
        // Read under the lock of the limiter, so that the last caller sees the last count.
        self.limiter.cleanup_is_behind(|| self.nodes_behind() > minority);
    }

    fn resume_cleanup_of(self: &Arc<Self>, index: usize) {
        let mut queue = locked(&self.peers[index].cleanup.queue);
        if !queue.entries.is_empty() && !mem::replace(&mut queue.running, true) {
            drop(queue);
            let task = CleanupTask { inner: Arc::clone(self), index, batch: Vec::new(), over: false };
            self.runtime.spawn(Box::pin(task.run()));
        }
    }
}

/// The cleanup task of one node.
struct CleanupTask {
    inner: Arc<Inner>,
    index: usize,
    /// The entries that were sent and are not confirmed yet.
    batch: Vec<CleanupEntry>,
    /// True once the queue knows that the task has ended.
    over: bool,
}

impl CleanupTask {
    async fn run(mut self) {
        let mut delay = Duration::ZERO;
        loop {
            let limit = if delay.is_zero() { BATCH } else { 1 };
            let pushed = self.inner.peers[self.index].cleanup.pushed.listen();
            let Some(due) = self.take(limit) else { return };
            if due > self.inner.now() {
                sleep_until_or(&*self.inner.runtime, due, pushed).await;
            } else if self.release().await {
                delay = Duration::ZERO;
            } else {
                delay = (delay * 2).clamp(SHORTEST_DELAY, LONGEST_DELAY);
                sleep_until(&*self.inner.runtime, self.inner.now() + delay).await;
            }
        }
    }

    /// Takes the entries that are due, and returns when the first entry is due.
    ///
    /// If that is in the future, nothing was taken. `None` means that the task has ended.
    fn take(&mut self, limit: usize) -> Option<Instant> {
        let now = self.inner.now();
        let abandoned = self.inner.unused_since().is_some_and(|since| now > since + GRACE);
        let mut queue = locked(&self.inner.peers[self.index].cleanup.queue);
        if abandoned && !queue.entries.is_empty() {
            tracing::warn!(
                node = self.inner.peers[self.index].node.label(),
                keys = queue.entries.len(),
                "cleanup abandoned {} s after the last handle was dropped (the keys expire with the TTL)",
                GRACE.as_secs()
            );
            self.inner.record_abandoned_cleanup(queue.entries.len());
            queue.entries.clear();
            queue.bytes = 0;
        }
        let Some((due, _)) = queue.entries.keys().next().copied() else {
            queue.running = false;
            self.over = true;
            self.inner.settle_queue(queue);
            return None;
        };
        self.batch = queue.take(limit, now);
        self.inner.settle_queue(queue);
        Some(due)
    }

    /// Sends the releases of the batch. Returns true if the node replied.
    async fn release(&mut self) -> bool {
        let (inner, limit) = (&self.inner, self.inner.settings.node_timeout);
        let peer = &inner.peers[self.index];
        let sent = inner.now();
        let mut next: Vec<Next> = self.batch.iter().map(|_| Next::Again(sent)).collect();
        let mut releases: Vec<_> = self.batch.iter().map(|entry| entry.release).collect();
        let mut replied = false;
        // These replies have a separate count, because the replies to a batch arrive together, and show nothing about
        // other requests.
        let own_replies = ReplyCount::default();
        let call = |claim: &Claim| Call::counted_by(&own_replies, peer, Request::Release(claim.clone()));
        let calls = self.batch.iter().map(|entry| call(&entry.claim));
        let mut calls = Calls::new(&*inner.runtime, sent, limit, calls);
        while let Some((position, outcome)) = calls.next().await {
            replied |= matches!(outcome, Outcome::Released | Outcome::NotHeld);
            let ended = ended(inner, self.index, &outcome, sent, calls.completed_at());
            next[position] = releases[position].next(ended, limit);
        }
        drop(calls);
        let mut queue = locked(&peer.cleanup.queue);
        queue.silent_since = if replied { None } else { queue.silent_since.or(Some(sent)) };
        let mut dropped = 0;
        for ((entry, release), next) in self.batch.drain(..).zip(releases).zip(next) {
            if let Next::Again(due) = next {
                dropped += queue.push(due, sent, CleanupEntry { release, ..entry });
            }
        }
        inner.settle_queue(queue);
        inner.overflowed(self.index, dropped);
        replied
    }
}

/// Ends the task, even if its runtime ends it. Entries that are not confirmed go back into the queue.
impl Drop for CleanupTask {
    fn drop(&mut self) {
        let now = self.inner.now();
        let mut queue = locked(&self.inner.peers[self.index].cleanup.queue);
        let dropped = self.batch.drain(..).map(|entry| queue.push(now, now, entry)).sum();
        if !self.over {
            queue.running = false;
            self.inner.stop_cleanup();
        }
        self.inner.settle_queue(queue);
        self.inner.overflowed(self.index, dropped);
        self.inner.notify_idle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::pending_release::WriteState;
    use crate::types::resource::IntoResources;
    use crate::types::token::Token;

    fn entry(token: u32) -> CleanupEntry {
        let claim = Claim::new("a".into_resources().unwrap(), Token::from_bytes(token.to_le_bytes()));
        CleanupEntry { claim, release: WriteState::default().pending_release() }
    }

    fn at(nanos: u64) -> Instant {
        Instant::since_origin(Duration::from_nanos(nanos))
    }

    #[test]
    fn due_entries_are_taken_oldest_first() {
        let mut queue = Queue::default();
        for (token, due) in [(0, 5), (1, 3), (2, 3), (3, 9)] {
            queue.push(at(due), at(0), entry(token));
        }
        let mut tokens = |limit, now| -> Vec<_> {
            queue.take(limit, at(now)).into_iter().map(|entry| entry.claim.token().as_bytes()[0]).collect()
        };
        assert_eq!(Vec::<u8>::new(), tokens(8, 2));
        assert_eq!(vec![1], tokens(1, 8));
        assert_eq!(vec![2, 0], tokens(8, 8));
        assert_eq!(vec![3], tokens(8, 9));
    }

    #[test]
    fn beyond_the_limit_the_oldest_entries_are_dropped() {
        let mut queue = Queue { silent_since: Some(at(0)), ..Queue::default() };
        let limit = MAX_BYTES_UNANSWERED / entry(0).bytes();
        let count = u32::try_from(limit).unwrap() + 464;
        let silent = at(0) + SILENCE;
        let dropped: usize =
            (0..count).map(|token| queue.push(at(u64::from(token)), silent, entry(token))).sum();
        assert_eq!((limit, 464), (queue.entries.len(), dropped));
        assert_eq!(464_u32.to_le_bytes(), queue.take(1, at(u64::MAX))[0].claim.token().as_bytes());
        queue.take(usize::MAX, at(u64::MAX));
        assert_eq!(0, queue.bytes);

        let recently = at(1);
        assert_eq!(0, (0..count).map(|token| queue.push(at(0), recently, entry(token))).sum::<usize>());
    }

    #[test]
    fn a_node_that_replies_keeps_more_entries_and_is_behind_until_they_are_sent() {
        let mut queue = Queue::default();
        let mut changes = Vec::new();
        for token in 0..100_000 {
            assert_eq!(0, queue.push(at(1), at(1), entry(token)));
            changes.extend(queue.update_behind());
        }
        assert_eq!(vec![true], changes);
        while !queue.take(BATCH, at(1)).is_empty() {
            changes.extend(queue.update_behind());
        }
        assert_eq!(vec![true, false], changes);
    }

    #[test]
    fn a_node_that_does_not_reply_is_never_behind() {
        let mut queue = Queue { silent_since: Some(at(0)), ..Queue::default() };
        for token in 0..10_000 {
            queue.push(at(1), at(1), entry(token));
            assert_eq!(None, queue.update_behind());
        }
    }
}
