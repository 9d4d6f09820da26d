//! The effects of steps.

use std::mem;
use std::sync::Arc;

use crate::node::{ConnectionId, Denial, NodeError};
use crate::round::exploration::engine::Ended;
use crate::round::exploration::node::{FAR, Key, Node};
use crate::round::exploration::scope::{Keys, NODES};
use crate::round::exploration::step::Step;
use crate::round::exploration::world::{
    Attempt, Call, Extending, Flight, Message, NODE_TIMEOUT, Phase, Replies, Run, World, ttl,
};
use crate::round::extend::{Extend, Extension};
use crate::round::outcome::outcome;
use crate::round::release::Release;
use crate::round::{Io, Round, extend};
use crate::types::fencing_token::FencingToken;
use crate::types::lease_state::Loss;
use crate::types::quarantine::{Quarantine, QuarantineReason};
use crate::types::report::{Outcome, ReleaseOutcome};
use crate::types::token::Token;

impl World {
    pub(super) fn apply(&mut self, step: Step) {
        self.faults += u8::from(self.is_fault(step));
        match step {
            Step::Attempt { client } => self.begin(client),
            Step::Cancel { client } => self.cancel(client),
            Step::Extend { client } => self.extend(client),
            Step::Release { client } => self.release(client),
            Step::Lapse { client } => self.lapse(client),
            Step::Interrupt { client } => self.interrupt(client),
            Step::Carry { node, request } => {
                let (node, request) = (usize::from(node), usize::from(request));
                let at_once = self.is_received_at_once(&self.nodes[node].messages[request]);
                if let Some(position) = self.deliver(node, request) {
                    if at_once {
                        self.receive(node, position, |outcome| outcome);
                    }
                }
            }
            Step::CarryWithoutReply { node, request } => {
                let node = usize::from(node);
                let delivered = self.deliver(node, request.into());
                match self.scope.keys {
                    Keys::Timed => delivered.into_iter().for_each(|position| self.fail(node, position)),
                    // No step depends on the end of the call, which may stay open forever.
                    Keys::Forgotten => {
                        if let Some(position) = delivered {
                            drop(self.nodes[node].messages.remove(position));
                        }
                    }
                }
            }
            Step::CarryTwice { node, request } => {
                self.copy(node.into(), request.into());
                self.deliver(node.into(), request.into());
            }
            Step::FalseReply { node, request } => {
                let node = usize::from(node);
                self.nodes[node].replies_falsely = true;
                let position = self.deliver(node, request.into()).expect("the call is open");
                self.receive(node, position, |outcome| match outcome {
                    Outcome::GrantedFenced(_) => {
                        Outcome::GrantedFenced(FencingToken::new(FAR).expect("it is small"))
                    }
                    outcome => outcome,
                });
            }
            Step::Deny { node, request } => self.deny(node.into(), request.into()),
            Step::DenyTwice { node, request } => {
                self.copy(node.into(), request.into());
                self.deny(node.into(), request.into());
            }
            Step::Raise { node } => self.nodes[usize::from(node)].counter += 1,
            Step::Reply { node, request } => self.receive(node.into(), request.into(), |outcome| outcome),
            Step::ReplyUncounted { node, request } => {
                self.receive(node.into(), request.into(), |outcome| uncounted(&outcome));
            }
            Step::Fail { node, request } => self.fail(node.into(), request.into()),
            Step::Refuse { node, request } => {
                let (node, message) =
                    (usize::from(node), self.nodes[usize::from(node)].messages.remove(request.into()));
                let outcome = Outcome::Failed(NodeError::unavailable("refused"));
                self.hear((message.client, message.attempt), vec![Ended { node, message, outcome }]);
            }
            Step::Break { client, node } => self.disconnect(client, node.into()),
            Step::Expire { node, key } => self.nodes[usize::from(node)].expire(key.into(), self.variant),
        }
    }

