//! What the engine does with a round, without its I/O.

use std::mem;
use std::sync::Arc;

use crate::node::ConnectionId;
use crate::round::acquire::{self, Acquire};
use crate::round::cleanup::Batch;
use crate::round::exploration::broken::{Broken, Explored};
use crate::round::exploration::scope::{Keys, NODES, QUORUM, Transport};
use crate::round::exploration::world::{
    Attempt, Call, Extending, Flight, Message, Phase, RELEASED, Replies, Run, World, start_of,
};
use crate::round::extend;
use crate::round::release::Release;
use crate::round::{Cleanup, Heard, Io, Round};
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::lease_state::Loss;
use crate::types::report::{Outcome, ReleaseOutcome};

/// A call that has ended, and its outcome.
pub(super) struct Ended {
    pub(super) node: usize,
    pub(super) message: Message,
    pub(super) outcome: Outcome,
}

impl<R: Explored> Run<R> {
    pub(super) fn new(round: R, world: &World) -> Self {
        Self { round: Broken::new(round, world.variant), is_open: true, is_awaited: true }
    }

    /// Asks for the result, as the engine does until there is one.
    fn ask(&mut self, now: Instant, io: &mut Io<R::Tag>) -> Option<R::Output> {
        let result = if self.is_open { self.round.result(now, io) } else { None };
        self.is_open &= result.is_none();
        result
    }

    /// Hears the ends of several calls, and returns the result.
    fn hear(&mut self, ended: Vec<(Ended, R::Tag)>, now: Instant, io: &mut Io<R::Tag>) -> Option<R::Output> {
        let mut result = None;
        for (Ended { node, message, outcome }, tag) in ended {
            let Message { connection, sent, .. } = message;
            let at = if message.is_release() { sent } else { now };
            self.round.heard(Heard { node, tag, outcome, connection, server: None, sent, at }, io);
            result = self.ask(now, io).or(result);
        }
        result
    }
}

impl World {
    pub(super) fn now(&self, client: u8) -> Instant {
        self.clients[usize::from(client)].now()
    }

    fn connection(&self, client: u8, node: usize) -> Option<ConnectionId> {
        match self.scope.transport {
            Transport::Streams => Some(ConnectionId(self.clients[usize::from(client)].connections[node])),
            Transport::Datagrams => None,
        }
    }

    /// Carries out what a round wants.
    pub(super) fn carry_out<R: Explored>(
        &mut self,
        (client, attempt): (u8, u8),
        run: &mut Run<R>,
        io: Io<R::Tag>,
        call: impl Fn(R::Tag) -> Call,
    ) {
        for (node, tag) in io.sends {
            let Some(request) = run.round.request(node, tag) else { continue };
            let connection = self.connection(client, node);
            run.round.sent(node, tag, connection);
            let mut message = Message {
                client,
                attempt,
                call: call(tag),
                request,
                flight: Flight::Sent,
                connection,
                sent: self.now(client),
                is_copy: false,
                first_reply: None,
                cleanup: None,
            };
            if message.is_release() {
                message.sent = RELEASED;
            }
            self.send(node, message);
        }
        for cleanup in io.cleanups {
            self.clean_up((client, attempt), cleanup, None);
        }
    }

    /// Begins a request.
    fn send(&mut self, node: usize, message: Message) {
        if message.is_release() {
            if self.scope.keys == Keys::Forgotten {
                return;
            }
            for other in &mut self.nodes[node].messages {
                let precedes = other.is_of(message.client, message.attempt)
                    && message.connection.is_some()
                    && other.connection == message.connection;
                if let Flight::Late { is_before_release } = &mut other.flight {
                    *is_before_release |= precedes;
                }
            }
        }
        self.nodes[node].messages.push(message);
    }

    /// Sends the next release of a claim. It may be carried out at any later time, so it is sent at once.
    pub(super) fn clean_up(
        &mut self,
        (client, attempt): (u8, u8),
        cleanup: Cleanup,
        first_reply: Option<Instant>,
    ) {
        let node = cleanup.node;
        let mut batch =
            Broken::new(Batch::new(vec![copy_of(&cleanup)], self.rules().node_timeout), self.variant);
        let mut io = Io::default();
        batch.start(&mut io);
        for (_, position) in io.sends {
            let message = Message {
                client,
                attempt,
                call: Call::Cleanup,
                request: batch.request(node, position).expect("an entry is released"),
                flight: Flight::Sent,
                connection: self.connection(client, node),
                // An entry that was never sent is due by the clock of its client.
                sent: if cleanup.due < start_of(0, 0) { cleanup.due } else { RELEASED },
                is_copy: false,
                first_reply,
                cleanup: Some(copy_of(&cleanup)),
            };
            self.send(node, message);
        }
    }

