//! The order of waiters.
//!
//! The model has no times, only epochs: the order of requests that begin in different epochs never changes. Thus clients
//! begin their requests in slots that are farther apart than delays and splits move a request. At most two requests begin in
//! one slot, and either order is allowed for them.
//!
//! In the model, replies arrive at once. So they do here, and requests take any time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redlock_core::runtime::{Instant, Runtime};
use redlock_model::order::{
    CATALOG, Fault, Key, Place, Request, Role, SMALL, Scope, State, Step, Turns, Variant,
};
use redlock_simulation::history::{self, EventKind, FaultKind, Recorder, Reply, TokenNumber};
use redlock_simulation::network::{Direction, Notifications, Traffic};
use redlock_testkit::Operation;

use crate::accept::{Translation, accept};
use crate::check::{WITH_CONNECTIONS, all_are_accepted, each_fails_except, runs, some_fail, with_a_loss};
use crate::client::Client;
use crate::world::{Bounds, Happened, Layer, Moment, NODES, USUAL, World};

const CLIENTS: usize = 3;

/// The requests of a client, at most.
const REQUESTS: u64 = 3;

const SCOPE: Scope = Scope {
    roles: [Role::Waiter; CLIENTS],
    requests: [3; CLIENTS],
    attempts: u8::MAX,
    delays: 20,
    faults: u8::MAX,
    kinds: &[Fault::Death, Fault::Pause],
    open_turns: u8::MAX,
    leaves: true,
    enters: true,
    plain: true,
    ..SMALL
};

/// The time between two slots.
const SLOT: Duration = Duration::from_millis(400);

/// The time in which the requests of a slot begin.
const TOGETHER: Duration = Duration::from_millis(10);

/// The time after its last attempt at which a place ends at the earliest.
const PLACE_LASTS: Duration = Duration::from_secs(12);

const LASTS: Duration = Duration::from_secs(9);

/// A holder that outlives the places of the dead.
const LONG: Duration = Duration::from_secs(25);

/// A run, and the facts that follow from its whole history.
struct Waiting {
    moments: Vec<Moment>,
    /// The client and the number of each attempt, and its request.
    attempts: BTreeMap<TokenNumber, (usize, u8, u8)>,
    /// The token of each attempt, by client.
    tokens: [Vec<TokenNumber>; CLIENTS],
    places: BTreeMap<TokenNumber, Place>,
    /// The tokens whose releases reserve the resource for no waiter.
    open: BTreeSet<TokenNumber>,
    /// The calls by which an attempt begins that is not the first of its request.
    repeated: BTreeSet<u64>,
    /// The calls by which a request enters its place again.
    entering: BTreeSet<u64>,
    /// The beginnings of requests that are the first in their slot.
    later: BTreeSet<(usize, Instant)>,
    /// The requests beside which another client has begun one in the same slot, and its place.
    beside: BTreeMap<(usize, u8), Place>,
    /// The time of the last attempt of each client.
    last: [Option<Instant>; CLIENTS],
    /// The times between which a client holds the lock.
    holds: [Vec<(Instant, Option<Instant>)>; CLIENTS],
}

fn new_world(seed: u64, layer: Layer) -> World {
    let mut world = World::new(seed, layer, Bounds { lost: 1, twice: 1, ..USUAL });
    let most = Duration::from_micros(world.chance.u64(200..20_000));
    world.network.set_traffic(Direction::Requests, Traffic { most, ..Traffic::default() });
    let at_once = Duration::from_nanos(10);
    world.network.set_traffic(
        Direction::Replies,
        Traffic { least: at_once, most: at_once * 10, ..Traffic::default() },
    );
    let lost = if world.chance.bool() { world.chance.u32(..300) } else { 0 };
    world.network.set_notifications(Notifications { lost, ..Notifications::default() });
    world
}

