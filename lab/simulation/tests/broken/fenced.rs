//! Nodes whose fenced operations are broken on purpose, each with the case that catches it.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use redlock_core::node::{
    self, Claim, Denial, LockNode, NodeError, Profile, Reply, Request, Token, Ttl, async_trait,
};
use redlock_core::runtime::{Instant, suspend_aware_now};
use redlock_core::{FencingToken, IntoResource, Resource};
use redlock_testkit::conformance::{self, Backend};

use self::Flaw::*;
use super::{assert_all_caught, assert_none_caught};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    /// Keeps the contract.
    Sound,
    // acquire
    AcquireOnlyCounts,
    AcquireNeverExpires,
    RaisesNoCounter,
    CountsByTwo,
    BeginsWithAnyTime,
    DeniedAcquireCounts,
    DeniedAcquireCountsFreeResources,
    DeniedAcquireExtends,
    RepeatedAcquireCounts,
    RepeatedAcquireExtends,
    SetsAbsentWithoutCounting,
    CountsTheFirstOnly,
    CountsEachByItself,
    OneCounterForAll,
    CountersAreTrimmed,
    ChecksThenCounts,
    // others
    ReleaseForgets,
    CountersExpire,
    PlainCounts,
    PlainForgets,
    FencedLocksAreSeparate,
    ClientsHaveSeparateCounters,
    AnyTypeIsALock,
    // confirm
    ConfirmRaisesNothing,
    ConfirmRaisesOne,
    ConfirmLengthensNothing,
    ConfirmShortens,
    ConfirmComparesNothing,
    ConfirmCreates,
    DeniedConfirmRaises,
    ConfirmIgnoresCounters,
    ConfirmLooksAtOneCounter,
    SupersededIsDenied,
    SupersededLengthens,
    SupersededRaises,
    ConfirmTakesAnyToken,
    FarConfirmRaises,
    FarConfirmLengthens,
    // refill
    RefillSetsNothing,
    RefillRaisesNothing,
    RefillCounts,
    RefillRearms,
    RefillOverwrites,
    RefillSetsOnlyFreeResources,
    RefillIgnoresCounters,
    RefillSupersededSets,
    RefillTakesAnyToken,
    FarRefillSets,
    FarRefillCounts,
    // capabilities
    FencingIsNotReported,
    FencingIsClaimed,
}

