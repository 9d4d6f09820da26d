//! The limit of rounds in every interleaving of those that wait and those that end.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use loom::future::block_on;
use loom::thread;

use super::{Limiter, Permit};
use crate::decide::concurrency::Class;
use crate::loom_fixtures::StoppedClock;

fn limiter() -> Arc<Limiter> {
    Arc::new(Limiter::new(1, StoppedClock::ended(), Duration::from_secs(1)))
}

/// Takes the only permit and returns it.
fn round(limiter: &Arc<Limiter>) {
    drop(block_on(Permit::wait(limiter, Class::Attempt)));
}

#[test]
fn every_round_begins() {
    loom::model(|| {
        let limiter = limiter();
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || round(&limiter))
        };
        round(&limiter);
        other.join().unwrap();
        assert!(Permit::try_new(&limiter, Class::Attempt).is_some());
    });
}

#[test]
fn a_dropped_round_keeps_no_permit() {
    loom::model(|| {
        let limiter = limiter();
        let permit = Permit::try_new(&limiter, Class::Attempt).expect("it is the first");
        let dropped = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || {
                let mut permit = pin!(Permit::wait(&limiter, Class::Attempt));
                drop(permit.as_mut().poll(&mut Context::from_waker(Waker::noop())));
            })
        };
        let waiting = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || round(&limiter))
        };
        drop(permit);
        dropped.join().unwrap();
        waiting.join().unwrap();
    });
}
