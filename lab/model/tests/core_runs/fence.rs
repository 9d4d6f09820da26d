//! Fencing tokens.
//!
//! An attempt is part of the model once a quorum of nodes has replied to it: see [`redlock_model::fence`]. The counters of
//! a run are numbered from 1.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redlock_core::FencingToken;
use redlock_core::runtime::Instant;
use redlock_model::Rule;
use redlock_model::fence::{CATALOG, Counters, Extensions, Fencing, Scope, State, Step, Variant};
use redlock_simulation::history::{self, EventKind, Reply, TokenNumber};
use redlock_simulation::server::Persistence;
use redlock_testkit::Operation;

use crate::accept::Translation;
use crate::check::{ALL, all_are_accepted, each_fails_except, some_fail};
use crate::client::Client;
use crate::facts::{Call, Facts, Known, facts};
use crate::world::{Bounds, Happened, Layer, Moment, World};

const CLIENTS: usize = 4;

const SCOPE: Scope = Scope {
    nodes: 3,
    attempts: CLIENTS,
    counters: Counters::UpTo(14),
    extensions: Extensions::Any,
    forgets: false,
    lies: false,
};

/// All counters of a run derive from the same time.
const LASTS: Duration = Duration::from_secs(4);

/// The model allows any loss and any repetition.
const BOUNDS: Bounds = Bounds { servers: SCOPE.nodes, lost: 150, twice: 100 };

/// A reply of a server.
struct Flight {
    client: usize,
    carried_out: Instant,
    received: Option<Instant>,
}

struct Fenced {
    nodes: usize,
    moments: Vec<Moment>,
    facts: [Facts; CLIENTS],
    /// The attempts of the model, in the order of their beginning: the clients.
    attempts: Vec<usize>,
    /// The calls whose replies determine the token of their attempt.
    decisive: BTreeSet<u64>,
    /// The calls that the network has repeated.
    repeated: BTreeSet<u64>,
    /// The decisive replies, and the confirmations.
    flights: Vec<Flight>,
    /// The counter before the first one of the run.
    base: u64,
}

/// Servers lose data: in the model, a key may be lost at any moment.
fn run_in(mut world: World, kept: Persistence) -> Fenced {
    for number in 0..CLIENTS {
        world.start(number, lock_with_token);
    }
    world.lose_data(LASTS / 4, kept);
    let nodes = world.servers.len();
    let moments = world.run(LASTS);
    let facts = facts(&moments);
    let decisive = decisive(&moments, &facts, nodes);
    let is_decided = |client: &usize| {
        let calls = decisive.iter().filter(|call| facts[*client].has_sent(**call));
        calls.count() > nodes / 2
    };
    let mut attempts: Vec<_> = (0..CLIENTS).filter(is_decided).collect();
    attempts.sort_by_key(|client| facts[*client].requested);
    let counters = moments.iter().filter_map(|moment| match moment.happened {
        Happened::Event(EventKind::CarriedOut { reply: Reply::Counted(counter), .. }) => {
            Some(counter.as_u64())
        }
        _ => None,
    });
    let base = counters.min().unwrap_or(1) - 1;
    let flights = flights(&moments, &decisive);
    let repeated = moments.iter().filter_map(|moment| match moment.happened {
        Happened::Event(EventKind::CarriedOut { request, again: true, .. }) => Some(request.call),
        _ => None,
    });
    let repeated = repeated.collect();
    Fenced { nodes, moments, facts, attempts, decisive, repeated, flights, base }
}

/// Returns the calls whose replies determine the token of their attempt: the first quorum that is received.
fn decisive(moments: &[Moment], facts: &[Facts], nodes: usize) -> BTreeSet<u64> {
    let mut received = [0; CLIENTS];
    let mut decisive = BTreeSet::new();
    for moment in moments {
        if let Happened::Event(EventKind::Received { request, reply: Reply::Counted(_) }) = &moment.happened {
            let facts = &facts[request.client];
            if facts.call(request) == Call::Acquire && facts.is_undecided_at(moment.at) {
                received[request.client] += 1;
                if received[request.client] <= nodes / 2 + 1 {
                    decisive.insert(request.call);
                }
            }
        }
    }
    decisive
}

/// Returns the decisive replies, and the confirmations.
fn flights(moments: &[Moment], decisive: &BTreeSet<u64>) -> Vec<Flight> {
    let mut flights: BTreeMap<u64, Flight> = BTreeMap::new();
    for moment in moments {
        match moment.happened {
            Happened::Event(EventKind::CarriedOut { request, reply, .. }) => {
                let is_confirmation = request.operation == Operation::Confirm && reply.is_grant();
                if is_confirmation || decisive.contains(&request.call) {
                    let flight = Flight { client: request.client, carried_out: moment.at, received: None };
                    flights.entry(request.call).or_insert(flight);
                }
            }
            Happened::Event(EventKind::Received { request, .. }) => {
                if let Some(flight) = flights.get_mut(&request.call) {
                    flight.received = Some(moment.at);
                }
            }
            _ => {}
        }
    }
    flights.into_values().collect()
}

