//! Nodes that keep the places of waiting requests, with one flaw each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redlock_core::node::{
    self, Claim, Denial, LockNode, NodeError, Place, Profile, Reply, Request, Token, async_trait,
};
use redlock_core::{IntoResources, Position, Resource};
use redlock_testkit::MemoryNode;
use redlock_testkit::conformance::{self, Backend};

use self::Flaw::*;

flaws! {
    sound: conformance::cases().filter(|case| catches(case));
    LastComesFirst: "a_release_reserves_for_the_longest_wait" => "counts as absent for its request",
        "a_request_is_preceded_by_a_longer_wait" => "if another place has waited longer";
    ForgetsFailedAttempts: "a_failed_attempt_can_keep_its_place" => "for the place that has waited longest";
    NeverLeaves: "a_place_can_be_left" => "a place that no longer waits is left";
    LeavesNoGap: "some_releases_reserve_nothing" => "reserves nothing";
    ForgetsFencedRequests: "a_fenced_request_has_a_place" => "for the place that has waited longest";
    ForgetsSeveralResources: "a_request_for_two_resources_has_its_turn_on_each" =>
        "for the place that has waited longest";
    RanksFromTheEnd: "the_number_of_waiters_and_the_position_are_correct" => "is its rank among the places";
    CountsPlacesForever: "the_number_of_waiters_and_the_position_are_correct" =>
        "counts the places that wait";
    ForgetsReaders: "a_reader_has_its_turn_on_the_resource_or_the_gate" => "counts as absent for its request";
    KeepsReservationsForOneReader: "readers_use_the_reservation_of_a_reader" =>
        "counts as absent for every reader";
}

struct Server(Node);

fn server(flaw: Flaw) -> Server {
    Server(Node { flaw, memory: MemoryNode::new("places"), most_waiters: Arc::default() })
}

impl Backend for Server {
    async fn node(&self) -> Arc<dyn LockNode> {
        Arc::new(Arc::new(self.0.clone()))
    }

    async fn no_lock(&self) -> Option<Resource> {
        None
    }
}

#[derive(Clone)]
struct Node {
    flaw: Flaw,
    memory: MemoryNode,
    /// The greatest number of waiters so far.
    most_waiters: Arc<AtomicU32>,
}

impl Node {
    /// Returns the claim that the node takes a claim for.
    fn taken_for(&self, claim: &Claim) -> Claim {
        let resources = claim.resources().into_resources().expect("the names are valid");
        let mut bytes = claim.token().as_bytes().to_vec();
        if self.flaw == LeavesNoGap {
            bytes.push(b'1');
        }
        let taken = Claim::new(resources, Token::from_bytes(bytes));
        match (self.flaw, claim.place()) {
            (NeverLeaves, Some(Place { waited: None, .. })) | (_, None) => taken,
            (LastComesFirst, Some(Place { id, waited: Some(waited), reserved_for, .. })) => {
                let waited = Duration::from_secs(1_000).saturating_sub(*waited);
                taken.with_place(Place::new(id.clone(), waited, *reserved_for))
            }
            (_, Some(place)) => taken.with_place(place.clone()),
        }
    }

    /// Returns a reply with the numbers that the node states.
    fn stated(&self, reply: Reply) -> Reply {
        match (self.flaw, reply) {
            (RanksFromTheEnd, Reply::Denied(denial)) => match denial.position {
                Some(Position { rank, waiters, .. }) => {
                    Reply::Denied(denial.at(Position::new(waiters + 1 - rank, waiters)))
                }
                None => Reply::Denied(denial),
            },
            (CountsPlacesForever, Reply::Held(entry)) => {
                let waiters = self.most_waiters.fetch_max(entry.waiters.unwrap_or(0), Ordering::Relaxed);
                let waiters = waiters.max(entry.waiters.unwrap_or(0));
                Reply::Held(entry.with_waiters(waiters))
            }
            (_, reply) => reply,
        }
    }

    /// Returns whether a resource or the gate is reserved for another reader.
    fn is_reserved_for_another(&self, claim: &Claim, gate: &Resource) -> bool {
        claim.resources().iter().chain([gate]).any(|resource| {
            let holder = self.memory.holder(resource);
            let other = holder.filter(|holder| claim.place().is_none_or(|place| place.id != *holder));
            other.is_some_and(|holder| holder.is_place_of_reader())
        })
    }

    /// Returns the same claim without its place.
    fn placeless(claim: &Claim) -> Claim {
        let resources = claim.resources().into_resources().expect("the names are valid");
        Claim::new(resources, claim.token().clone())
    }
}

#[async_trait]
impl node::Backend for Node {
    fn label(&self) -> &str {
        self.memory.label()
    }

    async fn reply_to(&self, request: &Request) -> Result<Reply, NodeError> {
        let request = match request {
            Request::Acquire(claim, ttl)
                if self.flaw == ForgetsSeveralResources && claim.resources().len() > 1 =>
            {
                Request::Acquire(Self::placeless(claim), *ttl)
            }
            Request::Acquire(claim, ttl) => Request::Acquire(self.taken_for(claim), *ttl),
            Request::Extend(claim, ttl) => Request::Extend(self.taken_for(claim), *ttl),
            Request::Release(claim) if self.flaw == ForgetsFailedAttempts => {
                Request::Release(Self::placeless(claim))
            }
            Request::Release(claim) => Request::Release(self.taken_for(claim)),
            Request::AcquireFenced(claim, ttl) if self.flaw == ForgetsFencedRequests => {
                Request::AcquireFenced(Self::placeless(claim), *ttl)
            }
            Request::AcquireFenced(claim, ttl) => Request::AcquireFenced(self.taken_for(claim), *ttl),
            Request::Inspect(resource) => Request::Inspect(resource.clone()),
            Request::AcquireShared(claim, gate, ttl) if self.flaw == ForgetsReaders => {
                Request::AcquireShared(Self::placeless(claim), gate.clone(), *ttl)
            }
            Request::AcquireShared(claim, gate, _)
                if self.flaw == KeepsReservationsForOneReader
                    && self.is_reserved_for_another(claim, gate) =>
            {
                return Ok(Reply::Denied(Denial::default()));
            }
            Request::AcquireShared(claim, gate, ttl) => {
                Request::AcquireShared(self.taken_for(claim), gate.clone(), *ttl)
            }
            other => return Err(NodeError::unsupported(other)),
        };
        Ok(self.stated(self.memory.call(request).await?))
    }

    fn profile(&self) -> Profile {
        Profile::default().with_places().with_fencing().with_inspect().with_shared()
    }
}
