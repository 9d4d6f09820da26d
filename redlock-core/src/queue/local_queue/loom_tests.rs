//! The queue of a process in every interleaving of its waiters.

use std::sync::Arc;

use loom::future::block_on;
use loom::thread;

use super::QueuePlace;
use crate::inner::Inner;
use crate::loom_fixtures::{Granting, StoppedClock, client};
use crate::types::resource::IntoResources;

/// Waits for the turn on these resources, and passes it on.
fn turn(inner: &Arc<Inner>, resources: impl IntoResources) {
    let mut place = QueuePlace::new(Arc::clone(inner), resources.into_resources().expect("valid names"));
    block_on(place.turn());
}

#[test]
fn every_waiter_has_its_turn() {
    loom::model(|| {
        let inner = client(&Arc::new(Granting::default()), StoppedClock::ended());
        let other = {
            let inner = Arc::clone(&inner);
            thread::spawn(move || turn(&inner, ["a", "b"]))
        };
        turn(&inner, ["b", "a"]);
        other.join().unwrap();
        turn(&inner, ["a", "b"]);
    });
}
