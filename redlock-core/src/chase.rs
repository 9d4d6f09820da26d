//! Undoing what was not undone at once: releases that are repeated until the node has answered them for good.
//!
//! Each node has a queue of chases and, while it is not empty, one task. A node that is down is probed with the oldest
//! chase alone, after a growing delay; once it answers, the rest goes out in batches. When a chase ends is decided in
//! [`pursuit`](crate::decide::pursuit); time alone ends none.
//!
//! What bounds them: the queue of a node that does not answer holds 16 MiB, about 64 Ki claims of one short name, and that of
//! a node that answers 256 MiB; above that the ones due first are dropped with a warning. Load alone drops none: while the
//! queues of more than a minority of the nodes are long, no new attempt begins. And when the last handle and lease are gone,
//! a minute is left.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use event_listener::Event;

use crate::broken;
use crate::calls::{Calls, Ending};
use crate::claim::Claim;
use crate::clock::Instant;
use crate::decide::pursuit::{Answer, Next, Pursuit};
use crate::node::Vote;
use crate::runtime::{sleep_until, sleep_until_or};
use crate::shared::{Shared, locked};
use crate::throttle::Throttle;

/// The size of the claims that wait for one node at most, if it has not answered for [`SILENCE`].
const MAX_BYTES_UNANSWERED: usize = 16 << 20;

/// The same as long as it answers, and works off the queue.
const MAX_BYTES: usize = 256 << 20;

/// A node that has not answered for so long does not because of itself, and not because of the load here.
const SILENCE: Duration = Duration::from_secs(30);

/// What a claim takes beside its names and its token.
const BYTES_OF_CLAIM: usize = 200;

/// A node with more claims in its queue is behind, until it has half as many. One that does not answer is not: no new lock
/// waits for a minority of the nodes.
const BEHIND: usize = 4096;

/// So many releases are sent to one node at once.
const BATCH: usize = 256;

/// The delays between two probes of a node that does not answer. The longest bounds how long after a node's return the
/// keys left on it are deleted.
const SHORTEST_DELAY: Duration = Duration::from_millis(10);
const LONGEST_DELAY: Duration = Duration::from_millis(500);

/// How long chases go on after the last handle and lease are gone, so that a program that forgets its lock leaves no
/// task behind for ever. `close` waits without limit.
const GRACE: Duration = Duration::from_secs(60);

/// The release of one claim on one node, to be repeated.
#[derive(Debug)]
pub(crate) struct Chase {
    pub(crate) claim: Claim,
    pub(crate) pursuit: Pursuit,
}

/// The chases of one node.
#[derive(Default)]
pub(crate) struct Chaser {
    queue: Mutex<Queue>,
    /// Fires when something was pushed: it may be due before what the task waits for.
    pushed: Event,
    overflow: Throttle,
}

#[derive(Default)]
struct Queue {
    /// By the time at which the next release is due, then by age.
    chases: BTreeMap<(Instant, u64), Chase>,
    pushed: u64,
    bytes: usize,
    /// When the node was first asked in vain since it has answered last.
    unanswered_since: Option<Instant>,
    is_behind: bool,
    /// Whether there is a task. It may have taken chases out of the queue.
    running: bool,
}

impl Chaser {
    pub(crate) fn len(&self) -> usize {
        locked(&self.queue).chases.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let queue = locked(&self.queue);
        queue.chases.is_empty() && !queue.running
    }
}

impl Queue {
    /// Returns how many of those due first had to make room.
    fn push(&mut self, due: Instant, now: Instant, chase: Chase) -> usize {
        self.pushed += 1;
        self.bytes += chase.bytes();
        self.chases.insert((due, self.pushed), chase);
        let silence =
            self.unanswered_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let limit = if silence < SILENCE { MAX_BYTES } else { MAX_BYTES_UNANSWERED };
        let before = self.chases.len();
        while self.bytes > limit && self.chases.len() > 1 {
            self.pop_first();
        }
        before - self.chases.len()
    }

    /// Takes at most `limit` chases that are due.
    fn take(&mut self, limit: usize, now: Instant) -> Vec<Chase> {
        let due = self.chases.keys().take(limit).take_while(|(due, _)| *due <= now).count();
        (0..due).filter_map(|_| self.pop_first()).collect()
    }

    fn pop_first(&mut self) -> Option<Chase> {
        let (_, chase) = self.chases.pop_first()?;
        self.bytes -= chase.bytes();
        Some(chase)
    }

    /// Looks whether the node is behind. `Some` if that has changed.
    fn update_behind(&mut self) -> Option<bool> {
        let limit = if self.is_behind { BEHIND / 2 } else { BEHIND };
        let is_behind = self.unanswered_since.is_none() && self.chases.len() > limit;
        let changed = is_behind != self.is_behind;
        self.is_behind = is_behind;
        changed.then_some(is_behind)
    }
}

impl Chase {
    fn bytes(&self) -> usize {
        let names: usize = self.claim.resources().iter().map(|resource| resource.as_bytes().len()).sum();
        names + self.claim.token().as_bytes().len() + BYTES_OF_CLAIM
    }
}

