//! Nodes whose fenced operations are broken on purpose, each with the case that catches it.
//!
//! A [`MemoryNode`] carries out each request. Then a flaw changes the reply, the counters or the keys.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redlock_core::node::{
    self, Claim, Denial, LockNode, NodeError, Profile, Reply, Request, Ttl, async_trait,
};
use redlock_core::{FencingToken, IntoResource, Resource};
use redlock_testkit::MemoryNode;
use redlock_testkit::conformance::{self, Backend};

use self::Flaw::*;
use super::operation::{Operation, yield_now};

flaws! {
    sound: conformance::cases().filter(|case| catches(case));
    // acquire
    AcquireOnlyCounts: "a_fenced_acquire_grants_a_free_resource" => "sets every resource of the claim";
    AcquireNeverExpires: "a_fenced_acquire_grants_a_free_resource" => "expires after its ttl";
    RaisesNoCounter: "a_counter_grows_by_one_or_goes_to_the_time" => "the next of the greatest";
    CountsByTwo: "a_counter_grows_by_one_or_goes_to_the_time" => "the next of the greatest";
    BeginsWithAnyTime: "a_counter_grows_by_one_or_goes_to_the_time" => "in whole steps";
    DeniedAcquireCounts: "a_denied_fenced_acquire_changes_nothing" => "no counter either";
    DeniedAcquireCountsFreeResources: "a_denied_fenced_acquire_changes_nothing" => "no counter either";
    DeniedAcquireExtends: "a_denied_fenced_acquire_changes_nothing" => "still held";
    RepeatedAcquireCounts: "a_fenced_acquire_with_the_same_token_counts_once" => "changes no counter";
    RepeatedAcquireExtends: "a_fenced_acquire_again_does_not_change_the_time" => "as it is";
    SetsAbsentWithoutCounting: "a_fenced_acquire_sets_absent_resources_and_counts" =>
        "the next of the greatest";
    CountsTheFirstOnly: "several_resources_count_above_the_greatest_counter" => "the next of the greatest";
    CountsEachByItself: "several_resources_count_above_the_greatest_counter" => "the next of the greatest";
    OneCounterForAll: "every_resource_has_its_own_counter" => "a separate counter";
    CountersAreTrimmed: "every_resource_has_its_own_counter" => "a separate counter";
    ChecksThenCounts: "one_of_many_fenced_claims_at_once_counts" => "atomic on its node";
    // others
    ReleaseForgets: "a_counter_outlives_its_lock" => "release leaves the counters alone";
    CountersExpire: "a_counter_outlives_its_lock" => "kept when its lock expires";
    PlainCounts: "plain_locks_do_not_change_counters" => "leave the counters alone";
    PlainForgets: "plain_locks_do_not_change_counters" => "leave the counters alone";
    FencedLocksAreSeparate: "plain_and_fenced_locks_exclude_each_other" => "exclude each other";
    ClientsHaveSeparateCounters: "two_clients_count_on_one_server" => "on the same counters";
    AnyTypeIsALock: "a_non_lock_value_is_an_error_for_fenced_operations" => "of the kind WrongType";
    // confirm
    ConfirmRaisesNothing: "confirm_raises_the_counters" => "of all resources fence";
    ConfirmRaisesOne: "confirm_raises_the_counters" => "of all resources fence";
    ConfirmLengthensNothing: "confirm_prolongs_and_never_shortens" => "of every resource at least ttl";
    ConfirmShortens: "confirm_prolongs_and_never_shortens" => "never shortens";
    ConfirmComparesNothing: "confirm_denies_missing_and_foreign_resources" => "does not hold the token";
    ConfirmCreates: "confirm_denies_missing_and_foreign_resources" => "does not hold the token";
    DeniedConfirmRaises: "confirm_denies_missing_and_foreign_resources" => "no counter either";
    ConfirmIgnoresCounters: "a_superseded_confirm_changes_nothing" => "the result is Superseded";
    ConfirmLooksAtOneCounter: "a_superseded_confirm_changes_nothing" => "the result is Superseded";
    SupersededIsDenied: "a_superseded_confirm_changes_nothing" => "the result is Superseded";
    SupersededLengthens: "a_superseded_confirm_changes_nothing" => "still held";
    SupersededRaises: "a_superseded_confirm_changes_nothing" => "superseded changes nothing";
    ConfirmTakesAnyToken: "a_token_far_ahead_of_the_clock_is_an_error" => "of the kind Rejected";
    FarConfirmRaises: "a_token_far_ahead_of_the_clock_is_an_error" => "nothing is changed";
    FarConfirmLengthens: "a_token_far_ahead_of_the_clock_is_an_error" => "still held";
    // refill
    RefillSetsNothing: "refill_sets_absent_resources_and_raises_the_counters" => "sets what is absent";
    RefillRaisesNothing: "refill_sets_absent_resources_and_raises_the_counters" => "of all resources fence";
    RefillCounts: "refill_sets_absent_resources_and_raises_the_counters" => "of all resources fence";
    RefillRearms: "refill_sets_absent_resources_and_raises_the_counters" => "as it is";
    RefillOverwrites: "refill_denies_a_resource_of_another_holder" =>
        "is denied where a resource holds another";
    RefillSetsOnlyFreeResources: "refill_denies_a_resource_of_another_holder" => "changes nothing";
    RefillIgnoresCounters: "a_superseded_refill_changes_nothing" => "the result is Superseded";
    RefillSupersededSets: "a_superseded_refill_changes_nothing" => "superseded changes nothing";
    RefillTakesAnyToken: "a_token_far_ahead_of_the_clock_is_an_error" => "of the kind Rejected";
    FarRefillSets: "a_token_far_ahead_of_the_clock_is_an_error" => "nothing is changed";
    FarRefillCounts: "a_token_far_ahead_of_the_clock_is_an_error" => "nothing is changed";
    // capabilities
    FencingIsNotReported: "the_profile_reports_support_for_fencing" => "says so in its profile";
    FencingIsClaimed: "the_profile_reports_support_for_fencing" => "says so in its profile";
}

