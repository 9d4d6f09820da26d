//! The end of a client in every interleaving of its work and its close.

use std::sync::Arc;

use loom::future::block_on;
use loom::thread;

use crate::client::redlock::Redlock;
use crate::loom_fixtures::{Granting, StoppedClock, client, ttl};

#[test]
fn nothing_is_acquired_once_close_has_returned() {
    loom::model(|| {
        let node = Arc::default();
        let redlock = Redlock::new(client(&node, StoppedClock::ended()));
        let request = {
            let redlock = redlock.clone();
            thread::spawn(move || drop(block_on(redlock.lock("a", ttl().as_duration()).try_now())))
        };
        block_on(redlock.close());
        let acquisitions = node.acquisitions();
        request.join().unwrap();
        assert_eq!(acquisitions, node.acquisitions());
    });
}

#[test]
fn close_waits_for_the_work_of_all_threads() {
    loom::model(|| {
        let handle = client(&Arc::new(Granting::default()), StoppedClock::ended());
        let work = [(); 2].map(|()| {
            let ticket = handle.ticket();
            thread::spawn(move || drop(ticket))
        });
        block_on(Redlock::new(Arc::clone(&handle)).close());
        assert!(handle.is_idle());
        for thread in work {
            thread.join().unwrap();
        }
    });
}