impl Shared {
    /// Undoes a claim on a node, however long that takes, from `due` on.
    pub(crate) fn chase(self: &Arc<Self>, index: usize, due: Instant, chase: Chase) {
        self.push_chase(index, due, chase);
        self.resume_chase(index);
    }

    /// The same, from where nothing can be started: a runtime is about to end. It begins when the lock is next used.
    pub(crate) fn leave_to_chase(&self, index: usize, due: Instant, chase: Chase) {
        self.push_chase(index, due, chase);
        self.chases_stopped.store(true, Ordering::Release);
    }

    /// Starts again what runtimes have taken with them when they ended. `false` when it ended at once: then there is no
    /// runtime to run it.
    pub(crate) fn resume_chases(self: &Arc<Self>) -> bool {
        // Looked at first: to read is cheaper than to write.
        if self.chases_stopped.load(Ordering::Acquire) && self.chases_stopped.swap(false, Ordering::AcqRel) {
            (0..self.members.len()).for_each(|index| self.resume_chase(index));
        }
        !self.chases_stopped.load(Ordering::Acquire)
    }

    fn push_chase(&self, index: usize, due: Instant, chase: Chase) {
        let member = &self.members[index];
        let mut queue = locked(&member.chaser.queue);
        let dropped = queue.push(due, self.now(), chase);
        self.settle_queue(queue);
        self.overflowed(index, dropped);
        member.chaser.pushed.notify(usize::MAX);
    }

    /// So many claims were dropped from the queue of a node.
    fn overflowed(&self, index: usize, dropped: usize) {
        let member = &self.members[index];
        self.gave_up_cleanup(dropped);
        let times = if dropped > 0 { member.chaser.overflow.pass(self.now()) } else { None };
        if let Some(times) = times {
            tracing::warn!(
                node = member.node.label(),
                times,
                "cleanup queue full; dropping the oldest entries (their keys expire with the TTL)"
            );
        }
    }

    /// The queue of a node has changed. While more than a minority of the nodes is behind, no attempt begins.
    fn settle_queue(&self, mut queue: MutexGuard<'_, Queue>) {
        let Some(is_behind) = queue.update_behind() else { return };
        // Within the lock of the queue, so that the changes of one node are counted in their order.
        if is_behind {
            self.nodes_behind.fetch_add(1, Ordering::AcqRel);
        } else {
            self.nodes_behind.fetch_sub(1, Ordering::AcqRel);
        }
        drop(queue);
        let minority = self.members.len() - self.quorum();
        // Counted within the lock of the limiter: the last to come there sees the last count.
        self.limiter.cleanup_is_behind(|| self.nodes_behind.load(Ordering::Acquire) > minority);
    }

    fn resume_chase(self: &Arc<Self>, index: usize) {
        let mut queue = locked(&self.members[index].chaser.queue);
        if !queue.chases.is_empty() && !mem::replace(&mut queue.running, true) {
            drop(queue);
            let chasing = Chasing { shared: Arc::clone(self), index, taken: Vec::new(), over: false };
            self.runtime.spawn(Box::pin(chasing.run()));
        }
    }
}

/// The task of one node.
struct Chasing {
    shared: Arc<Shared>,
    index: usize,
    /// Sent, and not answered for good yet.
    taken: Vec<Chase>,
    /// Whether the queue knows that the task is over.
    over: bool,
}

impl Chasing {
    async fn run(mut self) {
        let mut delay = Duration::ZERO;
        loop {
            let limit = if delay.is_zero() { BATCH } else { 1 };
            let pushed = self.shared.members[self.index].chaser.pushed.listen();
            let Some(due) = self.take(limit) else { return };
            if due > self.shared.now() {
                sleep_until_or(&*self.shared.runtime, due, pushed).await;
            } else if self.release().await {
                delay = Duration::ZERO;
            } else {
                delay = (delay * 2).clamp(SHORTEST_DELAY, LONGEST_DELAY);
                sleep_until(&*self.shared.runtime, self.shared.now() + delay).await;
            }
        }
    }

    /// Takes what is due. Answers when the first of the rest is, if nothing is due now, or `None` when the task is over.
    fn take(&mut self, limit: usize) -> Option<Instant> {
        let now = self.shared.now();
        let given_up = self.shared.abandoned().is_some_and(|since| now > since + GRACE);
        let mut queue = locked(&self.shared.members[self.index].chaser.queue);
        if given_up && !queue.chases.is_empty() {
            tracing::warn!(
                node = self.shared.members[self.index].node.label(),
                keys = queue.chases.len(),
                "cleanup abandoned {} s after the last handle was dropped (the keys expire with the TTL)",
                GRACE.as_secs()
            );
            self.shared.gave_up_cleanup(queue.chases.len());
            queue.chases.clear();
            queue.bytes = 0;
        }
        let Some((due, _)) = queue.chases.keys().next().copied() else {
            queue.running = false;
            self.over = true;
            self.shared.settle_queue(queue);
            return None;
        };
        self.taken = queue.take(limit, now);
        self.shared.settle_queue(queue);
        Some(due)
    }