    fn begin(&mut self, client: u8) {
        let floor = self.tokens.iter().copied().max().unwrap_or(0);
        let number = self.clients[usize::from(client)].attempts.len();
        let attempt = Attempt::new(self, client, number, floor);
        let own = &mut self.clients[usize::from(client)];
        own.attempts.push(attempt);
        own.lapsed = 0;
        let of = (client, own.last());
        let mut run = self.attempt(of.0, of.1).acquire.take().expect("the attempt is new");
        let mut io = Io::default();
        run.round.start(&mut io);
        self.carry_out(of, &mut run, io, Call::Acquire);
        run.round.all_sent();
        self.attempt(of.0, of.1).acquire = Some(run);
    }

    fn cancel(&mut self, client: u8) {
        let (of, now) = ((client, self.clients[usize::from(client)].last()), self.now(client));
        let mut run = self.attempt(of.0, of.1).acquire.take().expect("the attempt is in progress");
        let mut io = Io::default();
        run.round.abandon(now, &mut io);
        run.is_awaited = false;
        self.attempt(of.0, of.1).phase = Phase::Ended;
        self.carry_out(of, &mut run, io, Call::Acquire);
        self.put_back(of, run, |call| matches!(call, Call::Acquire(_)), |attempt| &mut attempt.acquire);
    }

    fn extend(&mut self, client: u8) {
        let (of, floor) = (
            (client, self.clients[usize::from(client)].last()),
            self.tokens.iter().copied().max().unwrap_or(0),
        );
        let attempt = self.attempt(of.0, of.1);
        attempt.extensions += 1;
        let (number, record) = (attempt.extensions, Arc::clone(&attempt.record));
        let extension = Extension { ttl: ttl(), limit: NODE_TIMEOUT, not_beyond: None };
        let start = super::world::start_of(of.1.into(), number);
        let run = Run::new(Extend::new(self.rules(), record, extension, start), self);
        let mut extending = Extending { number, run, replies: Replies::default(), floor };
        let mut io = Io::default();
        extending.run.round.start(&mut io);
        self.carry_out_extension(of, &mut extending, io);
        extending.run.round.all_sent();
        self.attempt(of.0, of.1).extending.push(extending);
    }

    fn release(&mut self, client: u8) {
        let (of, now) = ((client, self.clients[usize::from(client)].last()), self.now(client));
        let lapsed = self.clients[usize::from(client)].lapsed;
        let attempt = self.attempt(of.0, of.1);
        attempt.phase = Phase::Ended;
        attempt.replies = Replies::default();
        attempt.at_release = Some(match attempt.record.ended() {
            Some(Loss::Revoked { .. }) => ReleaseOutcome::AlreadyLost,
            _ if attempt.deadline >= lapsed => ReleaseOutcome::Released,
            _ => ReleaseOutcome::AlreadyExpired,
        });
        let record = Arc::clone(&attempt.record);
        let mut run = Run::new(Release::new(self.rules(), record, now), self);
        let mut io = Io::default();
        run.round.start(&mut io);
        self.carry_out(of, &mut run, io, |()| Call::Release);
        run.round.all_sent();
        self.attempt(of.0, of.1).release = Some(run);
        self.drop_unwanted(of);
    }

    /// The clock of the client jumps, as after a pause. The client checks once more for replies that have arrived.
    fn lapse(&mut self, client: u8) {
        let own = &mut self.clients[usize::from(client)];
        let (of, round) = ((client, own.last()), own.lapsed);
        own.lapsed += 1;
        let is_its = |call: Call| match call {
            Call::Acquire(lane) => round == 0 && lane != crate::round::acquire::Lane::Release,
            Call::Extend(number, _) => number == round,
            Call::Release | Call::Cleanup => false,
        };
        let ended = self.end_calls(of, is_its, true);
        self.hear(of, ended);
    }