fn run_in(mut world: World, seed: u64) -> Waiting {
    // In one run of eight, the lock is held for so long that the places of the dead end.
    let holds_long = seed % 8 == 0;
    let (long, kills) = (Duration::from_secs(15), world.chance.u32(..3) == 0 || holds_long);
    for number in 0..CLIENTS {
        let hold = (holds_long && number == 0).then_some(long);
        let program = world.start_in_order(number, |client| take_turns(client, number, hold));
        if kills && number == CLIENTS - 1 {
            let after = Duration::from_millis(world.chance.u64(600..3_000));
            world.kill(number, program, after);
        }
    }
    world.start_in_order(CLIENTS, |client| load_scripts(client, 100));
    world.start_in_order(CLIENTS + 1, |client| load_scripts(client, 150));
    let recorder = world.network.recorder().clone();
    facts(world.run(if holds_long { LONG } else { LASTS }), &recorder)
}

/// Makes requests, each in the next slot of the client. The first lock is held for a given time, if there is one.
async fn take_turns(mut client: Client, number: usize, mut long: Option<Duration>) {
    // A connection begins with the first request.
    let _free = client.redlock.inspect("r0").await;
    for _ in 0..REQUESTS {
        let now = client.now().elapsed_since_origin();
        let mut slot = (now.as_millis() / SLOT.as_millis() + 1).max(2) + u128::from(client.chance.u32(..2));
        // Two clients use each slot.
        if (slot + number as u128) % 3 == 0 {
            slot += 1;
        }
        let begin = SLOT * u32::try_from(slot).unwrap_or(u32::MAX) + TOGETHER.mul_f64(client.chance.f64());
        client.process.sleep(begin.saturating_sub(now)).await;
        let hold = long.take();
        let ttl = hold.map_or(Duration::from_secs(2), |hold| hold + Duration::from_secs(2));
        let request = client.redlock.lock("r0", ttl).max_wait(Duration::from_secs(60));
        if let Some((guard, token)) = client.request(ttl, request, true).await {
            match hold {
                Some(hold) => client.process.sleep(hold).await,
                None => client.idle(0, 700).await,
            }
            client.release(guard, token).await;
        }
    }
    client.clean_up().await;
}

/// Locks another resource before the other clients begin, so that each server has the scripts. A command whose script the
/// server lacks is sent again, and loses its place among the commands of its connection.
async fn load_scripts(mut client: Client, after: u64) {
    client.idle(after, after + 1).await;
    let guard = client.redlock.lock("r1", Duration::from_secs(2)).await;
    client.idle(100, 101).await;
    drop(guard);
    client.clean_up().await;
}

fn slot(at: Instant) -> u128 {
    at.elapsed_since_origin().as_millis() / SLOT.as_millis()
}

fn facts(moments: Vec<Moment>, recorder: &Recorder) -> Waiting {
    let mut run = Waiting {
        moments: Vec::new(),
        attempts: BTreeMap::new(),
        tokens: Default::default(),
        places: BTreeMap::new(),
        open: BTreeSet::new(),
        repeated: BTreeSet::new(),
        entering: BTreeSet::new(),
        later: BTreeSet::new(),
        beside: BTreeMap::new(),
        last: [None; CLIENTS],
        holds: Default::default(),
    };
    let mut requests: Vec<(usize, u8, u128)> = Vec::new();
    let mut released = BTreeSet::new();
    let mut begins = [false; CLIENTS];
    for moment in &moments {
        let Happened::Event(event) = &moment.happened else { continue };
        match *event {
            EventKind::Requested { client, .. } => {
                let slot = slot(moment.at);
                if requests.last().is_none_or(|(_, _, last)| *last < slot) {
                    run.later.insert((client, moment.at));
                }
                let number = requests.iter().filter(|(other, ..)| *other == client).count();
                requests.push((client, u8::try_from(number).unwrap_or(u8::MAX), slot));
                begins[client] = true;
            }
            EventKind::Sent(request) => run.sent(request, moment.at, &requests, &mut begins, &mut released),
            EventKind::Granted { client, .. } => run.holds[client].push((moment.at, None)),
            EventKind::Releasing { client, .. }
            | EventKind::FaultBegins(history::Place::Client(client), FaultKind::Kill) => {
                if let Some((_, until)) = run.holds[client].last_mut() {
                    until.get_or_insert(moment.at);
                }
            }
            _ => {}
        }
        // A place: a node reserves the resource for it, or a request leaves it.
        let token =
            event.token().filter(|token| *token != TokenNumber::NONE && !run.attempts.contains_key(token));
        let attempt = token.and_then(|token| Some((token, recorder.attempt_of(token)?)));
        if let Some((place, attempt)) = attempt {
            if let Some((client, _, request)) = run.attempts.get(&attempt) {
                run.places.insert(place, Place { client: *client, request: *request });
            }
        }
    }
    run.open = run.attempts.keys().copied().filter(|token| recorder.is_open(*token)).collect();
    for (client, number, slot) in &requests {
        let beside = requests.iter().find(|(other, _, same)| same == slot && other != client);
        if let Some((other, request, _)) = beside {
            run.beside.insert((*client, *number), Place { client: *other, request: *request });
        }
    }
    let moments = moments.into_iter().filter(|moment| run.is_relevant(moment)).collect();
    Waiting { moments, ..run }
}

