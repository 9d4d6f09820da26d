//! The handling of an arriving request: decided in one step under one lock, without I/O.
//!
//! A request that has to wait is queued in that same step. A test that releases everything therefore misses no request
//! that has arrived, and no later request waits for a hang that is over.

use std::collections::{HashMap, VecDeque};

use futures_channel::oneshot;
use redlock_core::node::{ConnectionId, NodeError, Operation, Reply, Request};
use redlock_core::runtime::BoxFuture;

use super::fault::{Effect, Script};
use super::request_log::RequestLog;

/// The result of a request.
pub(super) type Outcome = Result<Reply, NodeError>;

/// The reply of the inner node, which carries the request out when it is polled.
pub(super) type Reception = BoxFuture<Outcome>;

/// A held request or reply.
pub(super) enum Held {
    Request(Reception, oneshot::Sender<Outcome>),
    Reply(oneshot::Sender<()>),
}

/// The handling of an arriving request.
pub(super) enum Arrival {
    Down,
    Apply(Reception),
    Fault(Effect, Reception),
    /// Queued; the reply comes from the queue.
    Hangs(oneshot::Receiver<Outcome>),
    /// Applied now; the reply is sent when the queue releases it.
    ReplyHeld(Reception, oneshot::Receiver<()>),
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
    /// The number of lost connections.
    pub(super) losses: u64,
    connection: Option<(ConnectionId, u64)>,
    connections: u64,
    counts: HashMap<Operation, u64>,
    pub(super) log: RequestLog,
}

impl State {
    /// Receives a request whose connection began after this number of losses.
    pub(super) fn receive(&mut self, request: &Request, reception: Reception, losses: u64) -> Arrival {
        *self.counts.entry(request.operation()).or_default() += 1;
        self.log.add(request.clone());
        // Nothing is sent over a connection that was lost.
        if self.down || self.losses != losses {
            return Arrival::Down;
        }
        // On an ordered connection no request overtakes one that hangs.
        let behind = self.ordered && self.held.iter().any(|held| matches!(held, Held::Request(..)));
        match if behind { Some(Effect::Hang) } else { self.script.next(request) } {
            None => Arrival::Apply(reception),
            Some(Effect::Hang) => {
                let (reply, answer) = oneshot::channel();
                self.held.push_back(Held::Request(reception, reply));
                Arrival::Hangs(answer)
            }
            Some(Effect::HoldReply) => {
                let (reply, go) = oneshot::channel();
                self.held.push_back(Held::Reply(reply));
                Arrival::ReplyHeld(reception, go)
            }
            Some(effect) => Arrival::Fault(effect, reception),
        }
    }

    pub(super) fn request_count(&self, operation: Operation) -> u64 {
        self.counts.get(&operation).copied().unwrap_or_default()
    }

    /// Returns the number of hanging requests, and of replies with a waiting caller.
    pub(super) fn held_count(&self) -> usize {
        self.held.iter().filter(|held| held.has_effect()).count()
    }

    pub(super) fn pop_held(&mut self) -> Option<Held> {
        loop {
            let held = self.held.pop_front()?;
            if held.has_effect() {
                return Some(held);
            }
        }
    }

    pub(super) fn crash(&mut self) {
        self.down = true;
        self.crashes += 1;
        self.losses += 1;
        self.held.clear();
    }

    /// Returns the number of the inner node's connection. Every loss leads to a new number.
    pub(super) fn connection(&mut self, inner: ConnectionId) -> Option<ConnectionId> {
        if !self.ordered || self.down {
            return None;
        }
        let current = Some((inner, self.losses));
        if self.connection != current {
            self.connection = current;
            self.connections += 1;
        }
        Some(ConnectionId(self.connections))
    }
}

impl Held {
    /// Returns whether the held item still has an effect.
    ///
    /// A request always has one, a reply only if its caller still waits.
    fn has_effect(&self) -> bool {
        match self {
            Self::Request(..) => true,
            Self::Reply(reply) => !reply.is_canceled(),
        }
    }
}
