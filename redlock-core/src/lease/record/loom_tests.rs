//! A lease in every interleaving of its views, its renewal and its release.

use std::sync::Arc;

use loom::future::block_on;
use loom::thread;

use super::LeaseRecord;
use crate::inner::Handle;
use crate::lease::watch::UntilState;
use crate::loom_fixtures::{Granting, StoppedClock, claim, client, ttl};
use crate::types::instant::Instant;
use crate::types::lease_state::{LeaseState, Loss};
use crate::types::mode::Mode;

/// Returns a lease that a quorum has granted.
fn lease() -> Arc<LeaseRecord> {
    let handle = Arc::new(Handle(client(&Arc::new(Granting::default()), StoppedClock::ended())));
    let lease = LeaseRecord::new(handle, claim(), Mode::Exclusive, Instant::ORIGIN);
    assert!(lease.hold_until(Instant::ORIGIN + ttl().as_duration(), ttl(), Instant::ORIGIN));
    lease
}

#[test]
fn every_view_notices_a_loss() {
    loom::model(|| {
        let lease = lease();
        let renewal = {
            let lease = Arc::clone(&lease);
            thread::spawn(move || lease.lose(Loss::Detached))
        };
        let lost = |state| if let LeaseState::Lost(loss) = state { Some(loss) } else { None };
        assert_eq!(Loss::Detached, block_on(UntilState::new(Arc::clone(&lease), lost)));
        renewal.join().unwrap();
    });
}

#[test]
fn no_write_begins_after_the_release() {
    loom::model(|| {
        let lease = lease();
        let renewal = {
            let lease = Arc::clone(&lease);
            thread::spawn(move || lease.begin_refill(&[0]))
        };
        lease.end(Instant::ORIGIN);
        let release = lease.take_release(0);
        let _ = renewal.join().unwrap();
        lease.begin_release(0);
        assert_eq!(lease.take_release(0), release);
    });
}
