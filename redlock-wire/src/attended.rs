//! Time limits that measure a server and exclude pauses of this process.

use std::time::Duration;

use redlock_core::runtime::Runtime;

/// The number of parts of a limit.
///
/// A pause of the process counts for one part at most. Between the parts, the runtime has run and could read the bytes
/// that have arrived.
const PARTS: u32 = 8;

/// Completes after `time` during which this process ran.
pub(crate) async fn elapse(runtime: &dyn Runtime, time: Duration) {
    let (start, part) = (runtime.now(), time / PARTS);
    for _ in 1..PARTS {
        runtime.sleep(part).await;
    }
    // Each timer fires slightly late.
    let left = time.saturating_sub(runtime.now().saturating_duration_since(start));
    runtime.sleep(left.max(part / 2)).await;
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::FutureExt;
    use redlock_core::runtime::{BoxFuture, Instant};

    use super::*;

    /// A runtime in which time passes only in sleeps.
    ///
    /// Each sleep is late by the next of these durations.
    #[derive(Debug)]
    struct Late(Mutex<(Duration, Vec<Duration>)>);

    impl Runtime for Late {
        fn now(&self) -> Instant {
            Instant::since_origin(self.0.lock().unwrap().0)
        }

        fn sleep(&self, duration: Duration) -> BoxFuture<()> {
            let (now, late) = &mut *self.0.lock().unwrap();
            *now += duration + late.pop().unwrap_or_default();
            Box::pin(async {})
        }

        fn spawn(&self, _: BoxFuture<()>) {}
    }

    fn elapsed(late: &[u64]) -> u128 {
        let late = late.iter().map(|millis| Duration::from_millis(*millis)).collect();
        let runtime = Late(Mutex::new((Duration::ZERO, late)));
        elapse(&runtime, Duration::from_millis(200)).now_or_never().unwrap();
        runtime.now().elapsed_since_origin().as_millis()
    }

    #[test]
    fn a_limit_is_exact_while_the_process_runs() {
        assert_eq!(200, elapsed(&[]));
        assert_eq!(200, elapsed(&[1; 7]), "timers are slightly late");
    }

    #[test]
    fn a_pause_barely_counts() {
        assert_eq!(500 + 6 * 25 + 25 + 12, elapsed(&[500]));
        assert_eq!(1400 + 7 * 25 + 12, elapsed(&[200; 7]));
    }
}
