//! The limit of rounds in every interleaving of those that wait and those that end.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use loom::future::block_on;
use loom::thread;

use super::Permit;
use crate::decide::concurrency::Class;
use crate::inner::Inner;
use crate::loom_fixtures::{Granting, StoppedClock, client};

/// Takes the only permit and returns it.
fn round(inner: &Arc<Inner>) {
    drop(block_on(Permit::wait(inner, Class::Attempt)));
}

#[test]
fn every_round_begins() {
    loom::model(|| {
        let inner = client(&Arc::new(Granting::default()), StoppedClock::ended());
        let other = {
            let inner = Arc::clone(&inner);
            thread::spawn(move || round(&inner))
        };
        round(&inner);
        other.join().unwrap();
        assert!(Permit::try_new(&inner, Class::Attempt).is_some());
    });
}

#[test]
fn a_dropped_round_keeps_no_permit() {
    loom::model(|| {
        let inner = client(&Arc::new(Granting::default()), StoppedClock::ended());
        let permit = Permit::try_new(&inner, Class::Attempt).expect("it is the first");
        let dropped = {
            let inner = Arc::clone(&inner);
            thread::spawn(move || {
                let mut permit = pin!(Permit::wait(&inner, Class::Attempt));
                drop(permit.as_mut().poll(&mut Context::from_waker(Waker::noop())));
            })
        };
        let waiting = {
            let inner = Arc::clone(&inner);
            thread::spawn(move || round(&inner))
        };
        drop(permit);
        dropped.join().unwrap();
        waiting.join().unwrap();
    });
}