    /// Sends the releases that were taken. Whether the node answered.
    async fn release(&mut self) -> bool {
        let (shared, limit) = (&self.shared, self.shared.settings.node_timeout);
        let member = &shared.members[self.index];
        let sent = shared.now();
        let mut next: Vec<Next> = self.taken.iter().map(|_| Next::Again(sent)).collect();
        let mut pursuits: Vec<_> = self.taken.iter().map(|chase| chase.pursuit).collect();
        let mut answered = false;
        let calls = self.taken.iter().map(|chase| member.node.release(&chase.claim));
        let mut calls = Calls::new(&*shared.runtime, sent, limit, calls);
        while let Some((position, ending)) = calls.next().await {
            let at = calls.seen();
            next[position] = match ending {
                Ending::Answered(vote) => {
                    answered = true;
                    let (deleted, connection) = (vote == Vote::Granted, member.node.connection());
                    pursuits[position].answered(Answer { deleted, connection, sent, at }, limit)
                }
                _ if broken::has_expired(&self.taken[position].claim, at) => Next::Done,
                Ending::Failed(_) | Ending::TimedOut => pursuits[position].failed(at),
            };
        }
        drop(calls);
        let mut queue = locked(&member.chaser.queue);
        queue.unanswered_since = if answered { None } else { queue.unanswered_since.or(Some(sent)) };
        let mut dropped = 0;
        for ((chase, pursuit), next) in self.taken.drain(..).zip(pursuits).zip(next) {
            if let Next::Again(due) = next {
                dropped += queue.push(due, sent, Chase { pursuit, ..chase });
            }
        }
        shared.settle_queue(queue);
        shared.overflowed(self.index, dropped);
        answered
    }
}

/// Ends the task, also where its runtime ends it: what it has not finished goes back into the queue.
impl Drop for Chasing {
    fn drop(&mut self) {
        let now = self.shared.now();
        let mut queue = locked(&self.shared.members[self.index].chaser.queue);
        let dropped = self.taken.drain(..).map(|chase| queue.push(now, now, chase)).sum();
        if !self.over {
            queue.running = false;
            self.shared.chases_stopped.store(true, Ordering::Release);
        }
        self.shared.settle_queue(queue);
        self.shared.overflowed(self.index, dropped);
        self.shared.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::pursuit::Trace;
    use crate::resource::IntoResources;
    use crate::token::Token;

    fn chase(token: u32) -> Chase {
        let claim = Claim::new("a".into_resources().unwrap(), Token::from_bytes(token.to_le_bytes()));
        Chase { claim, pursuit: Trace::default().pursue() }
    }

    fn at(nanos: u64) -> Instant {
        Instant::since_origin(Duration::from_nanos(nanos))
    }

    #[test]
    fn what_is_due_is_taken_oldest_first() {
        let mut queue = Queue::default();
        for (token, due) in [(0, 5), (1, 3), (2, 3), (3, 9)] {
            queue.push(at(due), at(0), chase(token));
        }
        let mut tokens = |limit, now| -> Vec<_> {
            queue.take(limit, at(now)).into_iter().map(|chase| chase.claim.token().as_bytes()[0]).collect()
        };
        assert_eq!(Vec::<u8>::new(), tokens(8, 2));
        assert_eq!(vec![1], tokens(1, 8));
        assert_eq!(vec![2, 0], tokens(8, 8));
        assert_eq!(vec![3], tokens(8, 9));
    }

    #[test]
    fn the_oldest_makes_room_beyond_the_limit() {
        let mut queue = Queue { unanswered_since: Some(at(0)), ..Queue::default() };
        let limit = MAX_BYTES_UNANSWERED / chase(0).bytes();
        let count = u32::try_from(limit).unwrap() + 464;
        let silent = at(0) + SILENCE;
        let dropped: usize =
            (0..count).map(|token| queue.push(at(u64::from(token)), silent, chase(token))).sum();
        assert_eq!((limit, 464), (queue.chases.len(), dropped));
        assert_eq!(464_u32.to_le_bytes(), queue.take(1, at(u64::MAX))[0].claim.token().as_bytes());
        queue.take(usize::MAX, at(u64::MAX));
        assert_eq!(0, queue.bytes);

        let recently = at(1);
        assert_eq!(0, (0..count).map(|token| queue.push(at(0), recently, chase(token))).sum::<usize>());
    }

    #[test]
    fn a_node_that_answers_keeps_many_more_and_is_behind_meanwhile() {
        let mut queue = Queue::default();
        let mut changes = Vec::new();
        for token in 0..100_000 {
            assert_eq!(0, queue.push(at(1), at(1), chase(token)));
            changes.extend(queue.update_behind());
        }
        assert_eq!(vec![true], changes);
        while !queue.take(BATCH, at(1)).is_empty() {
            changes.extend(queue.update_behind());
        }
        assert_eq!(vec![true, false], changes);
    }

    #[test]
    fn a_node_that_does_not_answer_is_never_behind() {
        let mut queue = Queue { unanswered_since: Some(at(0)), ..Queue::default() };
        for token in 0..10_000 {
            queue.push(at(1), at(1), chase(token));
            assert_eq!(None, queue.update_behind());
        }
    }
}
