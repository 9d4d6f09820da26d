//! One trace of the model, step by step through the real core.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redlock_core::{NodeError, Vote};
use redlock_model::{Asks, CLIENTS, Flight, NODES, Protocol, Request, State, Step, Transport};

use super::node::{Call, Operation, Script, locked};
use super::program::{NODE_TIMEOUT, Program, TTL};

pub(crate) struct Replay {
    protocol: Protocol,
    pub(crate) state: State,
    script: Arc<Mutex<Script>>,
    pub(crate) clients: [Client; CLIENTS],
}

pub(crate) struct Client {
    pub(crate) program: Program,
    /// What the nodes have said to the last attempt.
    pub(crate) votes: [Ballot; NODES],
    /// Lost, and whether it was too late: what core is to report, once the votes tell why.
    pub(crate) lost: Option<bool>,
    /// Whether the lease was valid when it was released.
    pub(crate) was_valid: bool,
    /// Whether a key of it has expired since: then the model lets keys expire early.
    pub(crate) has_expired: bool,
}

/// What a node has said to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ballot {
    Pending,
    Answered,
    Failed,
}

/// Rounds begin so far apart that one lease lapses, half a second before its validity does, and its calls reach their time
/// limits, before the next lease lapses.
const ROUNDS_APART: Duration = Duration::from_secs(1);

/// Within this, core sends a release that it owes: it may wait for another on the same node to time out, for the node
/// timeout between two releases, and for the delay after a failure.
const OWED_WITHIN: Duration = Duration::from_secs(3 * 100);

impl Replay {
    pub(crate) fn new(protocol: Protocol, seed: u64) -> Self {
        let connections = (protocol.scope.transport == Transport::Streams).then_some([[0; NODES]; CLIENTS]);
        let script = Script { calls: Vec::new(), keys: [const { None }; NODES], connections };
        let script = Arc::new(Mutex::new(script));
        let client = |number: usize| {
            let program = Program::new(number, seed + number as u64, &script);
            Client {
                program,
                votes: [Ballot::Pending; NODES],
                lost: None,
                was_valid: false,
                has_expired: false,
            }
        };
        let clients = [client(0), client(1)];
        Self { protocol, state: State::default(), script, clients }
    }

    /// Whether there are times at which this can happen next: a clock must pass no limit of a call that stays open.
    pub(crate) fn is_realisable(&self, step: Step) -> bool {
        match step {
            Step::Lapse { client } => {
                let (program, lapsed) = (&self.clients[client].program, self.state.lapsed(client));
                let mut until = program.rounds[lapsed] + TTL;
                if self.open(client).any(|(request, _)| self.ends_by_lapse(request)) {
                    // A pause does not count for a time limit.
                    until = until + NODE_TIMEOUT;
                }
                let later = &program.rounds[lapsed + 1..];
                later.iter().all(|begun| *begun + TTL > until)
                    && self
                        .open(client)
                        .all(|(request, begun)| self.ends_by_lapse(request) || begun + NODE_TIMEOUT > until)
            }
            Step::Carry(request) | Step::CarryUnanswered(request) if self.must_wait(request) => {
                let until = self.clients[request.client].program.now() + OWED_WITHIN;
                let client = &self.clients[request.client];
                let lapses = client.program.rounds.iter().any(|begun| {
                    let ends = *begun + TTL;
                    client.program.now() < ends && ends - ROUNDS_APART <= until
                });
                !lapses && self.open(request.client).all(|(_, begun)| begun + NODE_TIMEOUT > until)
            }
            _ => true,
        }
    }

    /// Whether this call of an attempt times out when the attempt's validity has passed.
    fn ends_by_lapse(&self, request: Request) -> bool {
        let Request { client, attempt, asks, .. } = request;
        asks == Asks::Acquire && self.state.lapsed(client) == 0 && !self.state.has_ended(client, attempt)
    }

    /// Does it, and looks whether core and model agree.
    pub(crate) fn perform(&mut self, step: Step, late: bool) {
        let mut events = Vec::new();
        let next = self.protocol.apply(&self.state, step, &mut |event| events.push(event));
        self.enact(step, &next, late);
        self.state = next;
        for client in &mut self.clients {
            client.program.settle();
        }
        self.note_calls();
        for event in events {
            self.hear(event);
        }
        self.compare();
    }

