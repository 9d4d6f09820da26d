//! Readers and writers.

use std::time::Duration;

use redlock_core::LockRequest;
use redlock_core::kind::Kind;
use redlock_model::Rule;
use redlock_model::share::{CATALOG, Request, RequestKind, Role, Scope, Sharing, State, Step, Variant};
use redlock_simulation::history::{self, EventKind, Reply, TokenNumber};

use crate::accept::Translation;
use crate::check::{ALL, all_are_accepted, each_fails_except, some_fail, with_a_loss};
use crate::client::Client;
use crate::facts::{Call, Facts, Known, facts};
use crate::world::{Happened, Layer, Moment, NODES, World};

const CLIENTS: usize = 3;

const LASTS: Duration = Duration::from_secs(3);

struct Readers {
    scope: Scope,
    /// True if a writer waits for a time, so that servers deny new readers.
    has_gate: bool,
    moments: Vec<Moment>,
    facts: [Facts; CLIENTS],
}

fn role(chance: &mut fastrand::Rng) -> Role {
    if chance.u32(..5) < 3 { Role::Reader } else { Role::Writer }
}

fn run_in(mut world: World) -> Readers {
    let roles = [(); CLIENTS].map(|()| role(&mut world.chance));
    for (number, role) in roles.into_iter().enumerate() {
        world.start(number, |client| read_or_write(client, role));
    }
    let has_gate = world.chance.u32(..4) == 0;
    if has_gate {
        world.start(CLIENTS, wait_to_write);
    }
    let scope = Scope { roles, extensions: [2; CLIENTS], faults: u8::MAX };
    let moments = world.run(LASTS);
    let facts = facts(&moments);
    Readers { scope, has_gate, moments, facts }
}

async fn read_or_write(mut client: Client, role: Role) {
    client.idle(0, 300).await;
    let lock = client.redlock.rw_lock("r0").expect("the name is valid");
    let ttl = client.millis(400, 900);
    match role {
        Role::Absent => {}
        Role::Reader => hold(&mut client, lock.read(ttl), ttl).await,
        Role::Writer if client.chance.bool() => hold(&mut client, lock.write(ttl), ttl).await,
        Role::Writer => {
            let request = client.redlock.lock("r0", ttl);
            hold(&mut client, request, ttl).await;
        }
    }
    client.clean_up().await;
}

/// Locks the gate for a time, as a writer that waits does.
async fn wait_to_write(mut client: Client) {
    client.idle(0, 300).await;
    let gate = client.redlock.rw_lock("r0").expect("the name is valid").gate().clone();
    let guard = client.redlock.lock(gate, Duration::from_secs(1)).await;
    client.idle(0, 300).await;
    drop(guard);
    client.clean_up().await;
}

async fn hold<K: Kind>(client: &mut Client, request: LockRequest<K>, ttl: Duration) {
    let Some((guard, token)) = client.request(ttl, request.max_attempts(1), true).await else { return };
    for _ in 0..client.chance.u32(..3) {
        // The calls of the last round have ended.
        client.idle(110, 500).await;
        client.extend(&guard, token, ttl).await;
    }
    client.idle(0, 1_000).await;
    client.release(guard, token).await;
}

impl Readers {
    /// Returns the client of a token.
    fn client(&self, token: TokenNumber) -> Option<usize> {
        self.facts.iter().position(|facts| facts.token == Some(token))
    }

    /// Returns the client of a request, and the round of its call.
    fn call(&self, request: &history::Request) -> Option<(usize, Call)> {
        let client = self.client(request.token)?;
        Some((client, self.facts[client].call(request)))
    }

    fn carried_out(&self, state: &State, request: &history::Request, granted: bool) -> Vec<Option<Step>> {
        let node = request.server;
        let Some((client, call)) = self.call(request) else { return vec![None] };
        let request = |kind| Request { client, node, kind };
        let may_deny = self.has_gate && !granted;
        match (request_kind(call), call) {
            // A release removes the entry if there is one.
            (None, _) if granted == state.has_entry(client, node) => {
                vec![Some(Step::Remove { client, node })]
            }
            (None, _) => vec![],
            // The calls of an extension that has ended are dropped.
            (Some(RequestKind::Extend), Call::Extend(round))
                if round != state.round(client) || !state.is_in_flight(request(RequestKind::Extend)) =>
            {
                vec![None]
            }
            // The call has ended, or the request is a refill.
            (Some(RequestKind::Acquire | RequestKind::Refill), _)
                if !state.is_in_flight(request(RequestKind::Acquire)) =>
            {
                let carry = Some(Step::Carry(request(RequestKind::Refill)));
                if may_deny { vec![carry, None] } else { vec![carry] }
            }
            (Some(kind), _) if may_deny => {
                vec![Some(Step::Carry(request(kind))), Some(Step::Deny(request(kind)))]
            }
            (Some(kind), _) => vec![Some(Step::Carry(request(kind)))],
        }
    }

