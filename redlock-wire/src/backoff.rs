//! How long to wait before the next attempt to connect.

use std::time::Duration;

use redlock_core::Runtime;

/// The first delay: long enough not to burden a server that closes every connection at once.
const SHORTEST: Duration = Duration::from_millis(10);

/// The last one: with a connect timeout of 300 ms a node that comes back votes again within a second.
pub(crate) const LONGEST: Duration = Duration::from_millis(200);

/// Delays that double from 10 ms to 200 ms, for ever.
#[derive(Debug, Default)]
pub(crate) struct Backoff(Duration);

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0 = (self.0 * 2).clamp(SHORTEST, LONGEST);
        Some(self.0)
    }
}

/// Between half of `delay` and the whole, so that the clients of a server that restarts do not come all at once.
pub(crate) fn jittered(delay: Duration, runtime: &dyn Runtime) -> Duration {
    let mut random = [0; 4];
    runtime.fill_random(&mut random);
    delay / 2 + (delay / 2).mul_f64(f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let delays: Vec<_> = Backoff::default().take(7).map(|delay| delay.as_millis()).collect();
        assert_eq!([10, 20, 40, 80, 160, 200, 200], delays[..]);
    }

    #[test]
    fn jitter_stays_between_half_and_the_whole() {
        let runtime = redlock_core::TokioRuntime::new();
        for _ in 0..1000 {
            let delay = jittered(LONGEST, &runtime);
            assert!((LONGEST / 2..=LONGEST).contains(&delay), "{delay:?}");
        }
    }
}
