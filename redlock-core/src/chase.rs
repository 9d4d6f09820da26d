//! Undoing what was not undone at once: releases that are repeated until the node has answered them for good.
//!
//! Each node has a queue of chases and, while it is not empty, one task. A node that is down is probed with the oldest
//! chase alone, after a growing delay; once it answers, the rest goes out in batches. When a chase ends is decided in
//! [`pursuit`](crate::decide::pursuit); time alone ends none. What bounds them: the queue holds 64 Ki chases, the one due
//! first is dropped with a warning; and when the last handle and lease are gone, a minute is left.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
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

/// So many chases wait for one node at most: some 10 MB of claims.
const LIMIT: usize = 1 << 16;

/// So many releases are sent to one node at once.
const BATCH: usize = 64;

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
}

#[derive(Default)]
struct Queue {
    /// By the time at which the next release is due, then by age.
    chases: BTreeMap<(Instant, u64), Chase>,
    pushed: u64,
    /// Whether there is a task. It may have taken chases out of the queue.
    running: bool,
}

impl Chaser {
    pub(crate) fn is_empty(&self) -> bool {
        let queue = locked(&self.queue);
        queue.chases.is_empty() && !queue.running
    }
}

impl Queue {
    /// Answers whether the one that is due first had to make room.
    fn push(&mut self, due: Instant, chase: Chase) -> bool {
        self.pushed += 1;
        self.chases.insert((due, self.pushed), chase);
        self.chases.len() > LIMIT && self.chases.pop_first().is_some()
    }

    /// Takes at most `limit` chases that are due.
    fn take(&mut self, limit: usize, now: Instant) -> Vec<Chase> {
        let due = self.chases.keys().take(limit).take_while(|(due, _)| *due <= now).count();
        (0..due).filter_map(|_| self.chases.pop_first()).map(|(_, chase)| chase).collect()
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
        if locked(&member.chaser.queue).push(due, chase) {
            tracing::warn!(
                node = member.node.label(),
                "too much to undo: what is due first is left to its TTL"
            );
        }
        member.chaser.pushed.notify(usize::MAX);
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
                keys = queue.chases.len(),
                "nobody waits for what is to be undone: it is left to its TTL"
            );
            queue.chases.clear();
        }
        let Some((due, _)) = queue.chases.keys().next().copied() else {
            queue.running = false;
            self.over = true;
            return None;
        };
        self.taken = queue.take(limit, now);
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
        for ((chase, pursuit), next) in self.taken.drain(..).zip(pursuits).zip(next) {
            if let Next::Again(due) = next {
                queue.push(due, Chase { pursuit, ..chase });
            }
        }
        answered
    }
}

/// Ends the task, also where its runtime ends it: what it has not finished goes back into the queue.
impl Drop for Chasing {
    fn drop(&mut self) {
        let now = self.shared.now();
        let mut queue = locked(&self.shared.members[self.index].chaser.queue);
        for chase in self.taken.drain(..) {
            queue.push(now, chase);
        }
        if !self.over {
            queue.running = false;
            self.shared.chases_stopped.store(true, Ordering::Release);
        }
        drop(queue);
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
            queue.push(at(due), chase(token));
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
        let mut queue = Queue::default();
        let dropped: u32 =
            (0..66_000).map(|token| u32::from(queue.push(at(u64::from(token)), chase(token)))).sum();
        assert_eq!((LIMIT, 66_000 - 65_536), (queue.chases.len(), dropped));
        assert_eq!(464_u32.to_le_bytes(), queue.take(1, at(u64::MAX))[0].claim.token().as_bytes());
    }
}
