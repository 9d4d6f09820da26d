//! The queue of a process in every interleaving of its waiters.

use std::sync::Arc;

use loom::future::block_on;
use loom::thread;

use super::{LocalQueues, QueuePlace};
use crate::loom_fixtures::StoppedClock;
use crate::types::resource::IntoResources;

/// Waits for the turn on these resources, and passes it on.
fn turn(queues: &Arc<LocalQueues>, resources: impl IntoResources) {
    let mut place = QueuePlace::new(Arc::clone(queues), resources.into_resources().expect("valid names"));
    block_on(place.turn());
}

#[test]
fn every_waiter_has_its_turn() {
    loom::model(|| {
        let queues = Arc::new(LocalQueues::new(StoppedClock::ended(), true));
        let other = {
            let queues = Arc::clone(&queues);
            thread::spawn(move || turn(&queues, ["a", "b"]))
        };
        turn(&queues, ["b", "a"]);
        other.join().unwrap();
        turn(&queues, ["a", "b"]);
    });
}