    fn received(&self, state: &State, request: &history::Request, granted: bool) -> Vec<Option<Step>> {
        let node = request.server;
        let Some((client, call)) = self.call(request) else { return vec![None] };
        let kind = match call {
            Call::Acquire => RequestKind::Acquire,
            Call::Extend(round) if round == state.round(client) => RequestKind::Extend,
            _ => return vec![None],
        };
        let request = Request { client, node, kind };
        match state.reply(request) {
            Some(reply) if reply == granted => vec![Some(Step::Reply(request))],
            Some(_) => vec![],
            None => vec![None],
        }
    }
}

/// Returns the kind of a request; `None` for a release.
fn request_kind(call: Call) -> Option<RequestKind> {
    match call {
        Call::Acquire => Some(RequestKind::Acquire),
        Call::Extend(_) => Some(RequestKind::Extend),
        Call::Refill(_) => Some(RequestKind::Refill),
        Call::Keep | Call::Other => None,
    }
}

impl Translation for Readers {
    type Model = Sharing;

    const LAYERS: &'static [Layer] = ALL;

    fn run_in(world: World, _seed: u64) -> Self {
        run_in(world)
    }

    fn model(&self, variant: Variant) -> Sharing {
        Sharing::broken(self.scope, variant)
    }

    fn moments(&self) -> &[Moment] {
        &self.moments
    }

    fn meanings(&self, state: &State, moment: &Moment) -> Vec<Option<Step>> {
        let Happened::Event(event) = &moment.happened else { return vec![None] };
        match *event {
            EventKind::Requested { client, .. } => vec![Some(Step::Attempt { client })],
            EventKind::NotGranted { client, why: None } if !state.has_ended(client) => {
                vec![Some(Step::Cancel { client })]
            }
            EventKind::Extending { client, .. } => vec![Some(Step::Extend { client })],
            EventKind::Releasing { client, .. } => vec![Some(Step::Release { client })],
            // The script was not known yet, and is sent again.
            EventKind::CarriedOut { reply: Reply::Failed, .. } => vec![None],
            EventKind::CarriedOut { request, reply, .. } => {
                self.carried_out(state, &request, reply.is_grant())
            }
            EventKind::Received { request, reply } => self.received(state, &request, reply.is_grant()),
            _ => vec![None],
        }
    }

    fn is_hidden(&self, state: &State, step: Step, moment: &Moment) -> bool {
        match step {
            Step::Lapse { client } => self.facts[client].has_lapsed(state.lapsed(client), moment.at),
            Step::Expire { client, node } => {
                self.facts[client].token.is_some_and(|token| !moment.has_later(node, token))
            }
            // The client waits no longer.
            Step::Fail(Request { client, node, kind }) => {
                let call = match kind {
                    RequestKind::Acquire => Call::Acquire,
                    _ => Call::Extend(state.round(client)),
                };
                self.facts[client].has_failed(call, node, moment.at)
            }
            _ => false,
        }
    }

    fn agrees(&self, state: &State, moment: &Moment) -> bool {
        let knows = (0..CLIENTS).all(|client| match self.facts[client].known(moment.at) {
            None => true,
            // The cause of a failure may be known later than the failure.
            Some(Known::Requesting) => !state.is_held(client),
            Some(Known::Held { valid }) => state.is_held(client) && state.is_valid(client) == valid,
            Some(Known::Ended) => state.has_ended(client),
        });
        knows
            && match &moment.happened {
                Happened::Observed(tokens) => (0..CLIENTS).all(|client| {
                    let Some(token) = self.facts[client].token else { return true };
                    (0..NODES).all(|node| state.has_entry(client, node) == tokens[node].contains(&token))
                }),
                Happened::Event(EventKind::CarriedOut { reply: Reply::Failed, .. }) => true,
                Happened::Event(EventKind::CarriedOut { request, reply, .. }) => match self.call(request) {
                    Some((_, Call::Other)) | None => true,
                    Some((client, call)) => {
                        let replied = request_kind(call)
                            .and_then(|kind| state.reply(Request { client, node: request.server, kind }));
                        state.has_entry(client, request.server) == reply.is_grant()
                            && replied.is_none_or(|replied| replied == reply.is_grant())
                    }
                },
                Happened::Event(_) => true,
            }
    }
}

#[test]
fn runs_of_readers_and_writers_are_runs_of_the_model() {
    all_are_accepted::<Readers>(&[
        ("grants", |step| matches!(step, Step::Attempt { .. })),
        ("dropped attempts", |step| matches!(step, Step::Cancel { .. })),
        ("extensions", |step| matches!(step, Step::Extend { .. })),
        ("refills and late writes", |step| {
            matches!(step, Step::Carry(Request { kind: RequestKind::Refill, .. }))
        }),
        ("ends of a validity", |step| matches!(step, Step::Lapse { .. })),
        ("lost replies", |step| matches!(step, Step::Fail(_))),
        ("expiries", |step| matches!(step, Step::Expire { .. })),
    ]);
}

#[test]
fn runs_with_a_server_that_loses_its_data_fail() {
    some_fail(100, ALL, with_a_loss::<Readers>(LASTS / 2));
}

/// Variants that only allow more than the rule.
const PERMISSIVE: [Variant; 1] = [Variant::EntriesExpireEarly];

#[test]
fn broken_variants_fail() {
    each_fails_except::<Readers>(CATALOG, &PERMISSIVE);
}
