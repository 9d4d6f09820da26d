//! The clock and the timers: [`Runtime::now`] and [`Runtime::sleep`].

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redlock_core::runtime::{BoxFuture, Runtime};

const SHORT: Duration = Duration::from_millis(20);

/// The differences between two timers to try. The first one suffices on a machine that is not overloaded.
const DIFFERENCES: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(500), Duration::from_secs(5)];

pub(super) async fn the_clock_never_goes_back(runtime: Arc<dyn Runtime>) {
    let mut last = runtime.now();
    for _ in 0..10_000 {
        let now = runtime.now();
        assert!(now >= last, "now: the time never goes back");
        last = now;
    }
}

pub(super) async fn the_clock_advances_while_a_task_sleeps(runtime: Arc<dyn Runtime>) {
    let before = runtime.now();
    for _ in 0..3 {
        runtime.sleep(SHORT).await;
    }
    assert!(runtime.now() > before, "now: the clock counts the time in which a task sleeps");
}

pub(super) async fn a_timer_is_never_early(runtime: Arc<dyn Runtime>) {
    for millis in [1, 7, 20] {
        let (before, duration) = (runtime.now(), Duration::from_millis(millis));
        runtime.sleep(duration).await;
        let elapsed = runtime.now().saturating_duration_since(before);
        assert!(elapsed >= duration, "sleep: completes after {duration:?} or later, not after {elapsed:?}");
    }
}

pub(super) async fn a_timer_without_a_duration_fires(runtime: Arc<dyn Runtime>) {
    runtime.sleep(Duration::ZERO).await;
}

pub(super) async fn timers_fire_in_the_order_of_their_deadlines(runtime: Arc<dyn Runtime>) {
    for difference in DIFFERENCES {
        // The later one is created first.
        let late = runtime.sleep(SHORT + difference);
        if fires_first(runtime.sleep(SHORT), late).await {
            return;
        }
    }
    panic!("sleep: of two timers, the one with the earlier deadline completes first");
}

/// Returns whether `early` is ready as soon as `late` is.
async fn fires_first(mut early: BoxFuture<()>, mut late: BoxFuture<()>) -> bool {
    poll_fn(|context| {
        // If both are due, they may be ready at the same poll.
        let is_late_ready = late.as_mut().poll(context).is_ready();
        match early.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending if is_late_ready => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

pub(super) async fn a_dropped_timer_leaves_others_alone(runtime: Arc<dyn Runtime>) {
    let (mut dropped, kept) = (runtime.sleep(SHORT), runtime.sleep(SHORT));
    // It has started: its waker is registered.
    poll_fn(|context| {
        let _may_be_ready = dropped.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
    drop(dropped);
    kept.await;
}
