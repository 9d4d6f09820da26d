//! Locks that are kept for a time.

use std::time::Duration;

use redlock_model::Rule;
use redlock_model::keep::{CATALOG, Keeping, Request, RequestKind, Scope, State, Step, Variant};
use redlock_simulation::history::{self, EventKind, FaultKind, Place, Reply, TokenNumber};
use redlock_testkit::Operation;

use crate::accept::Translation;
use crate::check::{WITH_CONNECTIONS, all_are_accepted, each_fails_except, some_fail, with_a_loss};
use crate::client::Client;
use crate::facts::{Call, Facts, Known, facts};
use crate::world::{Happened, Layer, Moment, NODES, World};

const SCOPE: Scope = Scope { extensions: 2, faults: u8::MAX };

const LASTS: Duration = Duration::from_secs(4);

/// The client that keeps its lock.
const KEEPER: usize = 0;

/// The other client.
const OTHER: usize = 1;

struct Kept {
    moments: Vec<Moment>,
    facts: [Facts; 2],
}

fn run_in(mut world: World) -> Kept {
    world.start(KEEPER, lock_and_keep);
    world.start(OTHER, lock);
    let moments = world.run(LASTS);
    let facts = facts(&moments);
    Kept { moments, facts }
}

async fn lock_and_keep(mut client: Client) {
    client.idle(0, 200).await;
    let ttl = client.millis(400, 900);
    let request = client.redlock.lock("r0", ttl).max_attempts(1);
    // Another client may acquire this server.
    let cut_off = client.chance.usize(..2);
    client.cut_off(cut_off);
    let lock = client.request(ttl, request, false).await;
    client.reconnect();
    if let Some((guard, token)) = lock {
        for _ in 0..client.chance.u32(..3) {
            // The calls of the last round have ended.
            client.idle(110, 400).await;
            client.extend(&guard, token, ttl).await;
        }
        client.idle(0, 300).await;
        if guard.is_held() {
            let rest = client.millis(20, 1_500);
            // With two servers less, the operation fails.
            let cut_off = client.chance.usize(..3);
            client.cut_off(cut_off);
            client.keep(guard, token, rest).await;
        }
    }
    client.clean_up().await;
}

async fn lock(mut client: Client) {
    let latest = if client.chance.bool() { 500 } else { 2_000 };
    client.idle(0, latest).await;
    let ttl = client.millis(400, 900);
    let request = client.redlock.lock("r0", ttl).max_attempts(1);
    if let Some((guard, token)) = client.request(ttl, request, true).await {
        client.idle(0, 600).await;
        client.release(guard, token).await;
    } else {
        // Its releases are lost, so its keys remain.
        let cut_off = client.chance.usize(..2) * NODES;
        client.cut_off(cut_off);
    }
    client.clean_up().await;
}

impl Kept {
    fn is_of(&self, client: usize, token: TokenNumber) -> bool {
        self.facts[client].token == Some(token)
    }

    /// Returns the request of the keeper; `None` for a release.
    fn request(&self, request: &history::Request) -> Option<Request> {
        let node = request.server;
        let kind = match self.facts[KEEPER].call(request) {
            Call::Acquire => RequestKind::Write(0),
            Call::Refill(round) => RequestKind::Write(round),
            Call::Extend(round) => RequestKind::Extend(round),
            Call::Keep => RequestKind::Keep,
            Call::Other => return None,
        };
        Some(Request { node, kind })
    }

    fn carried_out(&self, state: &State, shown: &history::Request, granted: bool) -> Vec<Option<Step>> {
        let node = shown.server;
        match shown.operation {
            _ if self.is_of(KEEPER, shown.token) => {
                // The keeper releases nothing as long as it relies on its lock.
                let Some(request) = self.request(shown) else { return vec![] };
                let keeper = &self.facts[KEEPER];
                let (heard, unheard) = (Step::Carry(request), Step::CarryWithoutReply(request));
                match (state.is_open(request), keeper.receives(shown.call)) {
                    (true, false) => vec![Some(unheard)],
                    // In the model, a reply arrives at once.
                    (true, true) if keeper.receives_late(shown.call) => vec![Some(heard), Some(unheard)],
                    _ => vec![Some(heard)],
                }
            }
            Operation::Acquire if self.is_of(OTHER, shown.token) => vec![Some(Step::OtherCarry { node })],
            Operation::Release if self.is_of(OTHER, shown.token) && granted => {
                vec![Some(Step::Expire { node })]
            }
            _ => vec![None],
        }
    }
}

impl Translation for Kept {
    type Model = Keeping;

    const LAYERS: &'static [Layer] = WITH_CONNECTIONS;

    fn run_in(world: World, _seed: u64) -> Self {
        run_in(world)
    }

    fn model(&self, variant: Variant) -> Keeping {
        Keeping::broken(SCOPE, variant)
    }

    fn moments(&self) -> &[Moment] {
        &self.moments
    }

