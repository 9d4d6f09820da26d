//! Rounds: requests to the nodes, and the decision about their replies.
//!
//! A [`Round`] is a value without I/O, clock or runtime. It is told what has happened, and states what to send. The
//! [`engine`] carries it out.

pub(crate) mod acquire;
pub(crate) mod cleanup;
pub(crate) mod compare;
pub(crate) mod engine;
#[cfg(all(test, not(loom)))]
mod exploration;
pub(crate) mod extend;
pub(crate) mod failure;
pub(crate) mod health;
pub(crate) mod inspect;
pub(crate) mod keep;
pub(crate) mod nodes;
mod outcome;
mod pending;
pub(crate) mod release;
#[cfg(test)]
mod tests;
pub(crate) mod vouch;

use std::fmt;
use std::time::Duration;

use event_listener::EventListener;
use smallvec::SmallVec;

use crate::decide::fencing::Bound;
use crate::decide::pending_release::{EndedRelease, Next, PendingRelease};
use crate::decide::quorums::Quorums;
use crate::decide::validity::DriftFactor;
use crate::decide::votes::Votes;
use crate::lease::record::Record;
use crate::node::{ConnectionId, Operation, Request, ServerId};
use crate::types::claim::Claim;
use crate::types::instant::Instant;
use crate::types::report::Outcome;
use crate::types::ttl::Ttl;

/// One operation on the nodes, as a value without I/O.
///
/// The engine calls `start`, then `sent` and `heard` for every request. After each of them it asks for the result, until
/// there is one. The caller then has its result, and the round continues until no request is left.
pub(crate) trait Round: Send + Unpin + 'static {
    /// What a request is for, if the round sends several to one node.
    type Tag: Copy + Send + Unpin + fmt::Debug;
    type Output: Send;

    /// Sends the first requests.
    fn start(&mut self, io: &mut Io<Self::Tag>);

    /// Returns a request at the moment when it can be sent; `None` if it is not wanted any more.
    fn request(&self, node: usize, tag: Self::Tag) -> Option<Request>;

    /// Records that a request may be carried out from now on, over this connection.
    fn sent(&mut self, node: usize, tag: Self::Tag, connection: Option<ConnectionId>) {
        let _ = (node, tag, connection);
    }

    /// Records that a request was not wanted any more when it could be sent. It is not heard.
    fn unsent(&mut self, node: usize, tag: Self::Tag, at: Instant) {
        let _ = (node, tag, at);
    }

    /// Records that the first requests were polled once, so those with a connection have been sent.
    fn all_sent(&mut self) {}

    /// Listens for the end of what the requests are for, if they end with it.
    fn listen(&self) -> Option<EventListener> {
        None
    }

    /// Returns whether a request is still wanted after an event. If it is not, it is dropped without being heard.
    fn is_wanted(&self, tag: Self::Tag) -> bool {
        let _ = tag;
        true
    }

    /// Records the end of a request. Nothing of it can be sent afterwards.
    fn heard(&mut self, heard: Heard<Self::Tag>, io: &mut Io<Self::Tag>);

    /// Returns the result, once it is certain. It is returned once, even if no caller waits for it.
    fn result(&mut self, now: Instant, io: &mut Io<Self::Tag>) -> Option<Self::Output>;

    /// Handles a caller that no longer waits for a result.
    fn abandon(&mut self, now: Instant, io: &mut Io<Self::Tag>) {
        let _ = (now, io);
    }

    /// Handles the end of the runtime: nothing can be sent any more, except by cleanup.
    fn interrupt(&mut self, now: Instant, io: &mut Io<Self::Tag>) {
        let _ = (now, io);
    }

    /// Returns whether requests may still be polled, and thus sent, after their limit.
    fn may_poll_late(&self) -> bool {
        true
    }

    /// Returns whether replies count even if the node lists of programs [differ](crate::decide::agreement).
    fn counts_always(&self) -> bool {
        false
    }

    /// Returns the name of a request in events and metrics.
    fn name(&self, operation: Operation) -> &'static str {
        operation.name()
    }
}

/// The end of one request.
#[derive(Debug)]
pub(crate) struct Heard<T> {
    pub(crate) node: usize,
    pub(crate) tag: T,
    pub(crate) outcome: Outcome,
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) server: Option<ServerId>,
    /// The request was sent at this time or later.
    pub(crate) sent: Instant,
    pub(crate) at: Instant,
}

/// What a round wants to be done.
#[derive(Debug)]
pub(crate) struct Io<T> {
    pub(crate) sends: SmallVec<[(usize, T); 5]>,
    pub(crate) cleanups: Vec<Cleanup>,
}

/// A claim on one node whose release must be repeated, from `due` on.
#[derive(Debug)]
pub(crate) struct Cleanup {
    pub(crate) node: usize,
    pub(crate) due: Instant,
    pub(crate) claim: Claim,
    pub(crate) release: PendingRelease,
}

/// The constants of all rounds of one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) quorums: Quorums,
    pub(crate) node_timeout: Duration,
    pub(crate) drift: DriftFactor,
    /// The maximum difference of node counters that vote on a fenced claim.
    pub(crate) bound: Bound,
}

impl Rules {
    /// Returns the number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.quorums.nodes()
    }

    /// Returns the time limit for one node while a TTL is running.
    ///
    /// It is at most half of the TTL, so that a quorum of late replies leaves usable validity.
    pub(crate) fn timeout_within(&self, ttl: Ttl) -> Duration {
        self.node_timeout.min(ttl.as_duration() / 2)
    }

    /// Returns the votes of a round that begins at `start`.
    pub(crate) fn votes(&self, start: Instant) -> Votes {
        Votes::new(start, self.quorums, self.bound)
    }
}

impl<T> Default for Io<T> {
    fn default() -> Self {
        Self { sends: SmallVec::new(), cleanups: Vec::new() }
    }
}

impl<T: Copy> Io<T> {
    pub(crate) fn send(&mut self, node: usize, tag: T) {
        self.sends.push((node, tag));
    }

    pub(crate) fn send_to_all(&mut self, nodes: usize, tag: T) {
        self.sends.extend((0..nodes).map(|node| (node, tag)));
    }

    /// Leaves a node to cleanup, if the outcome of its release is not sufficient.
    pub(crate) fn follow_up<U>(&mut self, record: &Record, heard: &Heard<U>, node_timeout: Duration) {
        let Some(mut release) = record.with(|state| state.take_release(heard.node)) else { return };
        let next = release.next(heard.ended_release(), node_timeout);
        self.clean_up(heard.node, next, &record.claim, release);
    }

    /// Leaves all nodes whose releases are not confirmed to cleanup.
    pub(crate) fn leave_all(&mut self, record: &Record, now: Instant) {
        record.with(|state| {
            for node in 0..state.peers.len() {
                let Some(release) = state.take_release(node) else { continue };
                self.clean_up(node, release.without_reply(now), &record.claim, release);
            }
        });
    }

    fn clean_up(&mut self, node: usize, next: Next, claim: &Claim, release: PendingRelease) {
        if let Next::Again(due) = next {
            self.cleanups.push(Cleanup { node, due, claim: claim.clone(), release });
        }
    }
}

impl<T> Heard<T> {
    /// Describes the end of a release.
    pub(crate) fn ended_release(&self) -> EndedRelease {
        let deleted = match self.outcome {
            Outcome::Released => Some(true),
            Outcome::NotHeld => Some(false),
            _ => None,
        };
        EndedRelease { deleted, connection: self.connection, sent: self.sent, at: self.at }
    }
}
