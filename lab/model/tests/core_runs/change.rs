//! Changes of the nodes.

use std::time::Duration;

use redlock_model::Rule;
use redlock_model::change::{
    CATALOG, Changing, Lists, Program, Request, RequestKind, Scope, State, Step, Variant,
};
use redlock_simulation::history::{self, EventKind, Reply, TokenNumber};

use crate::accept::Translation;
use crate::check::{ALL, all_are_accepted, each_fails_except, some_fail, with_a_loss};
use crate::client::{Client, Listed};
use crate::facts::{Call, Facts, Known, facts};
use crate::world::{Bounds, Happened, Layer, Moment, USUAL, World};

const CLIENTS: usize = 3;

const SERVERS: usize = 5;

const BOUNDS: Bounds = Bounds { servers: SERVERS, ..USUAL };

const LASTS: Duration = Duration::from_secs(3);

/// The lists before and after a change, in either direction.
const CHANGES: [[&[usize]; 2]; 4] =
    [[&[0], &[0, 1, 2]], [&[0, 1, 2], &[2, 3, 4]], [&[0, 1, 2], &[0, 1, 2, 3, 4]], [&[0, 1, 2], &[0, 1, 3]]];

struct Programs {
    scope: Scope,
    moments: Vec<Moment>,
    facts: [Facts; CLIENTS],
}

fn run_in(mut world: World) -> Programs {
    let [mut old, mut new] = CHANGES[world.chance.usize(..CHANGES.len())];
    if world.chance.bool() {
        (old, new) = (new, old);
    }
    let single = if world.chance.bool() { Program::Old } else { Program::New };
    let programs = [(); CLIENTS].map(|()| if world.chance.bool() { Program::Both } else { single });
    for (number, program) in programs.into_iter().enumerate() {
        let listed = match program {
            Program::Both => Listed { nodes: new, previous: Some(old), places: false },
            Program::New => Listed { nodes: new, previous: None, places: false },
            Program::Old | Program::Absent => Listed { nodes: old, previous: None, places: false },
        };
        world.start_listing(number, listed, hold);
    }
    let moments = world.run(LASTS);
    let facts = facts(&moments);
    let scope =
        Scope { lists: Lists::new(old, new), programs, extensions: [2; CLIENTS], faults: u8::MAX, losses: 0 };
    Programs { scope, moments, facts }
}

async fn hold(mut client: Client) {
    client.idle(0, 600).await;
    let ttl = client.millis(400, 900);
    let request = client.redlock.lock("r0", ttl).max_attempts(1);
    // Another client may acquire these servers, and extensions fail.
    let is_cut_off = client.chance.u32(..3) == 0;
    if is_cut_off {
        client.cut_off_at_random(SERVERS);
    }
    if let Some((guard, token)) = client.request(ttl, request, true).await {
        for _ in 0..client.chance.u32(..3) {
            // The calls of the last round have ended.
            client.idle(110, 500).await;
            client.reconnect();
            if client.chance.u32(..3) == 0 {
                client.cut_off_at_random(SERVERS);
            }
            client.extend(&guard, token, ttl).await;
        }
        client.idle(0, 1_000).await;
        client.release(guard, token).await;
    }
    client.reconnect();
    client.clean_up().await;
}

impl Programs {
    /// Returns the client of a token.
    fn client(&self, token: TokenNumber) -> Option<usize> {
        self.facts.iter().position(|facts| facts.token == Some(token))
    }

    fn carried_out(&self, state: &State, shown: &history::Request, granted: bool) -> Vec<Option<Step>> {
        let node = shown.server;
        let Some(client) = self.client(shown.token) else { return vec![None] };
        let facts = &self.facts[client];
        let request = |kind| Request { client, node, kind };
        let kind = match facts.call(shown) {
            Call::Acquire if state.is_open(request(RequestKind::Acquire)) => RequestKind::Acquire,
            Call::Extend(round)
                if round == state.round(client) && state.is_open(request(RequestKind::Extend)) =>
            {
                RequestKind::Extend
            }
            Call::Acquire | Call::Refill(_) => return vec![Some(Step::Carry(request(RequestKind::Late)))],
            // A release removes the key if there is one.
            Call::Other if granted => return vec![Some(Step::Expire { node })],
            // The calls of an extension that has ended are dropped.
            Call::Extend(_) | Call::Keep | Call::Other => return vec![None],
        };
        let (heard, unheard) = (Step::Carry(request(kind)), Step::CarryWithoutReply(request(kind)));
        match facts.receives(shown.call) {
            false => vec![Some(unheard)],
            // In the model, a reply arrives at once.
            true if facts.receives_late(shown.call) => vec![Some(heard), Some(unheard)],
            true => vec![Some(heard)],
        }
    }