/// Each flaw, the case that catches it, and the message of the case.
const CAUGHT: &[(Flaw, &str, &str)] = &[
    (AcquireOnlyCounts, "a_fenced_acquire_grants_a_free_resource", "sets every resource of the claim"),
    (AcquireNeverExpires, "a_fenced_acquire_grants_a_free_resource", "expires after its ttl"),
    (RaisesNoCounter, "a_counter_grows_by_one_or_goes_to_the_time", "the next of the greatest"),
    (CountsByTwo, "a_counter_grows_by_one_or_goes_to_the_time", "the next of the greatest"),
    (BeginsWithAnyTime, "a_counter_grows_by_one_or_goes_to_the_time", "in whole steps"),
    (DeniedAcquireCounts, "a_denied_fenced_acquire_changes_nothing", "no counter either"),
    (DeniedAcquireCountsFreeResources, "a_denied_fenced_acquire_changes_nothing", "no counter either"),
    (DeniedAcquireExtends, "a_denied_fenced_acquire_changes_nothing", "still held"),
    (RepeatedAcquireCounts, "a_fenced_acquire_with_the_same_token_counts_once", "changes no counter"),
    (RepeatedAcquireExtends, "a_fenced_acquire_again_does_not_change_the_time", "as it is"),
    (
        SetsAbsentWithoutCounting,
        "a_fenced_acquire_sets_absent_resources_and_counts",
        "the next of the greatest",
    ),
    (CountsTheFirstOnly, "several_resources_count_above_the_greatest_counter", "the next of the greatest"),
    (CountsEachByItself, "several_resources_count_above_the_greatest_counter", "the next of the greatest"),
    (OneCounterForAll, "every_resource_has_its_own_counter", "a separate counter"),
    (CountersAreTrimmed, "every_resource_has_its_own_counter", "a separate counter"),
    (ChecksThenCounts, "one_of_many_fenced_claims_at_once_counts", "atomic on its node"),
    (ReleaseForgets, "a_counter_outlives_its_lock", "release leaves the counters alone"),
    (CountersExpire, "a_counter_outlives_its_lock", "kept when its lock expires"),
    (PlainCounts, "plain_locks_do_not_change_counters", "leave the counters alone"),
    (PlainForgets, "plain_locks_do_not_change_counters", "leave the counters alone"),
    (FencedLocksAreSeparate, "plain_and_fenced_locks_exclude_each_other", "exclude each other"),
    (ClientsHaveSeparateCounters, "two_clients_count_on_one_server", "on the same counters"),
    (AnyTypeIsALock, "a_non_lock_value_is_an_error_for_fenced_operations", "of the kind WrongType"),
    (ConfirmRaisesNothing, "confirm_raises_the_counters", "of all resources fence"),
    (ConfirmRaisesOne, "confirm_raises_the_counters", "of all resources fence"),
    (ConfirmLengthensNothing, "confirm_prolongs_and_never_shortens", "of every resource at least ttl"),
    (ConfirmShortens, "confirm_prolongs_and_never_shortens", "never shortens"),
    (ConfirmComparesNothing, "confirm_denies_missing_and_foreign_resources", "does not hold the token"),
    (ConfirmCreates, "confirm_denies_missing_and_foreign_resources", "does not hold the token"),
    (DeniedConfirmRaises, "confirm_denies_missing_and_foreign_resources", "no counter either"),
    (ConfirmIgnoresCounters, "a_superseded_confirm_changes_nothing", "the result is Superseded"),
    (ConfirmLooksAtOneCounter, "a_superseded_confirm_changes_nothing", "the result is Superseded"),
    (SupersededIsDenied, "a_superseded_confirm_changes_nothing", "the result is Superseded"),
    (SupersededLengthens, "a_superseded_confirm_changes_nothing", "still held"),
    (SupersededRaises, "a_superseded_confirm_changes_nothing", "superseded changes nothing"),
    (ConfirmTakesAnyToken, "a_token_far_ahead_of_the_clock_is_an_error", "of the kind Rejected"),
    (FarConfirmRaises, "a_token_far_ahead_of_the_clock_is_an_error", "nothing is changed"),
    (FarConfirmLengthens, "a_token_far_ahead_of_the_clock_is_an_error", "still held"),
    (RefillSetsNothing, "refill_sets_absent_resources_and_raises_the_counters", "sets what is absent"),
    (RefillRaisesNothing, "refill_sets_absent_resources_and_raises_the_counters", "of all resources fence"),
    (RefillCounts, "refill_sets_absent_resources_and_raises_the_counters", "of all resources fence"),
    (RefillRearms, "refill_sets_absent_resources_and_raises_the_counters", "as it is"),
    (
        RefillOverwrites,
        "refill_denies_a_resource_of_another_holder",
        "is denied where a resource holds another",
    ),
    (RefillSetsOnlyFreeResources, "refill_denies_a_resource_of_another_holder", "changes nothing"),
    (RefillIgnoresCounters, "a_superseded_refill_changes_nothing", "the result is Superseded"),
    (RefillSupersededSets, "a_superseded_refill_changes_nothing", "superseded changes nothing"),
    (RefillTakesAnyToken, "a_token_far_ahead_of_the_clock_is_an_error", "of the kind Rejected"),
    (FarRefillSets, "a_token_far_ahead_of_the_clock_is_an_error", "nothing is changed"),
    (FarRefillCounts, "a_token_far_ahead_of_the_clock_is_an_error", "nothing is changed"),
    (FencingIsNotReported, "the_profile_reports_support_for_fencing", "says so in its profile"),
    (FencingIsClaimed, "the_profile_reports_support_for_fencing", "says so in its profile"),
];

#[test]
fn every_fenced_flaw_is_caught_by_the_case_for_it() {
    assert_all_caught(CAUGHT, server);
}

#[test]
fn without_a_flaw_a_fenced_node_passes() {
    assert_none_caught(conformance::cases().filter(|case| catches(case)), || server(Sound));
}

/// Returns whether a case catches one of these flaws.
pub(crate) fn catches(case: &str) -> bool {
    CAUGHT.iter().any(|(_, by, _)| *by == case)
}

fn server(flaw: Flaw) -> Server {
    Server { flaw, state: Arc::default() }
}

struct Server {
    flaw: Flaw,
    state: Arc<Mutex<State>>,
}

impl Backend for Server {
    async fn node(&self) -> Arc<dyn LockNode> {
        Arc::new(Arc::new(Node { flaw: self.flaw, state: self.state.clone(), own: Mutex::default() }))
    }

    async fn no_lock(&self) -> Option<Resource> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).no_lock = "list".into_resource().ok();
        "list".into_resource().ok()
    }
}

type Held = HashMap<Resource, (Token, Instant)>;

