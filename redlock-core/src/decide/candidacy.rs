//! The decision how long a candidate for leadership pauses before it requests the lock again.
//!
//! The pause is bounded, so that leadership returns within a second after an outage. It is random, so that candidates
//! do not request together.

use std::time::Duration;

use crate::decide::backoff::equal_jitter;

/// The longest pause after the first failure, and after a term.
const FIRST: Duration = Duration::from_millis(100);

/// The longest pause after any number of failures.
const LONGEST: Duration = Duration::from_millis(800);

/// Returns the pause after `failures` requests in a row that failed and may be repeated.
pub(crate) fn pause(failures: u32, random: u64) -> Duration {
    let whole = FIRST.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX)).min(LONGEST);
    equal_jitter(whole, random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let shortest = [0, 1, 2, 3, 4, 31, 32, u32::MAX].map(|failures| pause(failures, 0).as_millis());
        assert_eq!([50, 100, 200, 400, 400, 400, 400, 400], shortest);
        assert!(pause(u32::MAX, u64::MAX) + Duration::from_micros(1) > LONGEST, "all of the bound");
    }
}
