//! The counters for the fencing tokens of one node. Pure functions on values and a given time.
//!
//! A counter outlives the locks on its resource: it expires a day after its last use. The time with which the next
//! counter starts is greater by then. A number for which the time would not be greater is rejected.

use std::collections::HashMap;
use std::time::Duration;

use redlock_core::node::{NodeError, Ttl};
use redlock_core::runtime::Instant;
use redlock_core::{FencingToken, Resource};

/// The retention of a counter after its last lock, and its maximum clock lead.
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// The number of each counter, and its expiry.
pub(crate) type Numbers = HashMap<Resource, (FencingToken, Instant)>;

#[derive(Default)]
pub(crate) struct Counters {
    numbers: Numbers,
    sweep_at: usize,
    /// If `true`, a new counter starts with 1, regardless of the time.
    pub(crate) from_one: bool,
}

impl Counters {
    pub(crate) fn of(&self, resource: &Resource, now: Instant) -> Option<FencingToken> {
        self.numbers.get(resource).filter(|(_, expires)| now < *expires).map(|(number, _)| *number)
    }

    /// Returns the greatest of the resources' counters, and whether all have one.
    pub(crate) fn greatest(&self, resources: &[Resource], now: Instant) -> (Option<FencingToken>, bool) {
        let counters = || resources.iter().map(|resource| self.of(resource, now));
        (counters().flatten().max(), counters().all(|counter| counter.is_some()))
    }

    /// Returns the new value of the counters when the node grants all resources.
    pub(crate) fn next(&self, resources: &[Resource], now: Instant) -> Result<FencingToken, NodeError> {
        let time = if self.from_one { Duration::ZERO } else { now.elapsed_since_origin() };
        let next = FencingToken::next(self.greatest(resources, now).0, time);
        self.check(resources, next.unwrap_or(FencingToken::MAX), now)?;
        next.ok_or_else(|| NodeError::damaged_counter("the fencing counter is exhausted (2^53 - 1)"))
    }

    /// Fails if a number, or a counter of the resources, is too far ahead of the clock.
    pub(crate) fn check(
        &self,
        resources: &[Resource],
        number: FencingToken,
        now: Instant,
    ) -> Result<(), NodeError> {
        let time = now.elapsed_since_origin();
        let message = |what: &str, number: FencingToken| {
            let ahead = Duration::from_micros(number.as_u64()).saturating_sub(time).as_secs();
            format!("{what} is {ahead}s ahead of the server's clock, more than the counter retention")
        };
        let far = |number: &FencingToken| !number.is_plausible(time, RETENTION);
        for resource in resources {
            if let Some(counter) = self.of(resource, now).filter(far) {
                let what = format!("the fencing counter of {resource:?}, {counter},");
                return Err(NodeError::damaged_counter(message(&what, counter)));
            }
        }
        if far(&number) {
            return Err(NodeError::rejected(message(&format!("the fencing token {number}"), number)));
        }
        Ok(())
    }

    pub(crate) fn set(&mut self, resources: &[Resource], number: FencingToken, ttl: Ttl, now: Instant) {
        if self.numbers.len() >= self.sweep_at {
            self.numbers.retain(|_, (_, expires)| now < *expires);
            self.sweep_at = (2 * self.numbers.len()).max(64);
        }
        let expires = now + ttl.as_duration() + RETENTION;
        for resource in resources {
            self.numbers.insert(resource.clone(), (number, expires));
        }
    }

    /// Deletes all counters. Returns whether there was any.
    pub(crate) fn clear(&mut self) -> bool {
        let any = !self.numbers.is_empty();
        self.numbers.clear();
        any
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Replaces all numbers. New counters start as before.
    pub(crate) fn restore(&mut self, numbers: &Numbers) {
        self.numbers.clone_from(numbers);
    }

    pub(crate) fn remove(&mut self, resource: &Resource) {
        self.numbers.remove(resource);
    }
}