async fn lock_with_token(mut client: Client) {
    client.idle(0, 700).await;
    let ttl = client.millis(300, 600);
    let request = client.redlock.lock("r0", ttl).fenced().max_attempts(1);
    if let Some((guard, token)) = client.request(ttl, request, true).await {
        for _ in 0..client.chance.u32(..3) {
            client.idle(0, 300).await;
            client.extend(&guard, token, ttl).await;
        }
        client.idle(0, 300).await;
        client.release(guard, token).await;
    }
    client.clean_up().await;
}

impl Fenced {
    fn scope(&self) -> Scope {
        Scope { nodes: self.nodes, ..SCOPE }
    }

    /// Returns the attempt of a token.
    fn attempt(&self, token: TokenNumber) -> Option<usize> {
        self.attempts.iter().position(|client| self.facts[*client].token == Some(token))
    }

    fn counter(&self, counter: FencingToken) -> u8 {
        u8::try_from(counter.as_u64() - self.base).expect("a run contains few attempts")
    }

    fn carried_out(&self, state: &State, request: &history::Request, reply: Reply) -> Vec<Option<Step>> {
        let (node, attempt) = (request.server, self.attempt(request.token));
        match (request.operation, reply, attempt) {
            // The attempt is not part of the model. It has raised the counter if it has set its key.
            (Operation::Acquire, Reply::Counted(counter), None)
                if self.counter(counter) > state.counter_on(node) =>
            {
                vec![Some(Step::Pass { node })]
            }
            (Operation::Acquire, Reply::Counted(counter), Some(attempt)) => {
                let counter = self.counter(counter);
                let set = |received| Step::Set { attempt, node, counter, received };
                let again = Step::Again { attempt, node, counter, received: true };
                let is_free = state.key_on(node).is_none();
                match (self.decisive.contains(&request.call), self.repeated.contains(&request.call)) {
                    (false, _) => vec![is_free.then_some(set(false))],
                    (true, false) => vec![Some(if is_free { set(true) } else { again })],
                    // The client receives one of two replies.
                    (true, true) if is_free => vec![Some(set(true)), Some(set(false))],
                    (true, true) => vec![Some(again), None],
                }
            }
            (Operation::Acquire, Reply::Granted, Some(attempt)) => {
                vec![state.key_on(node).is_none().then_some(Step::Refill { attempt, node })]
            }
            // A confirmation that changes nothing and is not new is no step.
            (Operation::Confirm, Reply::Granted, Some(attempt)) => {
                vec![Some(Step::Confirm { attempt, node }), None]
            }
            (Operation::Release, Reply::Granted, Some(_)) => vec![Some(Step::Vanish { node })],
            _ => vec![None],
        }
    }

    fn reply_agrees(&self, state: &State, request: &history::Request, reply: Reply) -> bool {
        let (node, attempt) = (request.server, self.attempt(request.token));
        let (key, counter) = (state.key_on(node), state.counter_on(node));
        match (request.operation, reply) {
            (Operation::Acquire | Operation::Confirm, Reply::Superseded(other)) => {
                counter == self.counter(other)
            }
            (Operation::Acquire, Reply::Counted(other)) => key == attempt && counter == self.counter(other),
            (Operation::Acquire | Operation::Confirm, Reply::Granted) => {
                let token = attempt.and_then(|attempt| state.token(attempt));
                attempt.is_none() || key == attempt && Some(counter) == token
            }
            (Operation::Acquire | Operation::Confirm, Reply::Denied) => attempt.is_none() || key != attempt,
            _ => true,
        }
    }
}

impl Fenced {
    /// Compares open rounds. Confirmations arrive at once in the model, so it may be ahead while a reply is in flight.
    fn rounds_agree(&self, state: &State, moment: &Moment) -> bool {
        self.attempts.iter().enumerate().all(|(attempt, client)| {
            let facts = &self.facts[*client];
            if !self.is_quiet(*client, moment.at) {
                return true;
            }
            let is_requesting = facts.known(moment.at) == Some(Known::Requesting);
            let is_extending = facts.is_extending_at(moment.at);
            (!is_requesting || state.granted(attempt).is_none())
                && (!is_extending || state.is_extending(attempt))
        })
    }

    /// Returns true if no decisive reply to a client and no confirmation is in flight, or was lost.
    fn is_quiet(&self, client: usize, at: Instant) -> bool {
        self.flights.iter().all(|flight| {
            flight.client != client
                || at < flight.carried_out
                || flight.received.is_some_and(|time| time < at)
        })
    }
}

