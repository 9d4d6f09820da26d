//! When a lease is renewed.
//!
//! For the first time when two thirds of its TTL are left, as etcd and Consul do it: a renewal may then be late, and fail
//! several times, before the validity ends; and a lock costs each node three commands a TTL. A little earlier at random,
//! so that locks taken together are not renewed together for ever. A renewal that failed is repeated after a part of the
//! validity that is left, so the tries come closer together as the end does.

use std::time::Duration;

use crate::clock::Instant;
use crate::decide::backoff::{FLOOR, between_half_and_whole};
use crate::ttl::Ttl;

/// Tries are never further apart: nodes that were unreachable may be back.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// When to renew a lease that is valid until `deadline`.
pub(crate) fn due(deadline: Instant, ttl: Ttl, random: u64) -> Instant {
    let ttl = ttl.as_duration();
    // 19 thirtieths and one or two more.
    deadline - ttl / 30 * 19 - between_half_and_whole(ttl / 15, random)
}

/// When to try again after a failure, if the lease is lost at `ends` otherwise; `None` when no time is left.
pub(crate) fn again(now: Instant, ends: Instant, random: u64) -> Option<Instant> {
    let left = ends.saturating_duration_since(now);
    let delay = between_half_and_whole((left / 4).min(LONGEST_DELAY), random).max(FLOOR);
    (delay < left).then_some(now + delay)
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
        fn tries_go_on_until_the_end_and_do_not_become_a_hot_loop(left in 0_u64..100_000, seed: u64) {
            let (mut now, ends) = (at(0), at(left));
            let (mut tries, mut random) = (0, seed);
            while let Some(next) = again(now, ends, random) {
                prop_assert!(next.saturating_duration_since(now) >= FLOOR && next < ends);
                (now, tries, random) = (next, tries + 1, random.rotate_left(7).wrapping_mul(seed | 1));
            }
            prop_assert!(ends.saturating_duration_since(now) <= FLOOR, "gave up early");
            // Each takes an eighth of what is left at least, down to some milliseconds.
            prop_assert!(tries <= 100 + left / 2_500, "{tries} tries");
        }
    }

    #[test]
    fn no_try_comes_at_the_end_itself() {
        assert_eq!(None, again(at(0), at(1), 0));
        assert_eq!(Some(at(1)), again(at(0), at(2), 0));
    }

    #[test]
    fn a_short_outage_costs_several_tries_not_the_lock() {
        // 10 s: renewed at 3.3 s, lost at 9.7 s.
        let mut tries = vec![at(3_300)];
        while let Some(next) = again(*tries.last().unwrap(), at(9_698), u64::MAX) {
            assert!(next > *tries.last().unwrap(), "a hot loop");
            tries.push(next);
        }
        assert!(tries.iter().filter(|at_| **at_ < at(9_000)).count() >= 8, "{tries:?}");
    }
}
