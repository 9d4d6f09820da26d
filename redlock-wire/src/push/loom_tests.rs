//! The hub in every interleaving of watches and pushes.

use loom::future::block_on;
use loom::thread;

use super::Hub;

#[test]
fn a_watch_completes_however_late_the_connection_closes() {
    loom::model(|| {
        let hub = Hub::default();
        let closing = {
            let hub = hub.clone();
            thread::spawn(move || hub.close())
        };
        block_on(hub.watch(b"a"));
        closing.join().unwrap();
        assert_eq!(0, hub.len());
    });
}

#[test]
fn a_watch_that_ends_does_not_affect_other_watches() {
    loom::model(|| {
        let hub = Hub::default();
        let (stays, leaves) = (hub.watch(b"a"), hub.watch(b"a"));
        let leaving = thread::spawn(move || drop(leaves));
        let server = {
            let hub = hub.clone();
            thread::spawn(move || hub.changed(b"a"))
        };
        block_on(stays);
        leaving.join().unwrap();
        server.join().unwrap();
        assert_eq!(0, hub.len());
    });
}
