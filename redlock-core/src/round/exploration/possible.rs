//! The steps that are possible in a world.

use crate::node::{ConnectionId, Request};
use crate::round::exploration::broken::Variant;
use crate::round::exploration::node::{Key, Node};
use crate::round::exploration::scope::{CLIENTS, Keys, NODES, Transport};
use crate::round::exploration::step::Step;
use crate::round::exploration::world::{Attempt, Call, Client, Flight, Message, Phase, World};

impl Step {
    pub(super) fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Cancel { .. }
                | Self::Interrupt { .. }
                | Self::CarryWithoutReply { .. }
                | Self::CarryTwice { .. }
                | Self::DenyTwice { .. }
                | Self::FalseReply { .. }
                | Self::Raise { .. }
                | Self::ReplyUncounted { .. }
                | Self::Fail { .. }
                | Self::Refuse { .. }
                | Self::Break { .. }
        )
    }
}

impl World {
    /// Returns true if the step counts as a fault. A node that has replied falsely may do so again.
    pub(super) fn is_fault(&self, step: Step) -> bool {
        let begins = |step| !matches!(step, Step::FalseReply { node, .. } if self.nodes[usize::from(node)].replies_falsely);
        step.is_fault() && begins(step)
    }

    pub(super) fn steps(&self, steps: &mut Vec<Step>) {
        for client in 0..CLIENTS {
            self.steps_of(client, steps);
        }
        for node in 0..NODES {
            for (position, message) in self.nodes[node].messages.iter().enumerate() {
                if !self.is_spent(message.client.into(), message.attempt.into(), node) {
                    self.steps_with(node, position, steps);
                }
            }
            let keys = self.nodes[node].keys.iter().enumerate();
            let expiring = keys.filter(|(_, key)| self.may_expire(**key));
            steps.extend(expiring.map(|(key, _)| Step::Expire { node: byte(node), key: byte(key) }));
            if self.scope.keys == Keys::Forgotten && self.nodes[node].keys.is_empty() {
                steps.push(Step::Raise { node: byte(node) });
            }
        }
        if self.faults >= self.scope.faults {
            steps.retain(|step| !self.is_fault(*step));
        }
    }

    fn steps_of(&self, index: usize, steps: &mut Vec<Step>) {
        let (own, client) = (&self.clients[index], byte(index));
        let may_begin = own.attempts.len() < self.scope.attempts[index].into();
        let Some(last) = own.attempts.last() else {
            steps.extend(may_begin.then_some(Step::Attempt { client }));
            return;
        };
        let may_extend = last.phase == Phase::Held
            && (self.scope.overlapping || last.extending.is_empty())
            && last.extensions < self.scope.extensions[index];
        if self.scope.keys == Keys::Forgotten {
            let decided = last.phase != Phase::Acquiring;
            steps.extend((may_begin && decided).then_some(Step::Attempt { client }));
            steps.extend(may_extend.then_some(Step::Extend { client }));
            return;
        }
        let is_valid = is_valid(own, last);
        match last.phase {
            Phase::Ended => steps.extend(may_begin.then_some(Step::Attempt { client })),
            Phase::Acquiring => {
                steps.push(Step::Cancel { client });
                steps.extend((own.lapsed == 0).then_some(Step::Lapse { client }));
            }
            Phase::Held => {
                steps.push(Step::Release { client });
                steps.extend((is_valid && may_extend).then_some(Step::Extend { client }));
                steps.extend((is_valid && own.lapsed <= last.extensions).then_some(Step::Lapse { client }));
            }
        }
        let may_end = |message: &Message| {
            usize::from(message.client) == index && message.is_open() && message.call != Call::Cleanup
        };
        let is_running = (0..NODES).any(|node| {
            let mut messages = self.nodes[node].messages.iter().filter(|message| may_end(message));
            messages.any(|message| !self.is_spent(index, message.attempt.into(), node))
        });
        if self.scope.kinds.interruption && is_running {
            steps.push(Step::Interrupt { client });
        }
        for node in 0..NODES {
            if self.scope.transport == Transport::Streams && self.is_connection_used(index, node) {
                steps.push(Step::Break { client, node: byte(node) });
            }
        }
    }

