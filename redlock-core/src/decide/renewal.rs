//! The times of renewals.
//!
//! A lease is usually renewed when two thirds of its TTL are left, as in etcd and Consul. Thus a renewal may be late, and
//! fail several times, before the validity ends. A lock costs each node three commands per TTL. Each renewal is a
//! little earlier at random, so that locks that were acquired together are not renewed together forever. The first
//! renewal is up to a sixth of the TTL earlier, which spreads the locks of a burst from the beginning.
//!
//! A failed renewal is repeated after a part of the remaining validity, so attempts come closer together towards the
//! end. They are at least a thirtieth of the TTL apart. Thus a lock that cannot be kept costs about a dozen attempts.

use std::time::Duration;

use crate::decide::backoff::{MIN_DELAY, equal_jitter};
use crate::types::instant::Instant;
use crate::types::ttl::Ttl;

/// The longest delay between two attempts, so that nodes that recover are used soon.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// The minimum interval between two checks of the connections.
const MIN_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum interval between two checks, however long the TTL is.
const MAX_LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// Returns the first renewal time of a lease that is valid until `deadline`.
pub(crate) fn first_due(deadline: Instant, ttl: Ttl, random: u64) -> Instant {
    let ttl = ttl.as_duration();
    deadline - ttl + equal_jitter(ttl / 3, random)
}

/// Returns the time of a later renewal of a lease that is valid until `deadline`.
pub(crate) fn due(deadline: Instant, ttl: Ttl, random: u64) -> Instant {
    let ttl = ttl.as_duration();
    // 20 to 21 thirtieths of the TTL are left: 19, and one or two more at random.
    deadline - ttl / 30 * 19 - equal_jitter(ttl / 15, random)
}

/// Returns the latest renewal time after a node that may lack the key reconnects.
///
/// The node reconnects at `now`, and the renewal gives the key back to it. Thousands of leases see the same
/// reconnection, so their renewals are spread over a twelfth of the TTL.
pub(crate) fn after_reconnection(now: Instant, ttl: Ttl, random: u64) -> Instant {
    now + equal_jitter(ttl.as_duration() / 6, random) - ttl.as_duration() / 12
}

/// Returns the interval between two checks for reconnected nodes.
pub(crate) fn look_interval(ttl: Ttl) -> Duration {
    (ttl.as_duration() / 30).clamp(MIN_LOOK_INTERVAL, MAX_LOOK_INTERVAL)
}

/// Returns whether a timer of the renewal fired so late that another such delay may lose the lock.
///
/// Half of the TTL is far more than a busy runtime causes. Nothing drove the runtime, or the process was paused.
pub(crate) fn is_late(late: Duration, ttl: Ttl) -> bool {
    late >= ttl.as_duration() / 2
}

/// Returns the time of the next attempt after a failure; `None` if it would not precede `ends`.
///
/// The lease is lost at `ends` unless an attempt succeeds.
pub(crate) fn again(now: Instant, ends: Instant, ttl: Ttl, random: u64) -> Option<Instant> {
    let left = ends.saturating_duration_since(now);
    let delay = equal_jitter((left / 4).min(LONGEST_DELAY), random).max(min_delay(ttl));
    (delay < left).then_some(now + delay)
}

/// Returns the shortest delay between two attempts at a renewal.
fn min_delay(ttl: Ttl) -> Duration {
    (ttl.as_duration() / 30).max(MIN_DELAY)
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
        fn a_renewal_is_due_with_two_thirds_of_the_ttl_left_or_slightly_more(millis in 10_u64..2_073_600_000, random: u64) {
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
        fn renewals_are_retried_until_the_end_a_bounded_number_of_times(millis in 10_u64..600_000, seed: u64) {
            let ttl = Ttl::new(Duration::from_millis(millis)).unwrap();
            let (mut now, ends) = (at(0), at(millis * 2 / 3));
            let (mut tries, mut random) = (0, seed);
            while let Some(next) = again(now, ends, ttl, random) {
                prop_assert!(next.saturating_duration_since(now) >= min_delay(ttl) && next < ends);
                (now, tries, random) = (next, tries + 1, random.rotate_left(7).wrapping_mul(seed | 1));
            }
            let left = ends.saturating_duration_since(now);
            prop_assert!(left <= min_delay(ttl).max(left / 4), "the tries end early: {left:?}");
            prop_assert!(tries <= 24 + millis / 2_500, "{tries} tries");
        }

        #[test]
        fn renewals_after_a_reconnection_spread_over_a_twelfth_of_the_ttl(millis in 10_u64..600_000, random: u64) {
            let ttl = Ttl::new(Duration::from_millis(millis)).unwrap();
            let due = after_reconnection(at(1_000_000), ttl, random).saturating_duration_since(at(1_000_000));
            prop_assert!(due <= ttl.as_duration() / 12 + Duration::from_nanos(1), "{due:?}");
        }
    }

    #[test]
    fn no_renewal_is_tried_at_the_end_itself() {
        let ttl = Ttl::new(Duration::from_millis(30)).unwrap();
        assert_eq!(None, again(at(0), at(1), ttl, 0));
        assert_eq!(Some(at(1)), again(at(0), at(2), ttl, 0));
    }

    #[test]
    fn a_short_outage_leaves_time_for_several_tries() {
        // With a TTL of 10 s, the lease is renewed at 3.3 s and lost at 9.7 s.
        let mut tries = vec![at(3_300)];
        let ttl = Ttl::new(Duration::from_secs(10)).unwrap();
        while let Some(next) = again(*tries.last().unwrap(), at(9_698), ttl, u64::MAX) {
            assert!(next > *tries.last().unwrap(), "the tries are a hot loop");
            tries.push(next);
        }
        assert!(tries.iter().filter(|at_| **at_ < at(9_000)).count() >= 8, "{tries:?}");
    }
}
