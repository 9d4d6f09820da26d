//! What becomes of a request that arrives: decided in one step under one lock, without I/O.
//!
//! What a request waits for is queued in that same step. So a test that lets everything go can miss nothing that has
//! arrived, and nothing that arrives later waits for a hang that is over.

use std::collections::VecDeque;

use futures_channel::oneshot;
use redlock_core::{
    Claim, ConnectionId, FencingToken, Holding, IntoResources, LockNode, NodeError, Refusal, Resource, Token,
    Ttl, Vote,
};

use super::fault::{Effect, Operation, Script};

/// What an inspection finds is answered as a vote: granted is free, and a refusal names the holder.
pub(crate) type Answer = Result<Vote, NodeError>;

#[derive(Clone)]
pub(crate) enum Request {
    Acquire(Claim, Ttl),
    Extend(Claim, Ttl),
    AcquireFenced(Claim, Ttl),
    Confirm(Claim, Ttl, FencingToken),
    RefillFenced(Claim, Ttl, FencingToken),
    Release(Claim),
    /// The token is nobody's.
    Inspect(Claim),
    /// The same. The watch itself begins when this is answered.
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
            Self::Extend(..) => Operation::Extend,
            Self::Release(_) => Operation::Release,
            Self::Inspect(_) => Operation::Inspect,
            Self::Watch(_) => Operation::Watch,
        }
    }

    /// Whether it may write new keys.
    pub(crate) fn creates(&self) -> bool {
        matches!(self, Self::Acquire(..) | Self::AcquireFenced(..) | Self::RefillFenced(..))
    }

    pub(super) async fn apply(&self, node: &dyn LockNode) -> Answer {
        match self {
            Self::Acquire(claim, ttl) => node.acquire(claim, *ttl).await,
            Self::Extend(claim, ttl) => node.extend(claim, *ttl).await,
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

pub(crate) fn as_vote(found: Option<Holding>) -> Vote {
    let Some(Holding { token, remaining, .. }) = found else { return Vote::Granted };
    let refusal = Refusal::by(token);
    Vote::Refused(match remaining {
        Some(remaining) => refusal.expiring_in(remaining),
        None => refusal,
    })
}

/// The answer to an inspection.
pub(crate) fn as_found(vote: Vote) -> Option<Holding> {
    let Vote::Refused(Refusal { holder: Some(token), remaining, .. }) = vote else { return None };
    let holding = Holding::of(token);
    Some(match remaining {
        Some(remaining) => holding.expiring_in(remaining),
        None => holding,
    })
}

/// What is held back, oldest first.
pub(super) enum Held {
    Request(Request, oneshot::Sender<Answer>),
    Reply(oneshot::Sender<()>),
}

/// What an arriving request meets.
pub(super) enum Admission {
    Down,
    Apply(Request),
    Fault(Effect, Request),
    /// In the queue; the answer comes from there.
    Hangs(oneshot::Receiver<Answer>),
    /// To be applied now; the reply may go when the queue says so.
    ReplyHeld(Request, oneshot::Receiver<()>),
}

#[derive(Default)]
pub(super) struct State {
    pub(super) script: Script,
    pub(super) held: VecDeque<Held>,
    pub(super) down: bool,
    /// Counts crashes: what was on its way before one never arrives.
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
        // On an ordered connection nothing overtakes a request that hangs.
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

    pub(super) fn seen(&self, operation: Operation) -> u64 {
        self.seen[operation as usize]
    }

    /// Requests that hang, and replies that somebody still waits for.
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

    /// The number of the connection over the inner node's connection: a new one after every loss.
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
    /// A request is carried out even if nobody waits for it; a reply that nobody waits for is nothing.
    fn matters(&self) -> bool {
        match self {
            Self::Request(..) => true,
            Self::Reply(reply) => !reply.is_canceled(),
        }
    }
}