    /// Reports the ends of calls to their rounds. All of them are of one attempt and one round.
    pub(super) fn hear(&mut self, of: (u8, u8), ended: Vec<Ended>) {
        let Some(call) = ended.first().map(|ended| ended.message.call) else { return };
        match call {
            Call::Acquire(_) => self.hear_acquire(of, ended),
            Call::Extend(number, _) => self.hear_extend(of, number, ended),
            Call::Release => self.hear_release(of, ended),
            Call::Cleanup => ended.into_iter().for_each(|ended| self.hear_cleanup(of, ended)),
        }
    }

    fn hear_acquire(&mut self, of: (u8, u8), ended: Vec<Ended>) {
        let now = self.now(of.0);
        let Some(mut run) = self.attempt(of.0, of.1).acquire.take() else { return };
        if self.attempt(of.0, of.1).phase == Phase::Acquiring {
            for Ended { node, message, outcome } in &ended {
                if message.call != Call::Acquire(acquire::Lane::Release) {
                    self.attempt(of.0, of.1).replies.note(*node, outcome);
                }
            }
        }
        let first_reply = first_reply(&ended);
        let tagged = ended.into_iter().filter_map(|ended| match ended.message.call {
            Call::Acquire(lane) => Some((ended, lane)),
            _ => None,
        });
        let mut io = Io::default();
        let result = run.hear(tagged.collect(), now, &mut io);
        for cleanup in mem::take(&mut io.cleanups) {
            self.clean_up(of, cleanup, first_reply);
        }
        self.carry_out(of, &mut run, io, Call::Acquire);
        self.finish_acquire(of, run, result);
    }

    fn finish_acquire(
        &mut self,
        of: (u8, u8),
        run: Run<Acquire>,
        result: Option<<Acquire as Round>::Output>,
    ) {
        let now = self.now(of.0);
        match result {
            Some(Ok(record)) if run.is_awaited => {
                self.seen.revived |= record.remaining(now).is_zero();
                self.grant(of, &run);
            }
            Some(_) => self.attempt(of.0, of.1).phase = Phase::Ended,
            None => {}
        }
        self.put_back(of, run, |call| matches!(call, Call::Acquire(_)), |attempt| &mut attempt.acquire);
    }

    /// A client receives a lease.
    fn grant(&mut self, of: (u8, u8), run: &Run<Acquire>) {
        let token = run.round.inner.record.fencing_token().map(FencingToken::as_u64);
        let attempt = self.attempt(of.0, of.1);
        attempt.phase = Phase::Held;
        attempt.counted = match token {
            Some(token) => counting(attempt.replies.granted, run, token),
            None => attempt.replies.granted,
        };
        let (counted, floor) = (attempt.counted, attempt.floor);
        attempt.replies = Replies::default();
        self.seen.no_quorum |= counted.count_ones() < QUORUM;
        if let Some(token) = token {
            self.seen.same_token |= self.tokens.contains(&token);
            self.seen.decreasing |= token <= floor;
            self.tokens.push(token);
        }
    }

    /// Carries out what an extension wants.
    pub(super) fn carry_out_extension(
        &mut self,
        of: (u8, u8),
        extending: &mut Extending,
        io: Io<extend::Lane>,
    ) {
        let Extending { number, run, replies, .. } = extending;
        let refills = io.sends.iter().any(|(_, lane)| *lane == extend::Lane::Refill);
        self.seen.early_refill |= refills && replies.granted.count_ones() < QUORUM;
        self.carry_out(of, run, io, |lane| Call::Extend(*number, lane));
    }

    fn hear_extend(&mut self, of: (u8, u8), number: u8, ended: Vec<Ended>) {
        let now = self.now(of.0);
        let Some(mut extending) = self.take_extension(of, number) else { return };
        for Ended { node, message, outcome } in &ended {
            if let Call::Extend(_, extend::Lane::Extend) = message.call {
                extending.replies.note(*node, outcome);
            }
        }
        let tagged = ended.into_iter().filter_map(|ended| match ended.message.call {
            Call::Extend(_, lane) => Some((ended, lane)),
            _ => None,
        });
        let mut io = Io::default();
        let record = Arc::clone(&self.attempt(of.0, of.1).record);
        let (was_valid, was_ended) = (!record.remaining(now).is_zero(), record.ended().is_some());
        let result = extending.run.hear(tagged.collect(), now, &mut io);
        self.carry_out_extension(of, &mut extending, io);
        let loss = record.ended().filter(|_| !was_ended);
        if matches!(loss, Some(Loss::Revoked { .. })) {
            self.seen.wrong_loss |= extending.replies.denied.count_ones() < QUORUM;
        }
        if let Some(Ok(())) = result {
            self.extended(of, &extending, was_valid);
        }
        self.put_back_extension(of, extending);
        if loss.is_some() {
            self.drop_unwanted(of);
        }
    }