struct Server {
    flaw: Flaw,
    memory: MemoryNode,
    /// The resources that were granted, and not released since.
    granted: Arc<Mutex<BTreeSet<Resource>>>,
}

fn server(flaw: Flaw) -> Server {
    let memory = MemoryNode::new("broken");
    memory.count_from_one();
    Server { flaw, memory, granted: Arc::default() }
}

impl Backend for Server {
    async fn node(&self) -> Arc<dyn LockNode> {
        let (flaw, memory, granted) = (self.flaw, self.memory.clone(), Arc::clone(&self.granted));
        let (separate, own) = (MemoryNode::new("separate"), AtomicU64::new(1));
        Arc::new(Arc::new(Node { flaw, memory, separate, granted, own }))
    }

    async fn no_lock(&self) -> Option<Resource> {
        self.memory.set_non_lock_value("list");
        "list".into_resource().ok()
    }
}

struct Node {
    flaw: Flaw,
    memory: MemoryNode,
    /// The fenced locks of a node that stores them separately.
    separate: MemoryNode,
    granted: Arc<Mutex<BTreeSet<Resource>>>,
    /// The counter of a client that does not share it.
    own: AtomicU64,
}

#[async_trait]
impl node::Backend for Node {
    fn label(&self) -> &str {
        self.memory.label()
    }

