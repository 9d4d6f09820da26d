//! The handling of an arriving request: decided in one step under one lock, without I/O.
//!
//! A request that has to wait is queued in that same step. A test that releases everything therefore misses no request
//! that has arrived, and no later request waits for a hang that is over.

use std::collections::VecDeque;

use futures_channel::oneshot;
use redlock_core::{
    Claim, ConnectionId, Denial, FencingToken, IntoResources, LockEntry, LockNode, NodeError, Resource,
    Token, Ttl, Vote,
};

use super::fault::{Effect, Operation, Script};

/// The result of a request. An inspection uses it too: a grant means free, and a denial names the holder.
pub(crate) type VoteResult = Result<Vote, NodeError>;

#[derive(Clone)]
pub(crate) enum Request {
    Acquire(Claim, Ttl),
    Extend(Claim, Ttl),
    Keep(Claim, Ttl),
    AcquireFenced(Claim, Ttl),
    Confirm(Claim, Ttl, FencingToken),
    RefillFenced(Claim, Ttl, FencingToken),
    Release(Claim),
    /// An inspection; its token belongs to no client.
    Inspect(Claim),
    /// The start of a watch, with such a token. The watch itself begins after the reply.
    Watch(Claim),
}

impl Request {
    pub(crate) fn inspect(resource: &Resource) -> Self {
        Self::Inspect(nobodys(resource))
    }

    pub(crate) fn watch(resource: &Resource) -> Self {
        Self::Watch(nobodys(resource))
    }

    pub(crate) fn claim(&self) -> &Claim {
        match self {
            Self::Acquire(claim, _)
            | Self::Extend(claim, _)
            | Self::Keep(claim, _)
            | Self::AcquireFenced(claim, _)
            | Self::Confirm(claim, ..)
            | Self::RefillFenced(claim, ..)
            | Self::Release(claim)
            | Self::Inspect(claim)
            | Self::Watch(claim) => claim,
        }
    }

    pub(crate) fn operation(&self) -> Operation {
        match self {
            Self::Acquire(..) | Self::AcquireFenced(..) | Self::RefillFenced(..) => Operation::Acquire,
            Self::Confirm(..) => Operation::Confirm,
            Self::Extend(..) | Self::Keep(..) => Operation::Extend,
            Self::Release(_) => Operation::Release,
            Self::Inspect(_) => Operation::Inspect,
            Self::Watch(_) => Operation::Watch,
        }
    }

    /// Returns whether the request may write new keys.
    pub(crate) fn creates(&self) -> bool {
        matches!(self, Self::Acquire(..) | Self::AcquireFenced(..) | Self::RefillFenced(..))
    }

    pub(super) async fn apply(&self, node: &dyn LockNode) -> VoteResult {
        match self {
            Self::Acquire(claim, ttl) => node.acquire(claim, *ttl).await,
            Self::Extend(claim, ttl) => node.extend(claim, *ttl).await,
            Self::Keep(claim, ttl) => node.keep_for(claim, *ttl).await,
            Self::AcquireFenced(claim, ttl) => node.acquire_fenced(claim, *ttl).await,
            Self::Confirm(claim, ttl, fence) => node.confirm(claim, *ttl, *fence).await,
            Self::RefillFenced(claim, ttl, fence) => node.refill_fenced(claim, *ttl, *fence).await,
            Self::Release(claim) => node.release(claim).await,
            Self::Inspect(claim) => node.inspect(&claim.resources()[0]).await.map(as_vote),
            Self::Watch(_) => Ok(Vote::Granted),
        }
    }
}

fn nobodys(resource: &Resource) -> Claim {
    let resources = resource.into_resources().expect("one resource is no two of the same");
    Claim::new(resources, Token::from_bytes(""))
}

pub(crate) fn as_vote(found: Option<LockEntry>) -> Vote {
    let Some(LockEntry { token, remaining, .. }) = found else { return Vote::Granted };
    let refusal = Denial::by(token);
    Vote::Denied(match remaining {
        Some(remaining) => refusal.expiring_in(remaining),
        None => refusal,
    })
}

/// Converts the result of an inspection.
pub(crate) fn as_found(vote: Vote) -> Option<LockEntry> {
    let Vote::Denied(Denial { holder: Some(token), remaining, .. }) = vote else { return None };
    let holding = LockEntry::of(token);
    Some(match remaining {
        Some(remaining) => holding.expiring_in(remaining),
        None => holding,
    })
}

/// A held request or reply.
pub(super) enum Held {
    Request(Request, oneshot::Sender<VoteResult>),
    Reply(oneshot::Sender<()>),
}

/// The handling of an arriving request.
pub(super) enum Admission {
    Down,
    Apply(Request),
    Fault(Effect, Request),
    /// Queued; the reply comes from the queue.
    Hangs(oneshot::Receiver<VoteResult>),
    /// Applied now; the reply is sent when the queue releases it.
    ReplyHeld(Request, oneshot::Receiver<()>),
}

#[derive(Default)]
pub(super) struct State {
    pub(super) script: Script,
    pub(super) held: VecDeque<Held>,
    pub(super) down: bool,
    /// The number of crashes. Requests in flight during a crash never arrive.
    pub(super) crashes: u64,
    pub(super) ordered: bool,
    pub(super) watching: bool,
    pub(super) connections_lost: u64,
    connection: Option<(ConnectionId, u64)>,
    connections: u64,
    seen: [u64; 6],
}

impl State {
    pub(super) fn admit(&mut self, request: Request) -> Admission {
        let operation = request.operation();
        self.seen[operation as usize] += 1;
        if self.down {
            return Admission::Down;
        }
        // On an ordered connection no request overtakes one that hangs.
        let behind = self.ordered && self.held.iter().any(|held| matches!(held, Held::Request(..)));
        match if behind { Some(Effect::Hang) } else { self.script.next(operation) } {
            None => Admission::Apply(request),
            Some(Effect::Hang) => {
                let (reply, answer) = oneshot::channel();
                self.held.push_back(Held::Request(request, reply));
                Admission::Hangs(answer)
            }
            Some(Effect::HoldReply) => {
                let (reply, go) = oneshot::channel();
                self.held.push_back(Held::Reply(reply));
                Admission::ReplyHeld(request, go)
            }
            Some(effect) => Admission::Fault(effect, request),
        }
    }

    pub(super) fn request_count(&self, operation: Operation) -> u64 {
        self.seen[operation as usize]
    }

    /// Returns the number of hanging requests, and of replies with a waiting caller.
    pub(super) fn held_count(&self) -> usize {
        self.held.iter().filter(|held| held.matters()).count()
    }

    pub(super) fn pop_held(&mut self) -> Option<Held> {
        loop {
            let held = self.held.pop_front()?;
            if held.matters() {
                return Some(held);
            }
        }
    }

    pub(super) fn crash(&mut self) {
        self.down = true;
        self.crashes += 1;
        self.connections_lost += 1;
        self.held.clear();
    }

    /// Returns the connection number for the inner node's connection: a new one after every loss.
    pub(super) fn connection(&mut self, inner: ConnectionId) -> Option<ConnectionId> {
        if !self.ordered || self.down {
            return None;
        }
        let current = Some((inner, self.connections_lost));
        if self.connection != current {
            self.connection = current;
            self.connections += 1;
        }
        Some(ConnectionId(self.connections))
    }
}

impl Held {
    /// Returns whether it still has an effect: a request always, a reply only if its caller still waits.
    fn matters(&self) -> bool {
        match self {
            Self::Request(..) => true,
            Self::Reply(reply) => !reply.is_canceled(),
        }
    }
}