#[derive(Default)]
struct State {
    plain: Held,
    /// The fenced locks of a node that stores them separately.
    fenced: Held,
    counters: HashMap<String, u64>,
    no_lock: Option<Resource>,
}

struct Node {
    flaw: Flaw,
    state: Arc<Mutex<State>>,
    /// The counters of a client that does not share them.
    own: Mutex<HashMap<String, u64>>,
}

const LONG: Duration = Duration::from_secs(3600);

impl State {
    fn held(&mut self, fenced: bool) -> &mut Held {
        if fenced { &mut self.fenced } else { &mut self.plain }
    }

    fn sweep(&mut self, flaw: Flaw) {
        let now = suspend_aware_now();
        let State { plain, fenced, counters, .. } = self;
        for held in [plain, fenced] {
            held.retain(|resource, (_, until)| {
                let lives = *until > now;
                if !lives && flaw == CountersExpire {
                    counters.remove(&format!("{resource:?}"));
                }
                lives
            });
        }
    }
}

impl Node {
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sweep(self.flaw);
        state
    }

    fn counter_name(&self, resource: &Resource) -> String {
        let name = format!("{resource:?}");
        match self.flaw {
            OneCounterForAll => String::new(),
            CountersAreTrimmed => name.replace(['{', '}', ':'], ""),
            _ => name,
        }
    }

    fn counter(&self, state: &State, resource: &Resource) -> u64 {
        let name = self.counter_name(resource);
        let number = match self.flaw {
            ClientsHaveSeparateCounters => {
                self.own.lock().unwrap_or_else(PoisonError::into_inner).get(&name).copied()
            }
            _ => state.counters.get(&name).copied(),
        };
        number.unwrap_or(0)
    }

    fn count_to(&self, state: &mut State, resources: &[Resource], number: u64) {
        for resource in resources {
            let name = self.counter_name(resource);
            match self.flaw {
                ClientsHaveSeparateCounters => {
                    self.own.lock().unwrap_or_else(PoisonError::into_inner).insert(name, number);
                }
                _ => drop(state.counters.insert(name, number)),
            }
        }
    }

    fn greatest(&self, state: &State, resources: &[Resource]) -> u64 {
        let all = resources.iter().map(|resource| self.counter(state, resource));
        match self.flaw {
            CountsTheFirstOnly => all.take(1).max(),
            _ => all.max(),
        }
        .unwrap_or(0)
    }

    /// Returns whether the node stores this lock separately.
    fn is_separate(&self, fenced: bool) -> bool {
        fenced && self.flaw == FencedLocksAreSeparate
    }

    fn check_type(&self, state: &State, claim: &Claim) -> Result<(), NodeError> {
        let wrong = state.no_lock.as_ref().filter(|resource| claim.resources().contains(resource));
        match wrong {
            Some(resource) if self.flaw != AnyTypeIsALock => Err(NodeError::wrong_type(resource)),
            _ => Ok(()),
        }
    }
}

/// Returns the absent resources; `None` if another client holds one.
fn absent(held: &Held, claim: &Claim) -> Option<Vec<Resource>> {
    let mut absent = Vec::new();
    for resource in claim.resources() {
        match held.get(resource) {
            None => absent.push(resource.clone()),
            Some((token, _)) if token == claim.token() => {}
            Some(_) => return None,
        }
    }
    Some(absent)
}

fn set(held: &mut Held, resources: &[Resource], claim: &Claim, ttl: Duration) {
    for resource in resources {
        held.insert(resource.clone(), (claim.token().clone(), suspend_aware_now() + ttl));
    }
}

fn denied() -> Reply {
    Reply::Denied(Denial::default())
}

/// Returns whether a token is too far ahead of the clock.
fn is_far(fence: FencingToken) -> bool {
    !fence.is_plausible(suspend_aware_now().elapsed_since_origin(), Profile::default().fence_retention)
}

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).unwrap_or(FencingToken::MAX)
}

#[async_trait]
impl node::Backend for Node {
    fn label(&self) -> &'static str {
        "broken"
    }

    async fn reply_to(&self, request: &Request) -> Result<Reply, NodeError> {
        match request {
            Request::Acquire(claim, ttl) => Ok(self.acquire(claim, *ttl)),
            Request::Extend(claim, ttl) => Ok(self.extend(claim, *ttl)),
            Request::Release(claim) => Ok(self.release(claim)),
            Request::AcquireFenced(claim, ttl) => self.acquire_fenced(claim, *ttl).await,
            Request::Confirm(claim, ttl, fence) => self.confirm(claim, *ttl, *fence),
            Request::Refill(claim, ttl, fence) => self.refill_fenced(claim, *ttl, *fence),
            other => Err(NodeError::unsupported(other)),
        }
    }

    fn profile(&self) -> Profile {
        match self.flaw {
            FencingIsNotReported => Profile::default(),
            _ => Profile::default().with_fencing(),
        }
    }
}