    fn meanings(&self, state: &State, moment: &Moment) -> Vec<Option<Step>> {
        let Happened::Event(event) = &moment.happened else { return vec![None] };
        if state.has_ended() {
            return vec![None];
        }
        match *event {
            EventKind::Requested { client: KEEPER, .. } => vec![Some(Step::Attempt)],
            EventKind::Requested { client: OTHER, .. } => vec![Some(Step::OtherAttempt)],
            EventKind::NotGranted { client: OTHER, .. } | EventKind::Releasing { client: OTHER, .. } => {
                // Its validity may have ended before.
                vec![Some(Step::OtherEnd), None]
            }
            EventKind::Extending { client: KEEPER, .. } => vec![Some(Step::Extend)],
            EventKind::Keeping { .. } => vec![Some(Step::Keep)],
            // The client has dropped the operation. It may have had its result.
            EventKind::NotExtended { client: KEEPER, why: None, .. } => vec![Some(Step::Cancel), None],
            EventKind::FaultBegins(Place::Between(KEEPER, node), FaultKind::Disconnect) => {
                vec![Some(Step::Break { node }), None]
            }
            EventKind::CarriedOut { reply: Reply::Failed, .. } => vec![None],
            EventKind::CarriedOut { request, reply, .. } => {
                self.carried_out(state, &request, reply.is_grant())
            }
            _ => vec![None],
        }
    }

    fn is_hidden(&self, state: &State, step: Step, moment: &Moment) -> bool {
        let (keeper, other) = (&self.facts[KEEPER], &self.facts[OTHER]);
        match step {
            Step::Lapse => keeper.has_lapsed(state.lapsed(), moment.at),
            Step::Elapse => keeper.promised_until.is_some_and(|until| until <= moment.at),
            Step::OtherEnd => other.has_lapsed(0, moment.at),
            Step::Expire { node } => {
                let owner = if state.owner_on(node) == Some(true) { keeper } else { other };
                owner.token.is_some_and(|token| !moment.has_later(node, token))
            }
            // The client waits no longer.
            Step::Fail(Request { node, kind }) => {
                let call = match kind {
                    RequestKind::Write(0) => Call::Acquire,
                    RequestKind::Write(round) => Call::Refill(round),
                    RequestKind::Extend(round) => Call::Extend(round),
                    RequestKind::Keep => Call::Keep,
                };
                keeper.has_failed(call, node, moment.at)
            }
            _ => false,
        }
    }

    fn agrees(&self, state: &State, moment: &Moment) -> bool {
        let keeper = &self.facts[KEEPER];
        let is_valid = keeper.known(moment.at) == Some(Known::Held { valid: true });
        let is_kept = keeper.is_kept_at(moment.at);
        if state.has_ended() {
            return !is_valid && !is_kept;
        }
        // The model is ahead of the keeper, since replies arrive at once there.
        let knows = (!is_valid || state.is_valid()) && (!is_kept || state.is_kept());
        let keeps = !state.is_kept() || keeper.may_be_kept_at(moment.at);
        let other_holds =
            matches!(moment.happened, Happened::Event(EventKind::Granted { client: OTHER, .. }));
        knows && keeps && (!other_holds || state.other_holds()) && self.keys_agree(state, moment)
    }
}

impl Kept {
    fn keys_agree(&self, state: &State, moment: &Moment) -> bool {
        match &moment.happened {
            Happened::Observed(tokens) => (0..NODES).all(|node| {
                let has = |client: usize| {
                    self.facts[client].token.is_some_and(|token| tokens[node].contains(&token))
                };
                let owner = state.owner_on(node);
                has(KEEPER) == (owner == Some(true)) && has(OTHER) == (owner == Some(false))
            }),
            Happened::Event(EventKind::CarriedOut { reply: Reply::Failed, .. }) => true,
            Happened::Event(EventKind::CarriedOut { request, reply, until, .. }) => {
                let (node, keeper) = (request.server, &self.facts[KEEPER]);
                let is_keeper = self.is_of(KEEPER, request.token);
                if request.operation == Operation::Release || !is_keeper && !self.is_of(OTHER, request.token)
                {
                    return true;
                }
                let has_key = state.owner_on(node) == Some(is_keeper);
                // The model states how long the key exists at least.
                let (kept, round) = state.life_on(node);
                let ends = [
                    keeper.promised_until.filter(|_| kept),
                    round.and_then(|round| keeper.validity_of(round)),
                ];
                let lives = until.is_none_or(|until| ends.into_iter().flatten().all(|end| end <= until));
                has_key == reply.is_grant() && (!is_keeper || lives)
            }
            Happened::Event(_) => true,
        }
    }
}

#[test]
fn runs_of_kept_locks_are_runs_of_the_model() {
    all_are_accepted::<Kept>(&[
        ("extensions", |step| matches!(step, Step::Extend)),
        ("locks that are kept", |step| matches!(step, Step::Elapse)),
        ("dropped operations", |step| matches!(step, Step::Cancel)),
        ("ends of a validity", |step| matches!(step, Step::Lapse)),
        ("lost replies", |step| matches!(step, Step::Fail(_) | Step::CarryWithoutReply(_))),
        ("broken connections", |step| matches!(step, Step::Break { .. })),
        ("refills", |step| matches!(step, Step::Carry(Request { kind: RequestKind::Write(1..), .. }))),
        ("requests of the other client", |step| matches!(step, Step::OtherCarry { .. })),
    ]);
}

#[test]
fn runs_with_a_server_that_loses_its_data_fail() {
    some_fail(50, WITH_CONNECTIONS, with_a_loss::<Kept>(LASTS / 2));
}

/// Variants that only allow more than the rule.
const PERMISSIVE: [Variant; 5] = [
    Variant::RenewalsGoOn,
    Variant::WritesAreNotAwaited,
    Variant::GuardReleases,
    Variant::RenewalSetsTheLife,
    Variant::KeysExpireEarly,
];

#[test]
fn broken_variants_fail() {
    each_fails_except::<Kept>(CATALOG, &PERMISSIVE);
}
