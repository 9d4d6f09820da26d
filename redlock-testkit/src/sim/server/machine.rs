//! The data and the behavior of a server: keys, a wall clock, and reasons for denials. Pure functions on values and a
//! given true time.
//!
//! The wall clock counts whole milliseconds, so a key expires up to one of them early. That is the worst behavior of a
//! server that follows its clock. The clock may be set, forward and back.

use std::time::Duration;

use event_listener::EventListener;
use redlock_core::{Instant, NodeError, Resource, Token, Vote};

use super::Carried;
use crate::faulty::state::{Request, as_vote};
use crate::memory::store::Store;
use crate::sim::Clock;
use crate::sim::watch;

pub(super) struct Machine {
    store: Store,
    clock: Clock,
    /// The total time by which the clock was set forward, from its origin.
    forward: Duration,
    /// The total time by which the clock was set back.
    back: Duration,
    pub(super) out_of_memory: bool,
    pub(super) read_only: bool,
}

/// The data that a server still has after a crash.
///
/// Only keys that would not have expired meanwhile matter. Non-lock values are always kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// All data: the server syncs every write.
    #[default]
    All,
    /// Every second lock in the order of resources, and the counters of fencing tokens.
    ///
    /// The server syncs from time to time and was killed in between. A part of a claim on several resources may be
    /// left, which no client ever wrote in this form.
    Part,
    /// No lock, but the counters of fencing tokens.
    Counters,
    /// No data: the server has no persistence.
    Nothing,
}

/// The initial time of wall clocks, far enough from zero to be set back.
const EPOCH: Duration = Duration::from_secs(1_000_000);

impl Machine {
    pub(super) fn new(clock: Clock) -> Self {
        let (forward, back) = (EPOCH, Duration::ZERO);
        Self { store: Store::default(), clock, forward, back, out_of_memory: false, read_only: false }
    }

    pub(super) fn carry_out(&mut self, request: &Request, now: Instant) -> Carried {
        let shown = self.shown(now);
        let mut changed: Option<EventListener> = None;
        let answer = match request {
            Request::Inspect(claim) => self.store.inspect(&claim.resources()[0], shown).map(as_vote),
            Request::Watch(claim) => {
                let (availability, listener) = self.store.watch(&claim.resources()[0], shown);
                changed = Some(listener);
                Ok(watch::as_vote(availability))
            }
            _ if self.read_only => Err(NodeError::rejected("READONLY You can't write against a replica")),
            _ if self.out_of_memory && request.creates() => {
                Err(NodeError::rejected("OOM command not allowed"))
            }
            Request::Acquire(claim, ttl) => self.store.acquire(claim, *ttl, shown),
            Request::Extend(claim, ttl) => self.store.extend(claim, *ttl, shown),
            Request::Keep(claim, ttl) => self.store.keep_for(claim, *ttl, shown),
            Request::AcquireFenced(claim, ttl) => self.store.acquire_fenced(claim, *ttl, shown),
            Request::Confirm(claim, ttl, fence) => self.store.confirm(claim, *ttl, *fence, shown),
            Request::RefillFenced(claim, ttl, fence) => self.store.refill_fenced(claim, *ttl, *fence, shown),
            Request::Release(claim) => Ok(self.store.release(claim, shown)),
        };
        let asks = matches!(request, Request::Release(_) | Request::Inspect(_) | Request::Watch(_));
        let wrote = !asks && matches!(answer, Ok(Vote::Granted | Vote::Counted(_)));
        let until = if wrote { self.until(request, now) } else { None };
        Carried { answer, until, changed }
    }

    /// Sets a non-lock value under a resource, as `RPUSH` would.
    ///
    /// Returns whether it was set: not over a lock, and not while writes are rejected.
    pub(super) fn set_non_lock_value(&mut self, resource: &Resource, now: Instant) -> bool {
        let can = !self.read_only && !self.out_of_memory && self.store.is_free(resource, self.shown(now));
        if can {
            self.store.set_non_lock_value(resource.clone());
        }
        can
    }

    /// Deletes a non-lock value. Returns whether there was one.
    pub(super) fn remove_other(&mut self, resource: &Resource) -> bool {
        self.store.remove_other(resource)
    }

    /// Loses locks. Returns the lost tokens.
    pub(super) fn lose_all_but(&mut self, keeps: &Persistence, now: Instant) -> Vec<Token> {
        let shown = self.shown(now);
        let lost = |turn: usize| match keeps {
            Persistence::All => false,
            Persistence::Part => turn % 2 == 0,
            Persistence::Counters | Persistence::Nothing => true,
        };
        let locks = self.store.locks(shown).into_iter().enumerate();
        let lost: Vec<_> = locks
            .filter(|(turn, _)| lost(*turn))
            .map(|(_, (resource, token, _))| (resource.clone(), token.clone()))
            .collect();
        let forget = |(resource, token)| {
            self.store.remove(&resource);
            token
        };
        lost.into_iter().map(forget).collect()
    }