impl Waiting {
    /// Returns true if the model contains a moment, or the servers are observed.
    fn is_relevant(&self, moment: &Moment) -> bool {
        match moment.happened {
            Happened::Observed(_) => true,
            Happened::Event(
                EventKind::Received { .. } | EventKind::CarriedOut { reply: Reply::Failed, .. },
            ) => false,
            Happened::Event(ref event) => event.token().is_none_or(|token| self.is_known(token)),
        }
    }

    fn is_known(&self, token: TokenNumber) -> bool {
        self.attempts.contains_key(&token) || self.places.contains_key(&token)
    }

    fn sent(
        &mut self,
        request: history::Request,
        at: Instant,
        requests: &[(usize, u8, u128)],
        begins: &mut [bool; CLIENTS],
        released: &mut BTreeSet<(TokenNumber, usize)>,
    ) {
        let history::Request { client, server, operation, token, call } = request;
        match operation {
            _ if client >= CLIENTS => {}
            Operation::Acquire => {
                self.last[client] = Some(at);
                if self.attempts.contains_key(&token) {
                    return;
                }
                if !std::mem::take(&mut begins[client]) {
                    self.repeated.insert(call);
                }
                self.tokens[client].push(token);
                let attempt = u8::try_from(self.tokens[client].len()).unwrap_or(u8::MAX);
                let current = requests.iter().rfind(|(other, ..)| *other == client);
                self.attempts.insert(token, (client, attempt, current.map_or(0, |(_, number, _)| *number)));
            }
            Operation::Release if !released.insert((token, server)) => {
                self.entering.insert(call);
            }
            _ => {}
        }
    }

    /// Returns the request of the model; `None` for another one, such as a query.
    fn request(&self, request: &history::Request) -> Option<Request> {
        let attempt = self.attempts.get(&request.token).map(|(_, attempt, _)| *attempt);
        match request.operation {
            Operation::Acquire => attempt.map(Request::Acquire),
            Operation::Release => {
                let place = self.places.get(&request.token).map(|place| Request::Leave(place.request));
                attempt.map(Request::Release).or(place)
            }
            _ => None,
        }
    }

    fn carried_out(&self, state: &State, request: &history::Request, granted: bool) -> Vec<Option<Step>> {
        let history::Request { client, server: node, .. } = *request;
        let Some(shown) = self.request(request) else { return vec![None] };
        if state.next_request(client, node) == Some(shown) {
            return self
                .delays(state, request)
                .into_iter()
                .map(|delay| Some(Step::Carry { client, node, delay }))
                .collect();
        }
        // The model does not contain a release that changes nothing.
        let is_void = matches!(shown, Request::Release(_) | Request::Leave(_)) && !granted;
        if is_void { vec![None] } else { vec![] }
    }

    /// Returns the delays of the next request of a place, of all that lead to the same order on a node the middle one.
    fn delays(&self, state: &State, request: &history::Request) -> Vec<u8> {
        let history::Request { client, server: node, .. } = *request;
        let Some(score) = self.model(Variant::Sound).next_score(state, client, node) else { return vec![0] };
        let attempt = self.attempts.get(&request.token);
        let beside = attempt.and_then(|(_, _, request)| self.beside.get(&(client, *request)));
        let Some(other) = beside.and_then(|beside| state.score_on(node, *beside)) else {
            return vec![SCOPE.delays / 2];
        };
        let before = other.checked_sub(score + 1);
        let after = (other + 1).saturating_sub(score);
        before.into_iter().chain([after]).filter(|delay| *delay <= SCOPE.delays).collect()
    }

