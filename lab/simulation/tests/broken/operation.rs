//! An operation of a broken node over a [`MemoryNode`]: what is stored before it, and changes that a flaw makes.

use std::future::poll_fn;
use std::task::Poll;

use redlock_core::node::{Claim, Ttl};
use redlock_core::{FencingToken, Resource};
use redlock_testkit::MemoryNode;

/// An operation, and what the node stores before it.
pub(crate) struct Operation<'a> {
    pub(crate) memory: &'a MemoryNode,
    pub(crate) claim: &'a Claim,
    pub(crate) ttl: Ttl,
    pub(crate) counters: Vec<Option<FencingToken>>,
    pub(crate) free: Vec<Resource>,
}

impl<'a> Operation<'a> {
    pub(crate) fn new(memory: &'a MemoryNode, claim: &'a Claim, ttl: Ttl) -> Self {
        let resources = claim.resources();
        let counters = resources.iter().map(|resource| memory.fencing_counter(resource)).collect();
        let free = resources.iter().filter(|resource| memory.holder(*resource).is_none()).cloned().collect();
        Self { memory, claim, ttl, counters, free }
    }

    /// Returns the greatest counter.
    pub(crate) fn counter(&self) -> u64 {
        self.counters.iter().flatten().max().map_or(0, |counter| counter.as_u64())
    }

    /// Returns whether another client holds a resource.
    pub(crate) fn is_taken(&self) -> bool {
        let holders = self.claim.resources().iter().filter_map(|resource| self.memory.holder(resource));
        holders.into_iter().any(|holder| holder != *self.claim.token())
    }

    pub(crate) fn count(&self, resources: &[Resource], number: Option<FencingToken>) {
        for resource in resources {
            self.memory.set_counter(resource, number);
        }
    }

    pub(crate) fn count_to(&self, number: Option<FencingToken>) {
        self.count(self.claim.resources(), number);
    }

    /// Restores the counters from this resource on.
    pub(crate) fn restore_counters(&self, first: usize) {
        for (resource, counter) in self.claim.resources().iter().zip(&self.counters).skip(first) {
            self.memory.set_counter(resource, *counter);
        }
    }

    pub(crate) fn set(&self, resources: &[Resource], ttl: Ttl) {
        for resource in resources {
            self.memory.set_holder(resource, self.claim.token().clone(), ttl);
        }
    }

    /// Sets the time of each resource that anybody holds.
    pub(crate) fn rearm(&self) {
        for resource in self.claim.resources() {
            if let Some(holder) = self.memory.holder(resource) {
                self.memory.set_holder(resource, holder, self.ttl);
            }
        }
    }

    /// Removes the resources that were free before.
    pub(crate) fn remove_new(&self) {
        for resource in &self.free {
            self.memory.remove(resource);
        }
    }
}

/// Lets all other tasks run first.
pub(crate) async fn yield_now() {
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