impl Node {
    fn acquire(&self, claim: &Claim, ttl: Ttl) -> Reply {
        let mut state = self.state();
        let Some(absent) = absent(&state.plain, claim) else { return denied() };
        set(&mut state.plain, &absent, claim, ttl.as_duration());
        match self.flaw {
            PlainCounts => {
                let next = self.greatest(&state, claim.resources()) + 1;
                self.count_to(&mut state, claim.resources(), next);
            }
            PlainForgets => state.counters.clear(),
            _ => {}
        }
        Reply::Granted
    }

    fn extend(&self, claim: &Claim, ttl: Ttl) -> Reply {
        let mut state = self.state();
        let separate = self.flaw == FencedLocksAreSeparate && !state.fenced.is_empty();
        let held = state.held(separate);
        if absent(held, claim).is_none_or(|absent| !absent.is_empty()) {
            return denied();
        }
        for resource in claim.resources() {
            let until = &mut held.get_mut(resource).expect("all resources exist").1;
            *until = (*until).max(suspend_aware_now() + ttl.as_duration());
        }
        Reply::Granted
    }

    fn release(&self, claim: &Claim) -> Reply {
        let mut state = self.state();
        let mut deleted = false;
        for resource in claim.resources() {
            for fenced in [false, true] {
                let held = state.held(fenced);
                if held.get(resource).is_some_and(|(token, _)| token == claim.token()) {
                    held.remove(resource);
                    deleted = true;
                }
            }
            if self.flaw == ReleaseForgets {
                state.counters.remove(&format!("{resource:?}"));
            }
        }
        Reply::Deleted(deleted)
    }

    async fn acquire_fenced(&self, claim: &Claim, ttl: Ttl) -> Result<Reply, NodeError> {
        if self.flaw == FencingIsClaimed {
            return Err(NodeError::unsupported("fence"));
        }
        if self.flaw == ChecksThenCounts {
            let taken = absent(&self.state().plain, claim).is_none();
            yield_now().await;
            if !taken {
                self.state().plain.retain(|resource, _| !claim.resources().contains(resource));
            }
        }
        let (resources, mut state) = (claim.resources(), self.state());
        self.check_type(&state, claim)?;
        let found = absent(state.held(self.is_separate(true)), claim);
        let counter = self.greatest(&state, resources);
        let Some(mut absent) = found else {
            match self.flaw {
                DeniedAcquireCounts => self.count_to(&mut state, resources, counter + 1),
                DeniedAcquireCountsFreeResources => {
                    let free: Vec<_> =
                        resources.iter().filter(|one| !state.plain.contains_key(one)).cloned().collect();
                    self.count_to(&mut state, &free, counter + 1);
                }
                DeniedAcquireExtends => {
                    for resource in resources {
                        if let Some((_, until)) = state.plain.get_mut(resource) {
                            *until = suspend_aware_now() + ttl.as_duration();
                        }
                    }
                }
                _ => {}
            }
            return Ok(Reply::Denied(Denial::default()));
        };
        if self.flaw == RepeatedAcquireExtends && absent.is_empty() {
            absent = resources.to_vec();
            set(&mut state.plain, &absent, claim, ttl.as_duration());
            return Ok(Reply::Counted(token(counter)));
        }
        let partly = self.flaw == SetsAbsentWithoutCounting && absent.len() < resources.len();
        let counts = !partly && (!absent.is_empty() || self.flaw == RepeatedAcquireCounts);
        let next = match self.flaw {
            RaisesNoCounter => counter.max(1),
            CountsByTwo if counter > 0 => counter + 2,
            BeginsWithAnyTime if counter == 0 => 1_234_567,
            _ => counter + 1,
        };
        let next = if counts { next } else { counter };
        let ttl = if self.flaw == AcquireNeverExpires { LONG } else { ttl.as_duration() };
        if self.flaw != AcquireOnlyCounts {
            set(state.held(self.is_separate(true)), &absent, claim, ttl);
        }
        if counts {
            match self.flaw {
                CountsEachByItself => {
                    for resource in resources {
                        let next = self.counter(&state, resource) + 1;
                        self.count_to(&mut state, std::slice::from_ref(resource), next);
                    }
                }
                _ => self.count_to(&mut state, resources, next),
            }
        }
        Ok(Reply::Counted(token(next)))
    }