    /// An extension has succeeded.
    fn extended(&mut self, of: (u8, u8), extending: &Extending, was_valid: bool) {
        let Extending { number, ref run, replies, floor } = *extending;
        let newest = self.tokens.iter().copied().max();
        let token = run.round.inner.record.fencing_token().map(FencingToken::as_u64);
        self.seen.no_quorum |= replies.granted.count_ones() < QUORUM;
        self.seen.revived |= self.scope.keys == Keys::Timed && !was_valid;
        self.seen.late_extension |= token.is_some_and(|token| floor > token && newest > Some(token));
        let attempt = self.attempt(of.0, of.1);
        if number > attempt.deadline {
            (attempt.counted, attempt.deadline) = (replies.granted, number);
        }
    }

    /// Handles the end of a lease in its extensions: calls that are not wanted any more are dropped.
    pub(super) fn drop_unwanted(&mut self, of: (u8, u8)) {
        let now = self.now(of.0);
        for number in 1..=self.attempt(of.0, of.1).extensions {
            let Some(mut extending) = self.take_extension(of, number) else { continue };
            for node in 0..NODES {
                for position in (0..self.nodes[node].messages.len()).rev() {
                    let message = &self.nodes[node].messages[position];
                    let Call::Extend(of_number, lane) = message.call else { continue };
                    let is_its = of_number == number && message.is_of(of.0, of.1) && message.is_open();
                    if is_its && !extending.run.round.is_wanted(lane) {
                        self.end_call(node, position);
                    }
                }
            }
            if !self.has_calls(of, is_of_extension(number)) {
                let mut io = Io::default();
                extending.run.ask(now, &mut io);
                self.carry_out_extension(of, &mut extending, io);
            }
            self.put_back_extension(of, extending);
        }
    }

    fn take_extension(&mut self, of: (u8, u8), number: u8) -> Option<Extending> {
        let extending = &mut self.attempt(of.0, of.1).extending;
        let position = extending.iter().position(|extending| extending.number == number)?;
        Some(extending.remove(position))
    }

    /// Keeps an extension until none of its calls is left.
    fn put_back_extension(&mut self, of: (u8, u8), extending: Extending) {
        if self.is_left(of, &extending.run, is_of_extension(extending.number)) {
            let all = &mut self.attempt(of.0, of.1).extending;
            all.push(extending);
            all.sort_by_key(|extending| extending.number);
        }
    }

    fn hear_release(&mut self, of: (u8, u8), ended: Vec<Ended>) {
        let now = self.now(of.0);
        let Some(mut run) = self.attempt(of.0, of.1).release.take() else { return };
        for Ended { node, outcome, .. } in &ended {
            self.attempt(of.0, of.1).replies.note(*node, outcome);
        }
        let first_reply = first_reply(&ended);
        let mut io = Io::default();
        let result = run.hear(ended.into_iter().map(|ended| (ended, ())).collect(), now, &mut io);
        for cleanup in mem::take(&mut io.cleanups) {
            self.clean_up(of, cleanup, first_reply);
        }
        self.carry_out(of, &mut run, io, |()| Call::Release);
        self.finish_release(of, run, result);
    }

    fn finish_release(
        &mut self,
        of: (u8, u8),
        run: Run<Release>,
        result: Option<<Release as Round>::Output>,
    ) {
        let attempt = self.attempt(of.0, of.1);
        let Replies { granted, denied, failed } = attempt.replies;
        let (replied, denied) = ((granted | denied).count_ones() >= QUORUM, denied.count_ones() >= QUORUM);
        let expected = match attempt.at_release {
            Some(ReleaseOutcome::Released) if denied => Some(ReleaseOutcome::AlreadyLost),
            before => before,
        };
        self.seen.wrong_release |= match result {
            Some(Ok(outcome)) => Some(outcome) != expected || !replied,
            Some(Err(_)) => (failed.count_ones() + QUORUM) as usize <= NODES,
            None => false,
        };
        self.put_back(of, run, |call| matches!(call, Call::Release), |attempt| &mut attempt.release);
    }

