//! What a server has and does, on values and the true time handed in: keys, a wall clock, and reasons to say no.
//!
//! The wall clock counts whole milliseconds, so a key dies up to one of them early: the worst that a server may do that
//! keeps to its clock. It may be set, forward and back.

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
    /// By how much the clock was set forward in all, from its origin.
    forward: Duration,
    /// By how much it was set back.
    back: Duration,
    pub(super) out_of_memory: bool,
    pub(super) read_only: bool,
}

/// What a server still has after a crash, of what would not have expired meanwhile. What is no lock it always has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keeps {
    /// Everything: it syncs every write.
    #[default]
    All,
    /// The second lock, the fourth and so on, in the order of the resources: it syncs now and then, and was killed in
    /// between. Of a claim of several resources a part may be left, which nobody ever wrote in this form. And the counters
    /// of fencing tokens.
    Part,
    /// No lock, and the counters of fencing tokens.
    Counters,
    /// Nothing: it has no persistence.
    Nothing,
}

/// Where wall clocks stand at the beginning: far enough from zero to be set back.
const EPOCH: Duration = Duration::from_secs(1_000_000);

impl Machine {
    pub(super) fn new(clock: Clock) -> Self {
        let (forward, back) = (EPOCH, Duration::ZERO);
        Self { store: Store::default(), clock, forward, back, out_of_memory: false, read_only: false }
    }

    pub(super) fn carry_out(&mut self, request: &Request, now: Instant) -> Carried {
        let shown = self.shown(now);
        #[cfg(redlock_broken)]
        if !self.read_only && !self.out_of_memory {
            super::broken::prepare(&mut self.store, request, shown);
        }
        #[cfg(redlock_broken)]
        if !self.read_only && !self.out_of_memory {
            if let Some(answer) = super::broken::answer(&mut self.store, request, shown) {
                let until = answer.as_ref().ok().and_then(|_| self.until(request, now));
                return Carried { answer, until, changed: None };
            }
        }
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

    /// Puts something that is no lock under a resource, as `RPUSH` would. Answers whether it could: not over a lock, and
    /// not while nothing can be written.
    pub(super) fn put_other(&mut self, resource: &Resource, now: Instant) -> bool {
        let can = !self.read_only && !self.out_of_memory && self.store.is_free(resource, self.shown(now));
        if can {
            self.store.put_other(resource.clone());
        }
        can
    }

    /// Deletes what is no lock. Answers whether there was such a thing.
    pub(super) fn remove_other(&mut self, resource: &Resource) -> bool {
        self.store.remove_other(resource)
    }

    /// Loses locks. Answers which of them would stand.
    pub(super) fn lose_all_but(&mut self, keeps: &Keeps, now: Instant) -> Vec<Token> {
        let shown = self.shown(now);
        let lost = |turn: usize| match keeps {
            Keeps::All => false,
            Keeps::Part => turn % 2 == 0,
            Keeps::Counters | Keeps::Nothing => true,
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

    /// Loses the counters of fencing tokens. Answers whether there was any.
    pub(super) fn lose_counters(&mut self) -> bool {
        self.store.counters.clear()
    }

    /// Counts without the time from now on.
    pub(super) fn count_without_time(&mut self) {
        self.store.counters.timeless = true;
    }

    /// Sets the clock. Answers until when each lock stands from now on; where it is dead, until now.
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

    /// The locks that stand, and until when in true time.
    pub(super) fn locks(&self, now: Instant) -> Vec<(Token, Instant)> {
        let locks = self.expiring(now).into_iter();
        locks.map(|(token, expires)| (token, self.true_time(expires, now))).collect()
    }

    /// The locks that stand, and until when by the clock.
    fn expiring(&self, now: Instant) -> Vec<(Token, Instant)> {
        let locks = self.store.locks(self.shown(now)).into_iter();
        locks.filter_map(|(_, token, expires)| Some((token.clone(), expires?))).collect()
    }

    /// When the first key of a request expires.
    fn until(&self, request: &Request, now: Instant) -> Option<Instant> {
        let shown = self.shown(now);
        let resources = request.claim().resources().iter();
        let expires = resources.filter_map(|resource| self.store.remaining(resource, shown)).min()?;
        Some(self.true_time(shown + expires, now))
    }

    /// What the clock shows: whole milliseconds.
    fn shown(&self, now: Instant) -> Instant {
        let exact = self.exact(now);
        exact - Duration::from_nanos(u64::from(exact.elapsed_since_origin().subsec_nanos()) % 1_000_000)
    }

    fn exact(&self, now: Instant) -> Instant {
        self.clock.at(now) + self.forward - self.back
    }

    /// When the clock shows `shown`, if nobody sets it.
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
        assert_eq!((0, 2, 3), (lost(Keeps::All, 1), lost(Keeps::Part, 1), lost(Keeps::Nothing, 1)));
        assert_eq!(0, lost(Keeps::Nothing, 10_000));
    }
}