    /// Ends the open calls that match, in the order of the nodes.
    fn end_calls(&mut self, of: (u8, u8), is_its: impl Fn(Call) -> bool, with_replies: bool) -> Vec<Ended> {
        let mut all = Vec::new();
        for node in 0..NODES {
            for position in (0..self.nodes[node].messages.len()).rev() {
                let message = &self.nodes[node].messages[position];
                if !message.is_of(of.0, of.1) || !message.is_open() || !is_its(message.call) {
                    continue;
                }
                let outcome = match &message.flight {
                    Flight::Replied(outcome) if with_replies => outcome.clone(),
                    _ => Outcome::TimedOut,
                };
                let message = self.end_call(node, position);
                all.push(Ended { node, message, outcome });
            }
        }
        all
    }

    /// The runtime of a client ends, which drops its rounds and their calls.
    fn interrupt(&mut self, client: u8) {
        let now = self.now(client);
        for number in 0..=self.clients[usize::from(client)].last() {
            let of = (client, number);
            self.end_calls(of, |call| call != Call::Cleanup, false);
            let attempt = self.attempt(of.0, of.1);
            let (acquire, extending, release) =
                (attempt.acquire.take(), mem::take(&mut attempt.extending), attempt.release.take());
            let mut cleanups = Vec::new();
            if let Some(mut run) = acquire {
                let mut io = Io::default();
                if run.is_open && run.is_awaited {
                    run.round.abandon(now, &mut io);
                    self.attempt(of.0, of.1).phase = Phase::Ended;
                }
                run.round.interrupt(now, &mut io);
                cleanups.extend(mem::take(&mut io.cleanups));
            }
            for Extending { mut run, .. } in extending {
                let mut io: Io<extend::Lane> = Io::default();
                run.round.interrupt(now, &mut io);
                cleanups.extend(mem::take(&mut io.cleanups));
            }
            if let Some(mut run) = release {
                let mut io: Io<()> = Io::default();
                run.round.interrupt(now, &mut io);
                cleanups.extend(mem::take(&mut io.cleanups));
            }
            for cleanup in cleanups {
                self.clean_up(of, cleanup, None);
            }
        }
    }

    /// Returns true if only the cleanup on this node depends on the arrival of the reply.
    ///
    /// Then a later arrival need not be explored, since the next release can be carried out at any later time. Where keys
    /// may vanish, a request can be carried out at any time, and so its reply arrives at once or never.
    pub(super) fn is_received_at_once(&self, message: &Message) -> bool {
        let attempt = &self.clients[usize::from(message.client)].attempts[usize::from(message.attempt)];
        self.scope.keys == Keys::Forgotten
            || message.is_release()
            || attempt.phase == Phase::Ended && matches!(message.call, Call::Acquire(_))
    }

    /// A second copy of a request is in flight.
    fn copy(&mut self, node: usize, position: usize) {
        let copy = self.nodes[node].messages[position].fork();
        let flight = Flight::Late { is_before_release: false };
        self.nodes[node].messages.push(Message { flight, is_copy: true, ..copy });
    }

    /// A node denies a reader, because a writer has locked the gate.
    fn deny(&mut self, node: usize, position: usize) {
        let message = &mut self.nodes[node].messages[position];
        message.flight = Flight::Replied(Outcome::Denied(Denial::by(Token::from_bytes("the writer"))));
        if self.is_received_at_once(&self.nodes[node].messages[position]) {
            self.receive(node, position, |outcome| outcome);
        }
    }