    /// Returns the token of a key.
    fn token(&self, key: Key) -> Option<TokenNumber> {
        match key {
            Key::Absent => None,
            Key::Token { client, attempt } => self.tokens[client].get(usize::from(attempt) - 1).copied(),
            Key::Reserved(place) => {
                self.places.iter().find(|(_, other)| **other == place).map(|(token, _)| *token)
            }
        }
    }

    fn is_gone(&self, state: &State, node: usize, moment: &Moment) -> bool {
        self.token(state.key_on(node)).is_none_or(|token| !moment.has_later(node, token))
    }

    /// Returns true if a client holds the lock at a time; `None` at the moment of a change.
    fn holds_at(&self, client: usize, at: Instant) -> Option<bool> {
        let mut held = false;
        for (from, until) in &self.holds[client] {
            if *from == at || *until == Some(at) {
                return None;
            }
            held |= *from < at && until.is_none_or(|until| at < until);
        }
        Some(held)
    }
}

impl Translation for Waiting {
    type Model = Turns;

    const LAYERS: &'static [Layer] = WITH_CONNECTIONS;

    fn world(seed: u64, layer: Layer) -> World {
        new_world(seed, layer)
    }

    fn run_in(world: World, seed: u64) -> Self {
        run_in(world, seed)
    }

    fn model(&self, variant: Variant) -> Turns {
        Turns { scope: SCOPE, variant }
    }

    fn moments(&self) -> &[Moment] {
        &self.moments
    }

    fn meanings(&self, state: &State, moment: &Moment) -> Vec<Option<Step>> {
        let Happened::Event(event) = &moment.happened else { return vec![None] };
        match *event {
            EventKind::Requested { client, .. } => {
                let later = self.later.contains(&(client, moment.at));
                vec![Some(Step::Begin { client, later, placed: false })]
            }
            EventKind::Sent(request) if self.repeated.contains(&request.call) => {
                vec![Some(Step::Attempt { client: request.client })]
            }
            // The node may have the place.
            EventKind::Sent(history::Request { client, server: node, call, .. })
                if self.entering.contains(&call) =>
            {
                vec![Some(Step::Enter { client, node }), None]
            }
            EventKind::CarriedOut { request, reply, .. } => {
                self.carried_out(state, &request, reply.is_grant())
            }
            EventKind::NotGranted { client, .. } => vec![Some(Step::Leave { client })],
            EventKind::Releasing { client, is_open, .. } => {
                vec![Some(Step::Release { client, open: is_open, next: None })]
            }
            EventKind::FaultBegins(history::Place::Client(client), FaultKind::Kill) => {
                let death = Step::Fault { kind: Fault::Death, client, node: 0 };
                vec![(!state.is_idle(client)).then_some(death)]
            }
            _ => vec![None],
        }
    }

    fn is_hidden(&self, state: &State, step: Step, moment: &Moment) -> bool {
        match step {
            Step::GiveBack { client, open, .. } => {
                let last = self.attempts.iter().filter(|(_, (owner, ..))| *owner == client);
                let attempt = state.attempt_of(client);
                last.into_iter()
                    .any(|(token, (_, number, _))| *number == attempt && self.open.contains(token) == open)
            }
            Step::Expire { node } | Step::Fault { kind: Fault::Pause, node, .. } => {
                self.is_gone(state, node, moment)
            }
            // A client does not send it.
            Step::Carry { client, node, delay: 0 } => state.is_next_void(client, node),
            Step::Forget { client, .. } => self.last[client].is_some_and(|at| at + PLACE_LASTS <= moment.at),
            _ => false,
        }
    }

