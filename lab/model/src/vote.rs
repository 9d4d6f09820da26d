//! Rounds: replies arrive, and the decision is made at the first possible moment.

use crate::cleanup::Cleanup;
use crate::client::World;
use crate::decision::Decision;
use crate::protocol::Protocol;
use crate::scope::{NODES, QUORUM};
use crate::state::{Extension, Flight, Link, Order, Phase, VoteState};
use crate::step::{Event, Request, RequestKind};
use crate::variant::Variant;

impl World<'_> {
    /// Records the end of the call of an acquire.
    pub(crate) fn voted(&mut self, request: Request, vote: VoteState) {
        let Request { client, attempt, node, .. } = request;
        let granted = match vote {
            VoteState::Granted => Some(true),
            VoteState::Denied => Some(false),
            _ => None,
        };
        (self.see)(Event::Voted { client, attempt, node, granted });
        if self.part(request).cleanup == Cleanup::Waits {
            return self.send_release(Request { kind: RequestKind::Release, ..request });
        }
        let is = self.state.clients[client];
        if is.has_ended(attempt) {
            return;
        }
        if is.phase == Phase::Held {
            if self.protocol.variant == Variant::LateGrantRestartsValidity
                && granted == Some(true)
                && is.is_valid()
            {
                self.state.clients[client].deadline = is.round + 1;
            }
            return;
        }
        self.state.nodes[node].links[client].vote = vote;
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
                self.clean_up(client);
                (self.see)(Event::Lost { client, expired: decision == Decision::Won });
            }
        }
    }

    /// Records the end of the call of an extension.
    pub(crate) fn extension_voted(&mut self, request: Request, vote: VoteState) {
        let Request { client, node, .. } = request;
        self.state.nodes[node].links[client].vote = vote;
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
                            self.send_release(Request { client, attempt, node, kind: RequestKind::Release });
                        }
                    }
                    self.end_extension(client);
                    (self.see)(Event::NotExtended { client, expired: decision == Decision::Won });
                    return;
                }
            }
        }
        let pending = |link: &Link| link.vote == VoteState::Pending;
        if !self.state.nodes.iter().any(|node| pending(&node.links[client])) {
            self.refill(client);
            self.end_extension(client);
        }
    }

    /// Refills the nodes that have lost the key, unless the validity has ended.
    pub(crate) fn refill(&mut self, client: usize) {
        let Protocol { scope, variant } = *self.protocol;
        let is = self.state.clients[client];
        for node in &mut self.state.nodes {
            let link = &mut node.links[client];
            if matches!(link.vote, VoteState::Denied | VoteState::DeniedInQuarantine) && is.is_valid() {
                let part = &mut link.attempts[is.current()];
                part.refills[usize::from(is.round) - 1] = Flight::Sent;
                if variant == Variant::RefillIsNotCleanedUp {
                    part.refills[usize::from(is.round) - 1] = Flight::Late(Order::Free);
                } else {
                    part.write_state.begin(scope.transport, variant);
                }
            }
        }
    }

    pub(crate) fn end_extension(&mut self, client: usize) {
        self.forget_votes(client);
        self.state.clients[client].extension = Extension::None;
        for node in 0..NODES {
            let extend = self.state.nodes[node].links[client].extend;
            self.state.nodes[node].links[client].extend = self.protocol.canceled(extend);
        }
    }

    fn decision(&self, client: usize) -> Decision {
        let count = |wanted: VoteState| {
            self.state.nodes.iter().filter(|node| node.links[client].vote == wanted).count()
        };
        let (granted, pending) = (count(VoteState::Granted), count(VoteState::Pending));
        let extending = self.state.clients[client].phase == Phase::Held;
        if extending && self.protocol.variant == Variant::ExtensionByMostReplies {
            return match pending {
                0 if granted > count(VoteState::Denied) => Decision::Won,
                0 => Decision::Lost,
                _ => Decision::Open,
            };
        }
        let quorum = if self.protocol.variant == Variant::QuorumOfHalf { NODES / 2 } else { QUORUM };
        Decision::of(granted, pending, quorum)
    }

    fn count_votes(&mut self, client: usize) {
        for node in &mut self.state.nodes {
            let link = &mut node.links[client];
            link.counted = link.vote == VoteState::Granted;
        }
    }

    fn forget_votes(&mut self, client: usize) {
        for node in &mut self.state.nodes {
            node.links[client].vote = VoteState::None;
        }
    }
}