    fn enact(&mut self, step: Step, next: &State, late: bool) {
        match step {
            Step::Ask { client } => {
                self.clients[client].votes = [Ballot::Pending; NODES];
                self.clients[client].lost = None;
                self.clients[client].program.ask();
            }
            Step::Cancel { client } => self.clients[client].program.cancel(),
            Step::Extend { client } => {
                // Rounds that begin at different times end at different times; and what is late leaves no time for the
                // calls of an extension to end before the validity does.
                let program = &mut self.clients[client].program;
                if program.rounds.last() == Some(&program.now()) {
                    program.wait(ROUNDS_APART);
                }
                let guard = program.guard.as_ref().expect("a lease is extended");
                let soon = guard.remaining().saturating_sub(NODE_TIMEOUT / 2);
                if late && self.open(client).next().is_none() {
                    self.clients[client].program.wait(soon);
                }
                self.clients[client].program.extend();
            }
            Step::Release { client } => {
                self.clients[client].was_valid = self.state.is_valid(client);
                self.clients[client].has_expired = false;
                self.clients[client].program.release();
                self.answer_abandoned(client);
            }
            Step::Lapse { client } => self.lapse(client),
            Step::Carry(request) | Step::CarryTwice(request) => self.carry(request, next),
            Step::CarryUnanswered(request) => {
                self.send(request);
                self.carry_out(request);
                self.end(request, Err(NodeError::unknown("lost")));
            }
            Step::CarryCopy(request) => drop(self.carry_out(request)),
            Step::Answer(request) => self.answer(request),
            Step::Fail(request) => self.end(request, Err(NodeError::unknown("lost"))),
            Step::Break { client, node } => {
                let mut script = self.script();
                let connections = script.connections.as_mut().expect("streams have connections");
                connections[client][node] += 1;
                for call in script.calls.iter_mut().filter(|call| (call.client, call.node) == (client, node))
                {
                    call.end(Err(NodeError::unknown("the connection was lost")));
                }
            }
            Step::Expire { node } => {
                self.script().keys[node] = None;
                if let Some(key) = self.state.key_on(node) {
                    self.clients[usize::from(key.client)].has_expired = true;
                }
            }
            Step::GiveUp { .. } => unreachable!("the sound protocol gives nothing up"),
        }
    }

    /// The process is stopped until the validity has passed; then it finds the answers that have come meanwhile.
    fn lapse(&mut self, client: usize) {
        let lapsed = self.state.lapsed(client);
        let attempt = self.clients[client].program.tokens.len() - 1;
        for node in 0..NODES {
            let request = Request { client, attempt, node, asks: Asks::Acquire };
            if lapsed == 0 && self.state.flight(request).is_answered() {
                self.answer(request);
            }
        }
        let times_out = self.open(client).any(|(request, _)| self.ends_by_lapse(request));
        let program = &mut self.clients[client].program;
        program.stop_until(program.rounds[lapsed] + TTL);
        if times_out {
            program.wait(NODE_TIMEOUT);
        }
    }

    fn carry(&mut self, request: Request, next: &State) {
        self.send(request);
        let vote = self.carry_out(request);
        match next.flight(request) {
            Flight::Granted => assert_eq!(Vote::Granted, vote, "{request}"),
            Flight::Refused => assert_ne!(Vote::Granted, vote, "{request}"),
            // The model has dealt with the answer already, or nobody waits for it.
            _ => self.end(request, Ok(vote)),
        }
    }

    fn answer(&mut self, request: Request) {
        let vote = match self.state.flight(request) {
            Flight::Granted => Vote::Granted,
            _ => Vote::Denied(redlock_core::Denial::default()),
        };
        self.end(request, Ok(vote));
    }