    fn steps_with(&self, node: usize, position: usize, steps: &mut Vec<Step>) {
        let message = &self.nodes[node].messages[position];
        let (node, request) = (byte(node), byte(position));
        let at_once = self.is_received_at_once(message);
        let votes = !message.is_release() && !matches!(message.request, Request::Refill(..));
        match message.flight {
            Flight::Sent => {
                steps.push(Step::Carry { node, request });
                let is_of_reader = matches!(message.request, Request::AcquireShared(..));
                steps.extend(is_of_reader.then_some(Step::Deny { node, request }));
                if at_once {
                    steps.push(Step::CarryWithoutReply { node, request });
                }
                let datagrams = self.scope.transport == Transport::Datagrams;
                if datagrams && message.is_write() && self.scope.keys == Keys::Timed {
                    steps.push(Step::CarryTwice { node, request });
                    steps.extend(is_of_reader.then_some(Step::DenyTwice { node, request }));
                }
                if self.scope.keys == Keys::Forgotten {
                    if self.may_reply_falsely(node.into(), message) {
                        steps.push(Step::FalseReply { node, request });
                    }
                    return;
                }
                // A release that is lost before it is carried out is sent again, which equals one that stays in flight.
                if !message.is_release() {
                    steps.push(Step::Fail { node, request });
                }
                if self.scope.kinds.refusal && message.is_write() {
                    steps.push(Step::Refuse { node, request });
                }
            }
            Flight::Replied(_) => {
                steps.push(Step::Reply { node, request });
                if self.scope.kinds.quarantine && votes {
                    steps.push(Step::ReplyUncounted { node, request });
                }
                steps.push(Step::Fail { node, request });
            }
            Flight::Late { .. } => steps.push(Step::Carry { node, request }),
        }
    }

    /// Returns true if a node would grant this acquire, and no other node replies falsely.
    fn may_reply_falsely(&self, node: usize, message: &Message) -> bool {
        let is_other = |(other, on): (usize, &Node)| other != node && on.replies_falsely;
        let is_own = |key: &Key| message.is_of(key.client, key.attempt);
        matches!(message.request, Request::AcquireFenced(..))
            && self.nodes[node].keys.iter().all(is_own)
            && !self.nodes.iter().enumerate().any(is_other)
    }

    /// A key exists at least as long as the validity that it counts for. It was set after the start of the round, and
    /// the drift allowance compensates for the clocks. An ended lease has no validity left.
    fn may_expire(&self, key: Key) -> bool {
        let owner = &self.clients[usize::from(key.client)];
        self.scope.keys == Keys::Forgotten
            || self.variant == Variant::KeysExpireEarly
            || owner.attempts[usize::from(key.attempt)].phase == Phase::Ended
            || key.round < owner.lapsed
    }

    /// Returns true if it matters that a connection breaks: a call is open, or something is known to precede a release.
    fn is_connection_used(&self, index: usize, node: usize) -> bool {
        let own = &self.clients[index];
        let present = Some(ConnectionId(own.connections[node]));
        let uses = |message: &Message| {
            usize::from(message.client) == index
                && message.connection == present
                && !self.is_spent(index, message.attempt.into(), node)
        };
        let written = |attempt: &Attempt| {
            let writes = attempt.record.with(|state| state.peers[node].writes);
            writes.has_unsettled() && writes.write_connection() == present && attempt.phase != Phase::Ended
        };
        self.nodes[node].messages.iter().any(uses) || own.attempts.iter().any(written)
    }

    /// Returns true if nothing of an attempt can matter on a node any more: it has ended, has no key there, and no write
    /// in flight. What is left of its cleanup deletes nothing.
    pub(super) fn is_spent(&self, client: usize, number: usize, node: usize) -> bool {
        let attempt = &self.clients[client].attempts[number];
        let is_its = |owner: u8, of: u8| (usize::from(owner), usize::from(of)) == (client, number);
        let on = &self.nodes[node];
        attempt.phase == Phase::Ended
            && attempt.acquire.as_ref().is_none_or(|run| !run.is_open || !run.is_awaited)
            && attempt.release.as_ref().is_none_or(|run| !run.is_open)
            && !on.keys.iter().any(|key| is_its(key.client, key.attempt))
            && !on.messages.iter().any(|message| {
                is_its(message.client, message.attempt) && message.is_write() && message.is_to_come()
            })
    }
}

/// Returns true if a client may rely on its lease.
pub(super) fn is_valid(client: &Client, attempt: &Attempt) -> bool {
    attempt.phase == Phase::Held && !attempt.record.remaining(client.now()).is_zero()
}

/// Converts a number that is small by the bounds of a scope.
fn byte(number: usize) -> u8 {
    u8::try_from(number).expect("the scope is small")
}
