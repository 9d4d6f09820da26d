//! The cleanup in every interleaving of runtimes that end and requests that restart it.

use std::sync::Arc;

use loom::future::block_on;
use loom::thread;

use super::CleanupEntry;
use crate::decide::pending_release::WriteState;
use crate::loom_fixtures::{Granting, StoppedClock, claim, client};
use crate::types::instant::Instant;

fn entry() -> CleanupEntry {
    CleanupEntry { claim: claim(), release: WriteState::default().pending_release() }
}

#[test]
fn cleanup_that_stops_is_always_restarted_by_the_next_request() {
    loom::model(|| {
        let inner = client(&Arc::new(Granting::default()), StoppedClock::ended());
        let ending = {
            let inner = Arc::clone(&inner);
            thread::spawn(move || inner.leave_to_cleanup(0, Instant::ORIGIN, entry()))
        };
        let request = {
            let inner = Arc::clone(&inner);
            thread::spawn(move || inner.resume_cleanup())
        };
        inner.resume_cleanup();
        ending.join().unwrap();
        request.join().unwrap();
        assert!(inner.is_cleanup_stopped());
    });
}

#[test]
fn the_cleanup_task_misses_no_entry() {
    loom::model(|| {
        let runtime = StoppedClock::with_threads();
        let inner = client(&Arc::new(Granting::default()), Arc::clone(&runtime));
        inner.clean_up(0, Instant::ORIGIN, entry());
        inner.clean_up(0, Instant::ORIGIN, entry());
        block_on(async {
            loop {
                let changed = inner.listen_for_idle();
                if inner.is_idle() {
                    break;
                }
                changed.await;
            }
        });
        assert_eq!(0, inner.abandoned_cleanup());
        runtime.join();
    });
}