    fn confirm(&self, claim: &Claim, ttl: Ttl, fence: FencingToken) -> Result<Reply, NodeError> {
        if self.flaw == FencingIsClaimed {
            return Err(NodeError::unsupported("fence"));
        }
        let (resources, mut state) = (claim.resources(), self.state());
        let counter = self.greatest(&state, resources);
        let superseded = match self.flaw {
            ConfirmIgnoresCounters => false,
            ConfirmLooksAtOneCounter => self.counter(&state, &resources[0]) > fence.as_u64(),
            _ => counter > fence.as_u64(),
        };
        let separate = self.is_separate(true);
        let held = state.held(separate);
        match absent(held, claim) {
            Some(absent) if !absent.is_empty() && self.flaw == ConfirmCreates => {
                set(held, &absent, claim, ttl.as_duration());
            }
            Some(absent) if absent.is_empty() => {}
            _ if self.flaw == ConfirmComparesNothing => {}
            _ => {
                if self.flaw == DeniedConfirmRaises {
                    self.count_to(&mut state, resources, fence.as_u64());
                }
                return Ok(Reply::Denied(Denial::default()));
            }
        }
        if is_far(fence) && self.flaw != ConfirmTakesAnyToken {
            match self.flaw {
                FarConfirmRaises => self.count_to(&mut state, resources, counter + 1),
                FarConfirmLengthens => set(held, resources, claim, ttl.as_duration()),
                _ => {}
            }
            return Err(NodeError::rejected("too far ahead"));
        }
        if superseded {
            match self.flaw {
                SupersededIsDenied => return Ok(Reply::Denied(Denial::default())),
                SupersededLengthens => set(held, resources, claim, ttl.as_duration()),
                SupersededRaises if resources.len() == 1 => self.count_to(&mut state, resources, counter + 1),
                _ => {}
            }
            return Ok(Reply::Superseded(token(counter)));
        }
        let at_least = suspend_aware_now() + ttl.as_duration();
        for resource in resources {
            let Some((_, until)) = held.get_mut(resource) else { continue };
            match self.flaw {
                ConfirmLengthensNothing => {}
                ConfirmShortens => *until = at_least,
                _ => *until = at_least.max(*until),
            }
        }
        match self.flaw {
            ConfirmRaisesNothing => {}
            ConfirmRaisesOne => self.count_to(&mut state, &resources[..1], fence.as_u64()),
            _ => self.count_to(&mut state, resources, fence.as_u64()),
        }
        Ok(Reply::Granted)
    }

    fn refill_fenced(&self, claim: &Claim, ttl: Ttl, fence: FencingToken) -> Result<Reply, NodeError> {
        if self.flaw == FencingIsClaimed {
            return Err(NodeError::unsupported("fence"));
        }
        let (resources, mut state) = (claim.resources(), self.state());
        self.check_type(&state, claim)?;
        let counter = self.greatest(&state, resources);
        let separate = self.is_separate(true);
        let held = state.held(separate);
        let absent = match absent(held, claim) {
            Some(_) if self.flaw == RefillRearms => resources.to_vec(),
            Some(absent) => absent,
            None if self.flaw == RefillOverwrites => resources.to_vec(),
            None => {
                if self.flaw == RefillSetsOnlyFreeResources {
                    let free: Vec<_> =
                        resources.iter().filter(|one| !held.contains_key(one)).cloned().collect();
                    set(held, &free, claim, ttl.as_duration());
                }
                return Ok(Reply::Denied(Denial::default()));
            }
        };
        if is_far(fence) && self.flaw != RefillTakesAnyToken {
            match self.flaw {
                FarRefillSets => set(held, &absent, claim, ttl.as_duration()),
                FarRefillCounts => self.count_to(&mut state, resources, counter + 1),
                _ => {}
            }
            return Err(NodeError::rejected("too far ahead"));
        }
        if counter > fence.as_u64() && self.flaw != RefillIgnoresCounters {
            if self.flaw == RefillSupersededSets {
                set(held, &absent, claim, ttl.as_duration());
            }
            return Ok(Reply::Superseded(token(counter)));
        }
        if self.flaw != RefillSetsNothing {
            set(held, &absent, claim, ttl.as_duration());
        }
        match self.flaw {
            RefillRaisesNothing => {}
            RefillCounts => self.count_to(&mut state, resources, counter + 1),
            _ => self.count_to(&mut state, resources, fence.as_u64()),
        }
        Ok(Reply::Granted)
    }
}

/// Lets all other tasks run first.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
