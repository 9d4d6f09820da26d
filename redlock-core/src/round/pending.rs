//! The pending cleanup of each node: a queue of releases that must be repeated.
//!
//! The following limits apply:
//!
//! - The queue of a node that acknowledges no release holds 16 MiB, about 64 Ki claims with one short name.
//! - The queue of any other node holds 256 MiB.
//! - Above these limits, the entries that are due first are dropped with a warning.
//! - Load alone drops no entry: while the queues of more than a minority of the nodes are long, no new attempt begins.
//! - After the last handle and lease are gone, cleanup continues for one minute.

use std::collections::BTreeMap;
use std::time::Duration;

use event_listener::Event;

use crate::round::Cleanup;
use crate::sync::{Mutex, locked};
use crate::telemetry::throttle::Throttle;
use crate::types::instant::Instant;

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

/// The pending cleanup of one node.
#[derive(Default)]
pub(crate) struct CleanupQueue {
    pub(super) queue: Mutex<Queue>,
    /// Notified at each push: the new entry may be due before the awaited one.
    pub(super) pushed: Event,
    pub(super) overflow: Throttle,
}

/// The entries of one node.
#[derive(Default)]
pub(super) struct Queue {
    /// The entries, by the time of the next release, then by age.
    entries: BTreeMap<(Instant, u64), Cleanup>,
    pushed: u64,
    bytes: usize,
    /// The time of the first failed release since the last acknowledged one.
    silent_since: Option<Instant>,
    is_behind: bool,
    /// True while there is a task; it may have taken entries out of the queue.
    pub(super) running: bool,
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
    pub(super) fn push(&mut self, now: Instant, entry: Cleanup) -> usize {
        self.pushed += 1;
        self.bytes += entry.bytes();
        self.entries.insert((entry.due, self.pushed), entry);
        let silence = self.silent_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let limit = if silence < SILENCE { MAX_BYTES } else { MAX_BYTES_UNANSWERED };
        let before = self.entries.len();
        while self.bytes > limit && self.entries.len() > 1 {
            self.pop_first();
        }
        before - self.entries.len()
    }

    /// Takes at most `limit` entries that are due.
    pub(super) fn take(&mut self, limit: usize, now: Instant) -> Vec<Cleanup> {
        let due = self.entries.keys().take(limit).take_while(|(due, _)| *due <= now).count();
        (0..due).filter_map(|_| self.pop_first()).collect()
    }

    fn pop_first(&mut self) -> Option<Cleanup> {
        let (_, entry) = self.entries.pop_first()?;
        self.bytes -= entry.bytes();
        Some(entry)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns when the first entry is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.entries.keys().next().map(|(due, _)| *due)
    }

    /// Drops all entries, and returns their number.
    pub(super) fn clear(&mut self) -> usize {
        let dropped = self.entries.len();
        self.entries.clear();
        self.bytes = 0;
        dropped
    }

    /// Records whether the node replied to the releases that were sent at `sent`.
    pub(super) fn released(&mut self, sent: Instant, replied: bool) {
        self.silent_since = if replied { None } else { self.silent_since.or(Some(sent)) };
    }

    /// Updates whether the node is behind; returns `Some` if this has changed.
    pub(super) fn update_behind(&mut self) -> Option<bool> {
        let limit = if self.is_behind { BEHIND / 2 } else { BEHIND };
        let is_behind = self.silent_since.is_none() && self.entries.len() > limit;
        let changed = is_behind != self.is_behind;
        self.is_behind = is_behind;
        changed.then_some(is_behind)
    }
}

impl Cleanup {
    fn bytes(&self) -> usize {
        let names: usize = self.claim.resources().iter().map(|resource| resource.as_bytes().len()).sum();
        names + self.claim.token().as_bytes().len() + BYTES_OF_CLAIM
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::pending_release::WriteState;
    use crate::types::claim::Claim;
    use crate::types::resource::IntoResources;
    use crate::types::token::Token;

    fn entry(due: Instant, token: u32) -> Cleanup {
        let claim = Claim::new("a".into_resources().unwrap(), Token::from_bytes(token.to_le_bytes()));
        Cleanup { node: 0, due, claim, release: WriteState::default().pending_release() }
    }

    fn at(nanos: u64) -> Instant {
        Instant::since_origin(Duration::from_nanos(nanos))
    }

    #[test]
    fn due_entries_are_taken_oldest_first() {
        let mut queue = Queue::default();
        for (token, due) in [(0, 5), (1, 3), (2, 3), (3, 9)] {
            queue.push(at(0), entry(at(due), token));
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
        let limit = MAX_BYTES_UNANSWERED / entry(at(0), 0).bytes();
        let count = u32::try_from(limit).unwrap() + 464;
        let silent = at(0) + SILENCE;
        let dropped: usize =
            (0..count).map(|token| queue.push(silent, entry(at(u64::from(token)), token))).sum();
        assert_eq!((limit, 464), (queue.entries.len(), dropped));
        assert_eq!(464_u32.to_le_bytes(), queue.take(1, at(u64::MAX))[0].claim.token().as_bytes());
        queue.take(usize::MAX, at(u64::MAX));
        assert_eq!(0, queue.bytes);

        let recently = at(1);
        assert_eq!(0, (0..count).map(|token| queue.push(recently, entry(at(0), token))).sum::<usize>());
    }

    #[test]
    fn a_node_that_replies_keeps_more_entries_and_is_behind_until_they_are_sent() {
        let mut queue = Queue::default();
        let mut changes = Vec::new();
        for token in 0..100_000 {
            assert_eq!(0, queue.push(at(1), entry(at(1), token)));
            changes.extend(queue.update_behind());
        }
        assert_eq!(vec![true], changes);
        while !queue.take(256, at(1)).is_empty() {
            changes.extend(queue.update_behind());
        }
        assert_eq!(vec![true, false], changes);
    }

    #[test]
    fn a_node_that_does_not_reply_is_never_behind() {
        let mut queue = Queue { silent_since: Some(at(0)), ..Queue::default() };
        for token in 0..10_000 {
            queue.push(at(1), entry(at(1), token));
            assert_eq!(None, queue.update_behind());
        }
    }
}
