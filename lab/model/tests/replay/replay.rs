//! Carries out one trace of the model with the real core, step by step.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redlock_core::node::{NodeError, Reply};
use redlock_model::{CLIENTS, Flight, NODES, Protocol, Request, RequestKind, State, Step, Transport};

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
    /// The replies of the nodes to the last attempt.
    pub(crate) votes: [NodeVote; NODES],
    /// `Some` if the attempt has failed, with true if it was too late. The core reports the cause once the replies
    /// decide it.
    pub(crate) lost: Option<bool>,
    /// True if the lease was valid when it was released.
    pub(crate) was_valid: bool,
    /// True if a key of the lease has expired since. The model lets keys expire early in this case.
    pub(crate) has_expired: bool,
}

/// The reply of a node to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeVote {
    Pending,
    Replied,
    Failed,
}

/// The distance between the starts of rounds. It is large enough for one lease to lapse, and for its calls to time out,
/// before the next lease lapses. A lease lapses half a second before its validity ends.
const ROUNDS_APART: Duration = Duration::from_secs(1);

/// The time within which the core sends a pending release. The release may wait for another one on the same node to
/// time out. The node timeout between two releases, and the delay after a failure, add to that.
const SENT_WITHIN: Duration = Duration::from_secs(3 * 100);

impl Replay {
    pub(crate) fn new(protocol: Protocol, seed: u64) -> Self {
        let connections = (protocol.scope.transport == Transport::Streams).then_some([[0; NODES]; CLIENTS]);
        let keys = [const { None }; NODES];
        let script = Script { calls: Vec::new(), keys, connections, quarantined: None };
        let script = Arc::new(Mutex::new(script));
        let client = |number: usize| {
            let program = Program::new(number, seed + number as u64, &script);
            Client {
                program,
                votes: [NodeVote::Pending; NODES],
                lost: None,
                was_valid: false,
                has_expired: false,
            }
        };
        let clients = [client(0), client(1)];
        Self { protocol, state: State::default(), script, clients }
    }