impl Translation for Fenced {
    type Model = Fencing;

    const LAYERS: &'static [Layer] = ALL;

    /// Half of the worlds have four servers.
    fn world(seed: u64, layer: Layer) -> World {
        World::new(seed, layer, Bounds { servers: if seed % 2 == 0 { 3 } else { 4 }, ..BOUNDS })
    }

    fn run_in(world: World, _seed: u64) -> Self {
        run_in(world, Persistence::Counters)
    }

    fn model(&self, variant: Variant) -> Fencing {
        Fencing::broken(self.scope(), variant)
    }

    fn moments(&self) -> &[Moment] {
        &self.moments
    }

    fn meanings(&self, state: &State, moment: &Moment) -> Vec<Option<Step>> {
        let Happened::Event(event) = &moment.happened else { return vec![None] };
        match *event {
            EventKind::Requested { client, .. } => {
                let attempt = self.attempts.iter().position(|other| *other == client);
                vec![attempt.map(|attempt| Step::Begin { attempt })]
            }
            EventKind::Extending { token, .. } => match self.attempt(token) {
                // An extension of the same kind is open already.
                Some(attempt) => vec![Some(Step::Extend { attempt }), None],
                None => vec![],
            },
            EventKind::CarriedOut { request, reply, .. } => self.carried_out(state, &request, reply),
            _ => vec![None],
        }
    }

    fn is_hidden(&self, state: &State, step: Step, moment: &Moment) -> bool {
        // A key has expired, or was lost.
        let Step::Vanish { node } = step else { return false };
        let token = state.key_on(node).and_then(|attempt| self.facts[self.attempts[attempt]].token);
        token.is_some_and(|token| !moment.has_later(node, token))
    }

    fn denied(&self, state: &State, moment: &Moment) -> Option<Step> {
        let Happened::Event(EventKind::CarriedOut { request, reply, .. }) = moment.happened else {
            return None;
        };
        let (node, attempt) = (request.server, self.attempt(request.token)?);
        match (request.operation, reply) {
            (Operation::Confirm, Reply::Denied | Reply::Superseded(_)) => {
                Some(Step::Confirm { attempt, node })
            }
            // A node denies a refill also because of the key of an attempt that is not part of the model.
            (Operation::Acquire, Reply::Superseded(_)) => Some(Step::Refill { attempt, node }),
            _ => None,
        }
        .filter(|_| state.token(attempt).is_some())
    }

    fn agrees(&self, state: &State, moment: &Moment) -> bool {
        self.rounds_agree(state, moment)
            && match &moment.happened {
                Happened::Observed(tokens) => self.attempts.iter().enumerate().all(|(attempt, client)| {
                    let token = self.facts[*client].token;
                    let has = |node: usize| token.is_some_and(|token| tokens[node].contains(&token));
                    (0..self.nodes).all(|node| has(node) == (state.key_on(node) == Some(attempt)))
                }),
                Happened::Event(EventKind::CarriedOut { request, reply, .. }) => {
                    self.reply_agrees(state, request, *reply)
                }
                Happened::Event(EventKind::Granted { token, fence, .. }) => {
                    let granted = self.attempt(*token).and_then(|attempt| state.granted(attempt));
                    granted.is_some() && granted == fence.map(|fence| self.counter(fence))
                }
                Happened::Event(EventKind::Extended { token, .. }) => {
                    self.attempt(*token).is_some_and(|attempt| !state.is_extending(attempt))
                }
                Happened::Event(_) => true,
            }
    }
}

#[test]
fn runs_of_fenced_locks_are_runs_of_the_model() {
    all_are_accepted::<Fenced>(&[
        ("attempts", |step| matches!(step, Step::Begin { .. })),
        ("failed attempts", |step| matches!(step, Step::Pass { .. })),
        ("lost replies", |step| matches!(step, Step::Set { received: false, .. })),
        ("confirmations", |step| matches!(step, Step::Confirm { .. })),
        ("extensions", |step| matches!(step, Step::Extend { .. })),
        ("refills", |step| matches!(step, Step::Refill { .. })),
        ("losses and releases", |step| matches!(step, Step::Vanish { .. })),
    ]);
}

#[test]
fn runs_with_a_server_that_loses_its_counters_fail() {
    some_fail(30, ALL, |seed, layer| run_in(Fenced::world(seed, layer), Persistence::Nothing));
}

/// Variants that only allow more than the rule. No server of these runs replies with a false counter. Late replies may
/// count or not.
const PERMISSIVE: [Variant; 2] = [Variant::TokenFollowsLaterReplies, Variant::AnyReplyCounts];

#[test]
fn broken_variants_fail() {
    each_fails_except::<Fenced>(CATALOG, &PERMISSIVE);
}
