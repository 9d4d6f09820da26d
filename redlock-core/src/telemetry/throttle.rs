//! A limit for log messages that would otherwise appear thousands of times.

use std::time::Duration;

use crate::sync::{Mutex, locked};
use crate::types::instant::Instant;

/// The interval in which one message of a kind is logged.
const INTERVAL: Duration = Duration::from_secs(60);

/// A filter that passes one message a minute, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: Instant,
    suppressed: u64,
}

impl Throttle {
    /// Returns the number of messages since the last logged one, this one included.
    ///
    /// `None` means that this message must not be logged.
    pub(crate) fn pass(&self, now: Instant) -> Option<u64> {
        let mut state = locked(&self.0);
        state.suppressed += 1;
        if now < state.next {
            return None;
        }
        state.next = now + INTERVAL;
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_a_minute_passes_with_the_number_of_suppressed_ones() {
        let throttle = Throttle::default();
        let at = |seconds| Instant::since_origin(Duration::from_secs(seconds));
        assert_eq!(Some(1), throttle.pass(at(5)));
        assert_eq!([None, None], [throttle.pass(at(6)), throttle.pass(at(64))]);
        assert_eq!(Some(3), throttle.pass(at(65)));
    }
}