    /// Carries out the extensions that nobody waits for any more. The model forgets them: nothing may follow.
    fn answer_abandoned(&mut self, client: usize) {
        let mut script = self.script();
        for number in 0..script.calls.len() {
            let call = &script.calls[number];
            if call.client == client && call.operation == Operation::Extend && call.is_open() {
                let (node, token) = (call.node, call.token.clone());
                let vote = script.carry_out(node, Operation::Extend, &token);
                script.calls[number].end(Ok(vote));
            }
        }
    }

    fn carry_out(&mut self, request: Request) -> Vote {
        let token = self.clients[request.client].program.tokens[request.attempt].clone();
        self.script().carry_out(request.node, operation(request.asks), &token)
    }

    fn end(&mut self, request: Request, answer: super::node::Answer) {
        let number = self.call(request, |call| call.number);
        if let Some(number) = number {
            self.script().calls[number].end(answer);
        }
    }

    /// A release that the model has under way and core has not sent yet.
    fn must_wait(&self, request: Request) -> bool {
        let owed = request.asks == Asks::Release && self.state.is_owed(request);
        owed && (self.call(request, |_| ()).is_none())
    }

    /// Gives core the time to send it.
    fn send(&mut self, request: Request) {
        if !self.must_wait(request) {
            return;
        }
        let until = self.clients[request.client].program.now() + OWED_WITHIN;
        while self.must_wait(request) {
            let program = &mut self.clients[request.client].program;
            assert!(program.now() < until, "core does not send {request} to n{}", request.node);
            program.wait(Duration::from_millis(500));
        }
    }

    /// The calls of core that the model has open, but for releases: those are repeated.
    fn open(&self, client: usize) -> impl Iterator<Item = (Request, redlock_core::Instant)> {
        let attempts = 0..self.clients[client].program.tokens.len();
        let requests = attempts.flat_map(move |attempt| {
            let asks = [Asks::Acquire, Asks::Extend, Asks::Refill(0), Asks::Refill(1)];
            asks.into_iter()
                .flat_map(move |asks| (0..NODES).map(move |node| Request { client, attempt, node, asks }))
        });
        let open = requests.filter_map(|request| {
            let begun = self.call(request, |call| call.begun)?;
            self.state.flight(request).is_open().then_some((request, begun))
        });
        open.collect::<Vec<_>>().into_iter()
    }

    /// The open call of core for a request of the model.
    pub(crate) fn call<T>(&self, request: Request, look: impl Fn(&Call) -> T) -> Option<T> {
        let script = self.script();
        let program = &self.clients[request.client].program;
        let token = program.tokens.get(request.attempt)?;
        let wanted = operation(request.asks);
        let mut calls = script.calls.iter().filter(|call| {
            (call.client, call.node, call.operation) == (request.client, request.node, wanted)
                && call.token == *token
        });
        let call = match request.asks {
            Asks::Acquire => calls.next(),
            // The first is the acquire.
            Asks::Refill(number) => calls.skip(1).find(|call| call.round == Some(number + 1)),
            Asks::Extend => calls.next_back(),
            Asks::Release => calls.find(|call| call.is_open()),
        };
        call.filter(|call| call.is_open()).map(look)
    }

    /// Which tokens there are, and after which round each call was made. What has ended begins no write.
    fn note_calls(&mut self) {
        let mut script = locked(&self.script);
        for call in script.calls.iter_mut().filter(|call| call.round.is_none()) {
            let program = &mut self.clients[call.client].program;
            call.round = Some(program.rounds.len() - 1);
            if !program.tokens.contains(&call.token) {
                program.tokens.push(call.token.clone());
            }
            let attempt = program.tokens.iter().position(|token| *token == call.token);
            let ended = attempt.is_some_and(|attempt| self.state.has_ended(call.client, attempt));
            assert!(!ended || call.operation != Operation::Acquire, "a write after the end: {call:?}");
        }
        drop(script);
        let [a, b] = self.clients.each_ref().map(|client| &client.program.tokens);
        assert!(a.iter().all(|token| !b.contains(token)), "a token of two clients");
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        locked(&self.script)
    }
}

fn operation(asks: Asks) -> Operation {
    match asks {
        Asks::Acquire | Asks::Refill(_) => Operation::Acquire,
        Asks::Extend => Operation::Extend,
        Asks::Release => Operation::Release,
    }
}
