//! Rounds: votes come in, and at the first moment when they decide, something follows.

use crate::client::World;
use crate::protocol::Protocol;
use crate::pursuit::Undo;
use crate::scope::{NODES, QUORUM};
use crate::state::{Extension, Flight, Link, Order, Phase, Standing};
use crate::step::{Asks, Event, Request};
use crate::variant::Variant;

/// What the votes of a round amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Open,
    Won,
    Lost,
}

impl World<'_> {
    /// The call of an acquire has ended.
    pub(crate) fn voted(&mut self, request: Request, granted: Option<bool>) {
        let Request { client, attempt, node, .. } = request;
        (self.see)(Event::Voted { client, attempt, node, granted });
        if self.part(request).undo == Undo::Waits {
            return self.send_release(Request { asks: Asks::Release, ..request });
        }
        let is = self.state.clients[client];
        if is.has_ended(attempt) {
            return;
        }
        if is.phase == Phase::Held {
            if self.protocol.variant == Variant::StragglerRearms && granted == Some(true) && is.is_valid() {
                self.state.clients[client].deadline = is.round + 1;
            }
            return;
        }
        self.state.nodes[node].links[client].vote = standing(granted);
        match self.decision(client) {
            Decision::Open => {}
            Decision::Won if is.lapsed == 0 => {
                let late = u8::from(self.protocol.variant == Variant::ValidityFromTheReply);
                let is = &mut self.state.clients[client];
                (is.phase, is.deadline) = (Phase::Held, late);
                self.count_votes(client);
                self.forget_votes(client);
                (self.see)(Event::Granted { client });
            }
            decision => {
                self.undo(client);
                (self.see)(Event::Lost { client, expired: decision == Decision::Won });
            }
        }
    }

    /// The call of an extension has ended.
    pub(crate) fn extension_voted(&mut self, request: Request, granted: Option<bool>) {
        let Request { client, node, .. } = request;
        self.state.nodes[node].links[client].vote = standing(granted);
        let is = self.state.clients[client];
        if is.extension == Extension::Open {
            let revives = self.protocol.variant == Variant::ExtensionRevives;
            match self.decision(client) {
                Decision::Open => return,
                Decision::Won if is.is_valid() || revives => {
                    self.state.revived |= !is.is_valid();
                    let is = &mut self.state.clients[client];
                    (is.deadline, is.extension) = (is.round, Extension::Won);
                    self.count_votes(client);
                    (self.see)(Event::Extended { client });
                }
                decision => {
                    if self.protocol.variant == Variant::FailedExtensionUnlocks {
                        for node in 0..NODES {
                            let attempt = is.current();
                            self.send_release(Request { client, attempt, node, asks: Asks::Release });
                        }
                    }
                    self.end_extension(client);
                    (self.see)(Event::NotExtended { client, expired: decision == Decision::Won });
                    return;
                }
            }
        }
        let pending = |link: &Link| link.vote == Standing::Pending;
        if !self.state.nodes.iter().any(|node| pending(&node.links[client])) {
            self.refill(client);
            self.end_extension(client);
        }
    }

    /// Writes the key to the nodes that have lost it, unless the validity has passed.
    pub(crate) fn refill(&mut self, client: usize) {
        let Protocol { scope, variant } = *self.protocol;
        let is = self.state.clients[client];
        for node in &mut self.state.nodes {
            let link = &mut node.links[client];
            if link.vote == Standing::Refused && is.is_valid() {
                let part = &mut link.attempts[is.current()];
                part.refills[usize::from(is.round) - 1] = Flight::Sent;
                if variant == Variant::RefillIsNotTraced {
                    part.refills[usize::from(is.round) - 1] = Flight::Late(Order::Free);
                } else {
                    part.trace.begin(scope.transport, variant);
                }
            }
        }
    }

    pub(crate) fn end_extension(&mut self, client: usize) {
        self.forget_votes(client);
        self.state.clients[client].extension = Extension::None;
        for node in 0..NODES {
            let extend = self.state.nodes[node].links[client].extend;
            self.state.nodes[node].links[client].extend = self.protocol.abandoned(extend);
        }
    }

    fn decision(&self, client: usize) -> Decision {
        let count = |wanted: Standing| {
            self.state.nodes.iter().filter(|node| node.links[client].vote == wanted).count()
        };
        let (granted, pending) = (count(Standing::Granted), count(Standing::Pending));
        let extending = self.state.clients[client].phase == Phase::Held;
        if extending && self.protocol.variant == Variant::ExtensionByMostAnswers {
            return match pending {
                0 if granted > count(Standing::Refused) => Decision::Won,
                0 => Decision::Lost,
                _ => Decision::Open,
            };
        }
        let quorum = if self.protocol.variant == Variant::QuorumOfHalf { NODES / 2 } else { QUORUM };
        match () {
            () if granted >= quorum => Decision::Won,
            () if granted + pending < quorum => Decision::Lost,
            () => Decision::Open,
        }
    }

    fn count_votes(&mut self, client: usize) {
        for node in &mut self.state.nodes {
            let link = &mut node.links[client];
            link.counted = link.vote == Standing::Granted;
        }
    }

    fn forget_votes(&mut self, client: usize) {
        for node in &mut self.state.nodes {
            node.links[client].vote = Standing::None;
        }
    }
}

fn standing(granted: Option<bool>) -> Standing {
    match granted {
        Some(true) => Standing::Granted,
        Some(false) => Standing::Refused,
        None => Standing::Failed,
    }
}
