//! The cleanup in every interleaving of runtimes that end and requests that restart it.

use std::sync::Arc;

use loom::future::block_on;
use loom::thread;

use crate::decide::pending_release::WriteState;
use crate::loom_fixtures::{Granting, StoppedClock, claim, client};
use crate::round::Cleanup;
use crate::types::instant::Instant;

fn cleanup() -> Cleanup {
    let release = WriteState::default().pending_release();
    Cleanup { node: 0, due: Instant::ORIGIN, claim: claim(), release }
}

#[test]
fn cleanup_that_stops_is_always_restarted_by_the_next_request() {
    loom::model(|| {
        let handle = client(&Arc::new(Granting::default()), StoppedClock::ended());
        let ending = {
            let handle = Arc::clone(&handle);
            thread::spawn(move || handle.leave([cleanup()]))
        };
        let request = {
            let handle = Arc::clone(&handle);
            thread::spawn(move || handle.resume_cleanup())
        };
        handle.resume_cleanup();
        ending.join().unwrap();
        request.join().unwrap();
        assert!(handle.is_cleanup_stopped());
    });
}

#[test]
fn the_cleanup_task_misses_no_entry() {
    loom::model(|| {
        let runtime = StoppedClock::with_threads();
        let handle = client(&Arc::new(Granting::default()), Arc::clone(&runtime));
        handle.clean_up(cleanup());
        handle.clean_up(cleanup());
        block_on(async {
            loop {
                let changed = handle.listen_for_idle();
                if handle.is_idle() {
                    break;
                }
                changed.await;
            }
        });
        assert_eq!(0, handle.abandoned_cleanup());
        runtime.join();
    });
}