    async fn reply_to(&self, request: &Request) -> Result<Reply, NodeError> {
        if self.flaw == CountersExpire {
            let is_free = |resource: &&Resource| self.memory.holder(*resource).is_none();
            self.granted()
                .iter()
                .filter(is_free)
                .for_each(|resource| self.memory.set_counter(resource, None));
        }
        match request {
            Request::Acquire(claim, ttl) => {
                self.plain(request, &Operation::new(&self.memory, claim, *ttl)).await
            }
            Request::Extend(..) => self.memory.call(request.clone()).await,
            Request::Release(claim) => {
                if self.flaw == ReleaseForgets {
                    Operation::new(&self.memory, claim, Ttl::MIN).count_to(None);
                }
                if self.flaw == CountersExpire {
                    self.granted().retain(|resource| !claim.resources().contains(resource));
                }
                self.memory.call(request.clone()).await
            }
            Request::AcquireFenced(..) | Request::Confirm(..) | Request::Refill(..)
                if self.flaw == FencingIsClaimed =>
            {
                Err(NodeError::unsupported("fence"))
            }
            Request::AcquireFenced(claim, ttl) => {
                if self.flaw == ChecksThenCounts {
                    let is_taken = Operation::new(&self.memory, claim, *ttl).is_taken();
                    yield_now().await;
                    if !is_taken {
                        claim.resources().iter().for_each(|resource| self.memory.remove(resource));
                    }
                }
                let memory = if self.flaw == FencedLocksAreSeparate { &self.separate } else { &self.memory };
                let before = Operation::new(memory, claim, *ttl);
                self.acquired(&before, memory.call(request.clone()).await)
            }
            Request::Confirm(claim, ttl, fence) => {
                let before = Operation::new(&self.memory, claim, *ttl);
                let ttl = if self.flaw == ConfirmLengthensNothing { Ttl::MIN } else { *ttl };
                let reply = self.memory.call(Request::Confirm(claim.clone(), ttl, *fence)).await;
                self.confirmed(&before, *fence, reply)
            }
            Request::Refill(claim, ttl, _) => {
                let before = Operation::new(&self.memory, claim, *ttl);
                self.refilled(&before, self.memory.call(request.clone()).await)
            }
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
    fn granted(&self) -> MutexGuard<'_, BTreeSet<Resource>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn plain(&self, request: &Request, before: &Operation<'_>) -> Result<Reply, NodeError> {
        let reply = self.memory.call(request.clone()).await?;
        match self.flaw {
            PlainCounts if reply.is_grant() => before.count_to(token(before.counter() + 1)),
            PlainForgets => drop(self.memory.clear_counters()),
            _ => {}
        }
        Ok(reply)
    }

    fn acquired(&self, before: &Operation<'_>, reply: Result<Reply, NodeError>) -> Result<Reply, NodeError> {
        let Operation { claim, ttl, .. } = *before;
        let grown = match reply {
            Err(_) if self.flaw == AnyTypeIsALock => return Ok(Reply::Granted),
            Ok(Reply::Counted(counted)) => counted.as_u64(),
            other => {
                match self.flaw {
                    DeniedAcquireCounts => before.count_to(token(before.counter() + 1)),
                    DeniedAcquireCountsFreeResources => {
                        before.count(&before.free, token(before.counter() + 1));
                    }
                    DeniedAcquireExtends => before.rearm(),
                    _ => {}
                }
                return other;
            }
        };
        let (counter, free) = (before.counter(), before.free.len());
        self.granted().extend(claim.resources().iter().cloned());
        match self.flaw {
            AcquireOnlyCounts => before.remove_new(),
            AcquireNeverExpires => before.set(&before.free, Ttl::MAX),
            RepeatedAcquireExtends if free == 0 => before.set(claim.resources(), ttl),
            CountsEachByItself => {
                before.restore_counters(0);
                for resource in claim.resources() {
                    let own = self.memory.fencing_counter(resource).map_or(0, FencingToken::as_u64);
                    before.count(std::slice::from_ref(resource), token(own + 1));
                }
            }
            OneCounterForAll => before.count(&self.alike(claim, |_| String::new()), token(grown)),
            CountersAreTrimmed => {
                let trimmed = |name: &Resource| format!("{name:?}").replace(['{', '}', ':'], "");
                before.count(&self.alike(claim, trimmed), token(grown));
            }
            _ => {}
        }
        let next = match self.flaw {
            RaisesNoCounter => counter.max(1),
            CountsByTwo if counter > 0 && free > 0 => counter + 2,
            BeginsWithAnyTime if counter == 0 => 1_234_567,
            RepeatedAcquireCounts if free == 0 => counter + 1,
            SetsAbsentWithoutCounting if (1..claim.resources().len()).contains(&free) => counter,
            CountsTheFirstOnly if free > 0 => before.counters[0].map_or(0, FencingToken::as_u64) + 1,
            ClientsHaveSeparateCounters => self.own.fetch_add(1, Ordering::Relaxed),
            _ => grown,
        };
        if next != grown {
            before.count_to(token(next));
        }
        Ok(Reply::Counted(token(next).unwrap_or(FencingToken::MAX)))
    }

    /// Returns the resources whose counters have the same name as those of a claim.
    fn alike(&self, claim: &Claim, name: impl Fn(&Resource) -> String) -> Vec<Resource> {
        let is_alike =
            |other: &&Resource| claim.resources().iter().any(|resource| name(resource) == name(other));
        self.granted().iter().filter(is_alike).cloned().collect()
    }

    fn confirmed(
        &self,
        before: &Operation<'_>,
        fence: FencingToken,
        reply: Result<Reply, NodeError>,
    ) -> Result<Reply, NodeError> {
        let Operation { claim, ttl, .. } = *before;
        let next = token(before.counter() + 1);
        match (self.flaw, &reply) {
            (ConfirmTakesAnyToken, Err(_))
            | (ConfirmComparesNothing, Ok(Reply::Denied(_)))
            | (ConfirmIgnoresCounters, Ok(Reply::Superseded(_))) => return Ok(Reply::Granted),
            (ConfirmLooksAtOneCounter, Ok(Reply::Superseded(_))) if before.counters[0] <= Some(fence) => {
                return Ok(Reply::Granted);
            }
            (ConfirmCreates, Ok(Reply::Denied(_))) if !before.is_taken() => {
                before.set(&before.free, ttl);
                return Ok(Reply::Granted);
            }
            (SupersededIsDenied, Ok(Reply::Superseded(_))) => return Ok(Reply::Denied(Denial::default())),
            (FarConfirmRaises, Err(_)) => before.count_to(next),
            (SupersededRaises, Ok(Reply::Superseded(_))) if claim.resources().len() == 1 => {
                before.count_to(next);
            }
            (DeniedConfirmRaises, Ok(Reply::Denied(_))) => before.count_to(Some(fence)),
            (FarConfirmLengthens, Err(_))
            | (SupersededLengthens, Ok(Reply::Superseded(_)))
            | (ConfirmShortens, Ok(Reply::Granted)) => before.set(claim.resources(), ttl),
            (ConfirmRaisesNothing, Ok(Reply::Granted)) => before.restore_counters(0),
            (ConfirmRaisesOne, Ok(Reply::Granted)) => before.restore_counters(1),
            _ => {}
        }
        reply
    }

    fn refilled(&self, before: &Operation<'_>, reply: Result<Reply, NodeError>) -> Result<Reply, NodeError> {
        let Operation { claim, ttl, .. } = *before;
        let next = token(before.counter() + 1);
        match (self.flaw, &reply) {
            (RefillTakesAnyToken | AnyTypeIsALock, Err(_))
            | (RefillIgnoresCounters, Ok(Reply::Superseded(_))) => return Ok(Reply::Granted),
            (RefillOverwrites, Ok(Reply::Denied(_))) => {
                before.set(claim.resources(), ttl);
                return Ok(Reply::Granted);
            }
            (RefillSetsOnlyFreeResources, Ok(Reply::Denied(_)))
            | (RefillSupersededSets, Ok(Reply::Superseded(_)))
            | (FarRefillSets, Err(_)) => before.set(&before.free, ttl),
            (FarRefillCounts, Err(_)) | (RefillCounts, Ok(Reply::Granted)) => before.count_to(next),
            (RefillSetsNothing, Ok(Reply::Granted)) => before.remove_new(),
            (RefillRaisesNothing, Ok(Reply::Granted)) => before.restore_counters(0),
            (RefillRearms, Ok(Reply::Granted)) => before.set(claim.resources(), ttl),
            _ => {}
        }
        reply
    }
}

fn token(number: u64) -> Option<FencingToken> {
    FencingToken::new(number)
}