    fn hear_cleanup(&mut self, of: (u8, u8), ended: Ended) {
        let Ended { node, mut message, outcome } = ended;
        let (connection, sent) = (message.connection, message.sent);
        let entry = message.cleanup.take().expect("an entry is released");
        let replied = matches!(outcome, Outcome::Released | Outcome::NotHeld);
        let first_reply = message.first_reply.or(replied.then_some(sent));
        let mut batch = Broken::new(Batch::new(vec![entry], self.rules().node_timeout), self.variant);
        let mut io = Io::default();
        batch.heard(Heard { node, tag: 0, outcome, connection, server: None, sent, at: sent }, &mut io);
        self.seen.no_result |= batch.result(sent, &mut io).is_none();
        for cleanup in io.cleanups {
            self.clean_up(of, cleanup, first_reply);
        }
    }

    /// Keeps a round until none of its calls is left.
    pub(super) fn put_back<R>(
        &mut self,
        of: (u8, u8),
        run: Run<R>,
        is_its: impl Fn(Call) -> bool,
        place: impl Fn(&mut Attempt) -> &mut Option<Run<R>>,
    ) {
        if self.is_left(of, &run, is_its) {
            *place(self.attempt(of.0, of.1)) = Some(run);
        }
    }

    /// Returns whether a round has calls left. Without them, it has a result.
    fn is_left<R>(&mut self, of: (u8, u8), run: &Run<R>, is_its: impl Fn(Call) -> bool) -> bool {
        let is_left = self.has_calls(of, is_its);
        let forgotten = self.scope.keys == Keys::Forgotten;
        self.seen.no_result |= !is_left && run.is_open && run.is_awaited && !forgotten;
        is_left
    }

    fn has_calls(&self, of: (u8, u8), is_its: impl Fn(Call) -> bool) -> bool {
        let mut messages = self.nodes.iter().flat_map(|node| &node.messages);
        messages.any(|message| message.is_of(of.0, of.1) && message.is_open() && is_its(message.call))
    }

    /// Ends a call without its reply. What was sent may still be carried out.
    ///
    /// Some requests have no effect that matters later. A release only deletes a key that may expire at any moment. An
    /// extension only prolongs the life of a key, and a key that lives longer has fewer possible futures.
    pub(super) fn end_call(&mut self, node: usize, position: usize) -> Message {
        let timed = self.scope.keys == Keys::Timed;
        let messages = &mut self.nodes[node].messages;
        let message = &mut messages[position];
        let matters = message.is_to_come() && (message.is_write() || !timed && !message.is_release());
        if matters {
            message.flight = Flight::Late { is_before_release: false };
            message.fork()
        } else {
            messages.remove(position)
        }
    }
}

impl Replies {
    /// Records a vote, apart from the round.
    fn note(&mut self, node: usize, outcome: &Outcome) {
        let bits = match outcome {
            Outcome::Granted | Outcome::GrantedFenced(_) | Outcome::Released => &mut self.granted,
            Outcome::Denied(_) | Outcome::NotHeld => &mut self.denied,
            _ => &mut self.failed,
        };
        *bits |= 1 << node;
    }
}

fn is_of_extension(number: u8) -> impl Fn(Call) -> bool {
    move |call| matches!(call, Call::Extend(of_number, _) if of_number == number)
}

/// Returns the nodes that count for a token: by their counter, or by a confirmation.
fn counting(granted: u8, run: &Run<Acquire>, token: u64) -> u8 {
    let acquire = &run.round.inner;
    let counts = |node: &usize| {
        let by_counter = acquire.record.with(|state| {
            let votes = state.votes.as_ref();
            votes.is_some_and(|votes| {
                matches!(votes.outcome(*node), Outcome::GrantedFenced(counter) if counter.as_u64() == token)
            })
        });
        let confirmed = acquire.confirmations.as_ref();
        by_counter || confirmed.is_some_and(|votes| matches!(votes.outcome(*node), Outcome::Granted))
    };
    (0..NODES).filter(counts).fold(0, |bits, node| bits | 1 << node) & granted
}

fn copy_of(cleanup: &Cleanup) -> Cleanup {
    Cleanup { node: cleanup.node, due: cleanup.due, claim: cleanup.claim.clone(), release: cleanup.release }
}

/// Returns the time of the reply to a release, if there is one.
fn first_reply(ended: &[Ended]) -> Option<Instant> {
    let is_reply = |ended: &&Ended| matches!(ended.outcome, Outcome::Released | Outcome::NotHeld);
    ended.iter().find(is_reply).map(|ended| ended.message.sent)
}
