//! A lease in every interleaving of its views, its renewal and its release.

use std::sync::Arc;

use loom::future::block_on;
use loom::thread;

use super::{LastStep, Record};
use crate::client::lease::Lease;
use crate::lease::mode::Mode;
use crate::loom_fixtures::{Granting, StoppedClock, claim, client, ttl};
use crate::types::instant::Instant;
use crate::types::lease_state::Loss;

/// Returns a lease that a quorum has granted.
fn record() -> Arc<Record> {
    let record = Record::new(claim(), Mode::Exclusive, Instant::ORIGIN, 1);
    assert!(record.hold_until(Instant::ORIGIN + ttl().as_duration(), ttl(), Instant::ORIGIN));
    Arc::new(record)
}

#[test]
fn every_view_notices_a_loss() {
    loom::model(|| {
        let record = record();
        let renewal = {
            let record = Arc::clone(&record);
            thread::spawn(move || record.detach(Instant::ORIGIN))
        };
        let handle = client(&Arc::new(Granting::default()), StoppedClock::ended());
        let lease = Lease { handle, record };
        assert_eq!(Loss::Detached, block_on(lease.lost()));
        renewal.join().unwrap();
        drop(lease);
    });
}

#[test]
fn no_write_begins_after_the_release() {
    loom::model(|| {
        let record = record();
        let renewal = {
            let record = Arc::clone(&record);
            thread::spawn(move || {
                record.with(|state| {
                    if !state.is_released() {
                        state.begin_write(0, None);
                    }
                });
            })
        };
        record.end(Instant::ORIGIN);
        let release = record.with(|state| state.take_release(0));
        renewal.join().unwrap();
        record.with(|state| {
            state.peers[0].begin_release();
            assert_eq!(state.take_release(0), release);
        });
    });
}

/// A detached lease can be resumed by another process, whose keys a release here would delete.
#[test]
fn a_lost_lease_is_either_detached_or_released_by_its_keep_alive() {
    loom::model(|| {
        let record = record();
        let lost = Instant::ORIGIN + ttl().as_duration();
        let keep_alive = {
            let record = Arc::clone(&record);
            thread::spawn(move || matches!(record.end_if_over(0, lost), LastStep::Release(_)))
        };
        let is_detached = record.detach(lost);
        assert_ne!(is_detached, keep_alive.join().unwrap());
    });
}