    /// Carries a request out. Returns the position of its message, if its call is open.
    fn deliver(&mut self, node: usize, position: usize) -> Option<usize> {
        let position = self.settle_order(node, position);
        let Self { scope, nodes, clients, variant, seen, .. } = self;
        let message = &nodes[node].messages[position];
        let (client, attempt) = (message.client, message.attempt);
        let is_ended = clients[usize::from(client)].attempts[usize::from(attempt)].phase == Phase::Ended;
        let round = match message.call {
            Call::Extend(number, _) if !is_ended => number,
            _ => 0,
        };
        let reads = scope.readers[usize::from(client)];
        let own = Key { client, attempt, round, by_copy: message.is_copy, reads };
        let (request, is_open) = (message.request.clone(), message.is_open());
        let is_other = |key: &&Key| (key.client, key.attempt) != (client, attempt);
        let others = |node: &Node| node.keys.iter().filter(is_other).count();
        let before = others(&nodes[node]);
        let replied = outcome(nodes[node].apply(&request, own, *variant), &request);
        seen.trespassed |= others(&nodes[node]) < before;
        if is_open {
            nodes[node].messages[position].flight = Flight::Replied(replied);
            Some(position)
        } else {
            nodes[node].messages.remove(position);
            None
        }
    }

    /// Removes the writes that can no longer be carried out once a release is.
    ///
    /// - A release over the connection of a write whose call had ended follows it.
    /// - Everything that was sent before the reply to the first release has been carried out before a second one a node
    ///   timeout later, or never is. A call is not polled any more by then.
    ///
    /// Returns the position of the release.
    fn settle_order(&mut self, node: usize, position: usize) -> usize {
        let release = &self.nodes[node].messages[position];
        if !release.is_release() {
            return position;
        }
        let (of, connection) = ((release.client, release.attempt), release.connection);
        let is_second = release.first_reply.is_some_and(|first| release.sent >= first + NODE_TIMEOUT);
        let mut ended = Vec::new();
        let mut position = position;
        for at in (0..self.nodes[node].messages.len()).rev() {
            let message = &self.nodes[node].messages[at];
            let passed = match message.flight {
                Flight::Late { is_before_release } => {
                    is_second || is_before_release && message.connection == connection
                }
                Flight::Sent => is_second,
                Flight::Replied(_) => false,
            };
            if message.is_of(of.0, of.1) && message.is_write() && !message.is_copy && passed {
                let is_open = message.is_open();
                let message = self.nodes[node].messages.remove(at);
                position -= usize::from(at < position);
                if is_open {
                    ended.push(Ended { node, message, outcome: Outcome::TimedOut });
                }
            }
        }
        let length = self.nodes[node].messages.len();
        for one in ended {
            self.hear(of, vec![one]);
        }
        assert!(self.nodes[node].messages.len() >= length, "only writes end here");
        position
    }

    /// A reply arrives.
    fn receive(&mut self, node: usize, position: usize, change: impl Fn(Outcome) -> Outcome) {
        let mut message = self.nodes[node].messages.remove(position);
        let Flight::Replied(outcome) = mem::replace(&mut message.flight, Flight::Sent) else {
            panic!("a reply that arrives was sent")
        };
        let outcome = change(outcome);
        self.hear((message.client, message.attempt), vec![Ended { node, message, outcome }]);
    }

    /// A call ends without its reply.
    fn fail(&mut self, node: usize, position: usize) {
        let message = self.end_call(node, position);
        let outcome = Outcome::TimedOut;
        self.hear((message.client, message.attempt), vec![Ended { node, message, outcome }]);
    }

    fn disconnect(&mut self, client: u8, node: usize) {
        let number = &mut self.clients[usize::from(client)].connections[node];
        let broken = Some(ConnectionId(*number));
        *number += 1;
        let is_on =
            |message: &Message| message.client == client && message.connection == broken && message.is_open();
        while let Some(position) = self.nodes[node].messages.iter().position(is_on) {
            self.fail(node, position);
        }
    }
}

/// Returns the outcome of a reply that does not count, because its node is in quarantine.
fn uncounted(outcome: &Outcome) -> Outcome {
    let granted = matches!(outcome, Outcome::Granted | Outcome::GrantedFenced(_));
    Outcome::Quarantined { granted, quarantine: Quarantine::new(QuarantineReason::Recent) }
}