    fn keys_agree(&self, state: &State, moment: &Moment) -> bool {
        match &moment.happened {
            Happened::Observed(tokens) => (0..SERVERS).all(|node| {
                (0..CLIENTS).all(|client| {
                    let is_there =
                        self.facts[client].token.is_some_and(|token| tokens[node].contains(&token));
                    is_there == (state.owner_on(node) == Some(client))
                })
            }),
            Happened::Event(EventKind::CarriedOut { reply: Reply::Failed, .. }) => true,
            Happened::Event(EventKind::CarriedOut { request, reply, .. }) => match self.client(request.token)
            {
                Some(client) if self.facts[client].call(request) != Call::Other => {
                    reply.is_grant() == (state.owner_on(request.server) == Some(client))
                }
                _ => true,
            },
            Happened::Event(_) => true,
        }
    }
}

impl Translation for Programs {
    type Model = Changing;

    const LAYERS: &'static [Layer] = ALL;

    fn world(seed: u64, layer: Layer) -> World {
        World::new(seed, layer, BOUNDS)
    }

    fn run_in(world: World, _seed: u64) -> Self {
        run_in(world)
    }

    fn model(&self, variant: Variant) -> Changing {
        Changing::broken(self.scope, variant)
    }

    fn moments(&self) -> &[Moment] {
        &self.moments
    }

    fn meanings(&self, state: &State, moment: &Moment) -> Vec<Option<Step>> {
        let Happened::Event(event) = &moment.happened else { return vec![None] };
        match *event {
            EventKind::Requested { client, .. } => vec![Some(Step::Attempt { client })],
            EventKind::NotGranted { client, why: None } if !state.has_ended(client) => {
                vec![Some(Step::End { client })]
            }
            EventKind::Extending { client, .. } => vec![Some(Step::Extend { client })],
            EventKind::Releasing { client, .. } => vec![Some(Step::End { client })],
            // The script was not known yet, and is sent again.
            EventKind::CarriedOut { reply: Reply::Failed, .. } => vec![None],
            EventKind::CarriedOut { request, reply, .. } => {
                self.carried_out(state, &request, reply.is_grant())
            }
            _ => vec![None],
        }
    }

    fn is_hidden(&self, state: &State, step: Step, moment: &Moment) -> bool {
        match step {
            Step::Lapse { client } => self.facts[client].has_lapsed(state.lapsed(client), moment.at),
            Step::Expire { node } => {
                let token = state.owner_on(node).and_then(|client| self.facts[client].token);
                token.is_some_and(|token| !moment.has_later(node, token))
            }
            // The client waits no longer.
            Step::Fail(Request { client, node, kind }) => {
                let call = match kind {
                    RequestKind::Extend => Call::Extend(state.round(client)),
                    RequestKind::Acquire | RequestKind::Late => Call::Acquire,
                };
                self.facts[client].has_failed(call, node, moment.at)
            }
            _ => false,
        }
    }

    fn agrees(&self, state: &State, moment: &Moment) -> bool {
        let knows = (0..CLIENTS).all(|client| match self.facts[client].known(moment.at) {
            // The model is ahead of the client, since replies arrive at once there.
            None | Some(Known::Requesting) => true,
            Some(Known::Held { valid }) => state.is_held(client) && state.is_valid(client) == valid,
            Some(Known::Ended) => state.has_ended(client),
        });
        knows && self.keys_agree(state, moment)
    }
}

#[test]
fn runs_during_a_change_of_the_nodes_are_runs_of_the_model() {
    all_are_accepted::<Programs>(&[
        ("attempts", |step| matches!(step, Step::Attempt { .. })),
        ("extensions", |step| matches!(step, Step::Extend { .. })),
        ("refills and late writes", |step| {
            matches!(step, Step::Carry(Request { kind: RequestKind::Late, .. }))
        }),
        ("ends of a validity", |step| matches!(step, Step::Lapse { .. })),
        ("lost replies", |step| matches!(step, Step::CarryWithoutReply(_))),
        ("calls that end", |step| matches!(step, Step::Fail(_))),
        ("expiries", |step| matches!(step, Step::Expire { .. })),
    ]);
}

#[test]
fn runs_with_a_server_that_loses_its_data_fail() {
    some_fail(50, ALL, with_a_loss::<Programs>(LASTS / 2));
}

/// Variants that differ only in steps that no run has.
const PERMISSIVE: [Variant; 2] = [Variant::TheLastStepDoesNotWait, Variant::VotesCountAfterALoss];

#[test]
fn broken_variants_fail() {
    each_fails_except::<Programs>(CATALOG, &PERMISSIVE);
}