    /// Returns true if the step is possible in real time. A clock must not pass the time limit of a call that stays
    /// open.
    pub(crate) fn is_realizable(&self, step: Step) -> bool {
        match step {
            Step::Lapse { client } => {
                let (program, lapsed) = (&self.clients[client].program, self.state.lapsed(client));
                let mut until = program.rounds[lapsed] + TTL;
                if self.open(client).any(|(request, _)| self.ends_by_lapse(request)) {
                    // A pause does not count towards a time limit.
                    until = until + NODE_TIMEOUT;
                }
                let later = &program.rounds[lapsed + 1..];
                later.iter().all(|begun| *begun + TTL > until)
                    && self
                        .open(client)
                        .all(|(request, begun)| self.ends_by_lapse(request) || begun + NODE_TIMEOUT > until)
            }
            Step::Carry(request) | Step::CarryWithoutReply(request) if self.must_wait(request) => {
                let until = self.clients[request.client].program.now() + SENT_WITHIN;
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

    /// Returns true if this call of an attempt times out when the validity of the attempt ends.
    fn ends_by_lapse(&self, request: Request) -> bool {
        let Request { client, attempt, kind, .. } = request;
        kind == RequestKind::Acquire
            && self.state.lapsed(client) == 0
            && !self.state.has_ended(client, attempt)
    }

    /// Performs a step, and compares the core with the model.
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
            self.receive(event);
        }
        self.compare();
    }

    fn enact(&mut self, step: Step, next: &State, late: bool) {
        match step {
            Step::Attempt { client } => {
                self.clients[client].votes = [NodeVote::Pending; NODES];
                self.clients[client].lost = None;
                self.clients[client].program.attempt();
            }
            Step::Cancel { client } => self.clients[client].program.cancel(),
            Step::Extend { client } => {
                // Rounds that start at different times end at different times. A late round leaves no time for the
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
                self.carry_out_abandoned(client);
            }
            Step::Lapse { client } => self.lapse(client),
            Step::Carry(request) | Step::CarryTwice(request) => self.carry(request, next),
            Step::CarryWithoutReply(request) => {
                self.send(request);
                self.carry_out(request);
                self.end(request, Err(NodeError::unknown("lost")));
            }
            Step::CarryCopy(request) => drop(self.carry_out(request)),
            Step::Reply(request) => self.reply(request),
            Step::ReplyUncounted(request) => {
                self.script().quarantined = Some((request.client, request.node));
                self.reply(request);
                self.clients[request.client].program.settle();
                self.script().quarantined = None;
            }
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
            Step::Abandon { .. } => unreachable!("the sound protocol abandons no cleanup"),
        }
    }

    /// Pauses the process until the validity has ended. Then the process finds the replies that have arrived meanwhile.
    fn lapse(&mut self, client: usize) {
        let lapsed = self.state.lapsed(client);
        let attempt = self.clients[client].program.tokens.len() - 1;
        for node in 0..NODES {
            let request = Request { client, attempt, node, kind: RequestKind::Acquire };
            if lapsed == 0 && self.state.flight(request).has_reply() {
                self.reply(request);
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
            Flight::Granted => assert_eq!(Reply::Granted, vote, "{request}"),
            Flight::Denied => assert_ne!(Reply::Granted, vote, "{request}"),
            // The model has processed the reply already, or no call waits for it.
            _ => self.end(request, Ok(vote)),
        }
    }

    fn reply(&mut self, request: Request) {
        let vote = match self.state.flight(request) {
            Flight::Granted => Reply::Granted,
            _ => Reply::Denied(redlock_core::node::Denial::default()),
        };
        self.end(request, Ok(vote));
    }

    /// Carries out the canceled extensions, which the model drops. They must have no further effect.
    fn carry_out_abandoned(&mut self, client: usize) {
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

    fn carry_out(&mut self, request: Request) -> Reply {
        let token = self.clients[request.client].program.tokens[request.attempt].clone();
        self.script().carry_out(request.node, operation(request.kind), &token)
    }

    fn end(&mut self, request: Request, reply: super::node::Outcome) {
        let number = self.call(request, |call| call.number);
        if let Some(number) = number {
            self.script().calls[number].end(reply);
        }
    }

    /// Returns true for a release that is in flight in the model and not yet sent by the core.
    fn must_wait(&self, request: Request) -> bool {
        let pending = request.kind == RequestKind::Release && self.state.needs_cleanup(request);
        pending && (self.call(request, |_| ()).is_none())
    }

    /// Gives the core the time to send a request.
    fn send(&mut self, request: Request) {
        if !self.must_wait(request) {
            return;
        }
        let until = self.clients[request.client].program.now() + SENT_WITHIN;
        while self.must_wait(request) {
            let program = &mut self.clients[request.client].program;
            assert!(program.now() < until, "core does not send {request} to n{}", request.node);
            program.wait(Duration::from_millis(500));
        }
    }

    /// Returns the calls of the core that are open in the model, except releases, which are retried.
    fn open(&self, client: usize) -> impl Iterator<Item = (Request, redlock_core::runtime::Instant)> {
        let attempts = 0..self.clients[client].program.tokens.len();
        let requests = attempts.flat_map(move |attempt| {
            let kind =
                [RequestKind::Acquire, RequestKind::Extend, RequestKind::Refill(0), RequestKind::Refill(1)];
            kind.into_iter()
                .flat_map(move |kind| (0..NODES).map(move |node| Request { client, attempt, node, kind }))
        });
        let open = requests.filter_map(|request| {
            let begun = self.call(request, |call| call.begun)?;
            self.state.flight(request).is_open().then_some((request, begun))
        });
        open.collect::<Vec<_>>().into_iter()
    }

    /// Finds the open call of the core for a request of the model.
    pub(crate) fn call<T>(&self, request: Request, look: impl Fn(&Call) -> T) -> Option<T> {
        let script = self.script();
        let program = &self.clients[request.client].program;
        let token = program.tokens.get(request.attempt)?;
        let wanted = operation(request.kind);
        let mut calls = script.calls.iter().filter(|call| {
            (call.client, call.node, call.operation) == (request.client, request.node, wanted)
                && call.token == *token
        });
        let call = match request.kind {
            RequestKind::Acquire => calls.next(),
            // The first call is the acquire.
            RequestKind::Refill(number) => calls.skip(1).find(|call| call.round == Some(number + 1)),
            RequestKind::Extend => calls.next_back(),
            RequestKind::Release => calls.find(|call| call.is_open()),
        };
        call.filter(|call| call.is_open()).map(look)
    }

    /// Records new tokens, and the round of each call. An ended attempt starts no write.
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

fn operation(kind: RequestKind) -> Operation {
    match kind {
        RequestKind::Acquire | RequestKind::Refill(_) => Operation::Acquire,
        RequestKind::Extend => Operation::Extend,
        RequestKind::Release => Operation::Release,
    }
}