    /// Loses the counters of fencing tokens. Returns whether there was any.
    pub(super) fn lose_counters(&mut self) -> bool {
        self.store.counters.clear()
    }

    /// Ignores the time in counters from now on.
    pub(super) fn count_without_time(&mut self) {
        self.store.counters.timeless = true;
    }

    /// Sets the clock. Returns the new true expiry of each lock; of an expired lock the current time.
    pub(super) fn step_clock(&mut self, millis: i64, now: Instant) -> Vec<(Token, Instant)> {
        let stood = self.expiring(now);
        let by = Duration::from_millis(millis.unsigned_abs());
        if millis < 0 {
            self.back += by;
        } else {
            self.forward += by;
        }
        stood.into_iter().map(|(token, expires)| (token, self.true_time(expires, now))).collect()
    }

    /// Returns the live locks, and their true expiry.
    pub(super) fn locks(&self, now: Instant) -> Vec<(Token, Instant)> {
        let locks = self.expiring(now).into_iter();
        locks.map(|(token, expires)| (token, self.true_time(expires, now))).collect()
    }

    /// Returns the live locks, and their expiry by the clock.
    fn expiring(&self, now: Instant) -> Vec<(Token, Instant)> {
        let locks = self.store.locks(self.shown(now)).into_iter();
        locks.filter_map(|(_, token, expires)| Some((token.clone(), expires?))).collect()
    }

    /// Returns the true time at which the first key of a request expires.
    fn until(&self, request: &Request, now: Instant) -> Option<Instant> {
        let shown = self.shown(now);
        let resources = request.claim().resources().iter();
        let expires = resources.filter_map(|resource| self.store.remaining(resource, shown)).min()?;
        Some(self.true_time(shown + expires, now))
    }

    /// Returns the time that the clock shows, in whole milliseconds.
    fn shown(&self, now: Instant) -> Instant {
        let exact = self.exact(now);
        exact - Duration::from_nanos(u64::from(exact.elapsed_since_origin().subsec_nanos()) % 1_000_000)
    }

    fn exact(&self, now: Instant) -> Instant {
        self.clock.at(now) + self.forward - self.back
    }

    /// Returns the true time at which the clock shows `shown`, if it is not set.
    fn true_time(&self, shown: Instant, now: Instant) -> Instant {
        now + self.clock.true_duration(shown.saturating_duration_since(self.exact(now)))
    }
}

#[cfg(test)]
mod tests {
    use redlock_core::{Claim, IntoResources, Ttl};

    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::since_origin(Duration::from_micros(micros))
    }

    fn acquire(resource: &str) -> Request {
        let claim = Claim::new(resource.into_resources().unwrap(), Token::from_bytes(resource));
        Request::Acquire(claim, Ttl::MIN)
    }

    #[test]
    fn a_key_dies_less_than_a_millisecond_early() {
        let mut machine = Machine::new(Clock::default());
        assert_eq!(Some(at(10_000)), machine.carry_out(&acquire("a"), at(900)).until);
        assert_eq!((1, 0), (machine.locks(at(9_999)).len(), machine.locks(at(10_000)).len()));
    }

    #[test]
    fn a_clock_that_is_set_forward_kills_keys_and_one_that_is_set_back_keeps_them() {
        for (millis, until) in [(4, 6_000), (-4, 14_000)] {
            let mut machine = Machine::new(Clock::default());
            machine.carry_out(&acquire("a"), at(0));
            let moved = machine.step_clock(millis, at(0));
            assert_eq!(vec![(Token::from_bytes("a"), at(until))], moved);
            assert_eq!(moved, machine.locks(at(0)));
        }
    }

    #[test]
    fn a_clock_that_is_set_too_far_kills_keys_at_once() {
        let mut machine = Machine::new(Clock::default());
        machine.carry_out(&acquire("a"), at(0));
        assert_eq!(vec![(Token::from_bytes("a"), at(2_000))], machine.step_clock(60_000, at(2_000)));
        assert!(machine.locks(at(2_000)).is_empty());
    }

    #[test]
    fn a_fast_clock_kills_keys_early() {
        let mut machine = Machine::new(Clock { drift_ppm: 250_000, ..Clock::default() });
        assert_eq!(Some(at(8_000)), machine.carry_out(&acquire("a"), at(0)).until);
    }

    #[test]
    fn what_would_have_expired_is_not_lost() {
        let lost = |keeps, when| {
            let mut machine = Machine::new(Clock::default());
            for name in ["a", "b", "c"] {
                machine.carry_out(&acquire(name), at(0));
            }
            machine.lose_all_but(&keeps, at(when)).len()
        };
        assert_eq!(
            (0, 2, 3),
            (lost(Persistence::All, 1), lost(Persistence::Part, 1), lost(Persistence::Nothing, 1))
        );
        assert_eq!(0, lost(Persistence::Nothing, 10_000));
    }
}