    fn agrees(&self, state: &State, moment: &Moment) -> bool {
        match &moment.happened {
            Happened::Observed(tokens) => {
                let keys_agree = (0..NODES).all(|node| {
                    let key = state.key_on(node);
                    let token = self.token(key);
                    token.is_some() == (key != Key::Absent)
                        && tokens[node].iter().copied().filter(|token| self.is_known(*token)).eq(token)
                });
                let holds = |client: usize| {
                    let is_held = state.held_by(client).is_some();
                    self.holds_at(client, moment.at).is_none_or(|held| held == is_held)
                };
                keys_agree && (0..CLIENTS).all(holds)
            }
            Happened::Event(EventKind::CarriedOut { request, reply, .. })
                if request.operation == Operation::Acquire =>
            {
                self.token(state.key_on(request.server)).is_some_and(|key| key == request.token)
                    == reply.is_grant()
            }
            Happened::Event(EventKind::Granted { client, token, .. }) => {
                let attempt = self.attempts.get(token).map(|(_, attempt, _)| *attempt);
                state.held_by(*client) == attempt && attempt.is_some()
            }
            // The place for which a node reserves the resource from now on.
            Happened::Event(EventKind::Moved { server, token, until }) if *until > moment.at => {
                self.places.get(token).is_some_and(|place| state.key_on(*server) == Key::Reserved(*place))
            }
            Happened::Event(_) => true,
        }
    }
}

#[test]
fn runs_with_waiters_are_runs_of_the_model() {
    all_are_accepted::<Waiting>(&[
        ("requests", |step| matches!(step, Step::Begin { .. })),
        ("further attempts", |step| matches!(step, Step::Attempt { .. })),
        ("failed attempts", |step| matches!(step, Step::GiveBack { open: false, .. })),
        ("failed attempts whose turn is open", |step| matches!(step, Step::GiveBack { open: true, .. })),
        ("releases", |step| matches!(step, Step::Release { open: false, .. })),
        ("open turns", |step| matches!(step, Step::Release { open: true, .. })),
        ("requests that are given up", |step| matches!(step, Step::Leave { .. })),
        ("places that are entered again", |step| matches!(step, Step::Enter { .. })),
        ("ends of a place", |step| matches!(step, Step::Forget { .. })),
        ("ends of a key", |step| matches!(step, Step::Expire { .. })),
        ("deaths", |step| matches!(step, Step::Fault { kind: Fault::Death, .. })),
    ]);
}

/// Asserts that the model rejects every run in which a moment is changed, if there is a moment to change.
fn each_fails_with(change: impl Fn(&Waiting, &mut Moment) -> bool) {
    let mut failed = 0;
    for (seed, _, mut run) in runs(&[Layer::Streams], Waiting::run) {
        let mut moments = std::mem::take(&mut run.moments);
        let is_changed = moments.iter_mut().any(|moment| change(&run, moment));
        run.moments = moments;
        if is_changed {
            assert!(accept(&run, &run.model(Variant::Sound)).is_err(), "seed {seed}");
            failed += 1;
        }
    }
    assert!(failed >= 50, "only {failed} runs were changed");
}

#[test]
fn a_hand_over_to_another_waiter_fails() {
    each_fails_with(|run, moment| {
        let Happened::Event(EventKind::Moved { token, until, .. }) = &mut moment.happened else {
            return false;
        };
        let first = run.places.get(token).filter(|_| *until > moment.at).map(|place| place.client);
        let other = run.places.iter().find(|(_, other)| first.is_some_and(|first| other.client != first));
        other.map(|(other, _)| *token = *other).is_some()
    });
}

#[test]
fn a_grant_of_what_is_held_or_reserved_fails() {
    each_fails_with(|_, moment| {
        let Happened::Event(EventKind::CarriedOut { request, reply, .. }) = &mut moment.happened else {
            return false;
        };
        let is_denied = request.operation == Operation::Acquire && *reply == Reply::Denied;
        if is_denied {
            *reply = Reply::Granted;
        }
        is_denied
    });
}

#[test]
fn runs_with_a_server_that_loses_its_data_fail() {
    some_fail(50, &[Layer::Streams], with_a_loss::<Waiting>(LASTS / 2));
}

/// Variants that only allow more than the rule, or that make clients wait for longer.
const PERMISSIVE: [Variant; 5] = [
    Variant::MinorityWaits,
    Variant::ReservationsDoNotExpire,
    Variant::PlacesOfTheLivingEnd,
    Variant::DenialsMoveTheTime,
    Variant::SplitsMoveNothing,
];

/// A variant that differs only after the end of a reservation for a place that is entered, too.
const UNSEEN: Variant = Variant::ReservedPlaceIsEntered;

#[test]
fn broken_variants_fail() {
    let seen: Vec<_> = CATALOG.iter().filter(|broken| broken.variant != UNSEEN).copied().collect();
    each_fails_except::<Waiting>(&seen, &PERMISSIVE);
}
