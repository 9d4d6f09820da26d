//! When a lease is renewed.
//!
//! As a rule when two thirds of its TTL are left, as etcd and Consul do it: a renewal may then be late, and fail several
//! times, before the validity ends; and a lock costs each node three commands a TTL. A little earlier at random, so that
//! locks that were acquired together are not renewed together forever; the first time up to a sixth of the TTL earlier, so
//! that those of a burst are spread from the first renewal on.
//!
//! A renewal that failed is repeated after a part of the validity that is left, so the attempts come closer together as
//! the end does, but never closer than a thirtieth of the TTL: a lock that cannot be kept costs about a dozen attempts.

use std::time::Duration;

use crate::clock::Instant;
use crate::decide::backoff::{FLOOR, between_half_and_whole};
use crate::ttl::Ttl;

/// Tries are never further apart: nodes that were unreachable may be back.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// How often connections are checked, at most.
const MIN_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// And at least this often, however long the TTL.
const MAX_LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// When to renew a lease for the first time that is valid until `deadline`.
pub(crate) fn first_due(deadline: Instant, ttl: Ttl, random: u64) -> Instant {
    let ttl = ttl.as_duration();
    deadline - ttl + between_half_and_whole(ttl / 3, random)
}

/// When to renew a lease that is valid until `deadline`.
pub(crate) fn due(deadline: Instant, ttl: Ttl, random: u64) -> Instant {
    let ttl = ttl.as_duration();
    // 19 thirtieths and one or two more.
    deadline - ttl / 30 * 19 - between_half_and_whole(ttl / 15, random)
}

/// When to renew a lease at the latest, if a node that may lack its key has connected again `now`: the renewal is what gives the
/// key back to it. Thousands of leases see the same reconnection, so this is spread over a twelfth of the TTL.
pub(crate) fn after_reconnection(now: Instant, ttl: Ttl, random: u64) -> Instant {
    now + between_half_and_whole(ttl.as_duration() / 6, random) - ttl.as_duration() / 12
}

/// How often to look whether a node has connected anew.
pub(crate) fn look_interval(ttl: Ttl) -> Duration {
    (ttl.as_duration() / 30).clamp(MIN_LOOK_INTERVAL, MAX_LOOK_INTERVAL)
}

/// When to try again after a failure, if the lease is lost at `ends` otherwise; `None` when no time is left.
pub(crate) fn again(now: Instant, ends: Instant, ttl: Ttl, random: u64) -> Option<Instant> {
    let left = ends.saturating_duration_since(now);
    let delay = between_half_and_whole((left / 4).min(LONGEST_DELAY), random).max(min_delay(ttl));
    (delay < left).then_some(now + delay)
}

/// The shortest delay between two attempts at a renewal.
fn min_delay(ttl: Ttl) -> Duration {
    (ttl.as_duration() / 30).max(FLOOR)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::since_origin(Duration::from_millis(millis))
    }

    proptest! {
        #[test]
        fn two_thirds_of_the_ttl_are_left_and_at_most_a_thirtieth_more(millis in 10_u64..2_073_600_000, random: u64) {
            let ttl = Ttl::new(Duration::from_millis(millis)).unwrap();
            let deadline = at(10_000_000_000);
            let left = deadline.saturating_duration_since(due(deadline, ttl, random));
            let share = left.as_secs_f64() / ttl.as_duration().as_secs_f64();
            prop_assert!((0.6666..=0.7001).contains(&share), "{share}");
        }

        #[test]
        fn the_first_renewal_comes_between_a_sixth_and_a_third_of_the_ttl(millis in 10_u64..2_073_600_000, random: u64) {
            let ttl = Ttl::new(Duration::from_millis(millis)).unwrap();
            let deadline = at(10_000_000_000);
            let left = deadline.saturating_duration_since(first_due(deadline, ttl, random));
            let share = left.as_secs_f64() / ttl.as_duration().as_secs_f64();
            prop_assert!((0.6666..=0.8334).contains(&share), "{share}");
        }

        #[test]
        fn tries_go_on_until_the_end_and_are_a_bounded_number(millis in 10_u64..600_000, seed: u64) {
            let ttl = Ttl::new(Duration::from_millis(millis)).unwrap();
            let (mut now, ends) = (at(0), at(millis * 2 / 3));
            let (mut tries, mut random) = (0, seed);
            while let Some(next) = again(now, ends, ttl, random) {
                prop_assert!(next.saturating_duration_since(now) >= min_delay(ttl) && next < ends);
                (now, tries, random) = (next, tries + 1, random.rotate_left(7).wrapping_mul(seed | 1));
            }
            let left = ends.saturating_duration_since(now);
            prop_assert!(left <= min_delay(ttl).max(left / 4), "gave up early: {left:?}");
            prop_assert!(tries <= 24 + millis / 2_500, "{tries} tries");
        }

        #[test]
        fn a_reconnection_brings_renewals_forward_spread_over_a_twelfth_of_the_ttl(millis in 10_u64..600_000, random: u64) {
            let ttl = Ttl::new(Duration::from_millis(millis)).unwrap();
            let due = after_reconnection(at(1_000_000), ttl, random).saturating_duration_since(at(1_000_000));
            prop_assert!(due <= ttl.as_duration() / 12 + Duration::from_nanos(1), "{due:?}");
        }
    }

    #[test]
    fn no_try_comes_at_the_end_itself() {
        let ttl = Ttl::new(Duration::from_millis(30)).unwrap();
        assert_eq!(None, again(at(0), at(1), ttl, 0));
        assert_eq!(Some(at(1)), again(at(0), at(2), ttl, 0));
    }

    #[test]
    fn a_short_outage_costs_several_tries_not_the_lock() {
        // 10 s: renewed at 3.3 s, lost at 9.7 s.
        let mut tries = vec![at(3_300)];
        let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
        while let Some(next) = again(*tries.last().unwrap(), at(9_698), ttl, u64::MAX) {
            assert!(next > *tries.last().unwrap(), "a hot loop");
            tries.push(next);
        }
        assert!(tries.iter().filter(|at_| **at_ < at(9_000)).count() >= 8, "{tries:?}");
    }
}
