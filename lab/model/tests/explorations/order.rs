//! Further explorations of the order of waiters.

use redlock_model::order::{CATALOG, Property, Turns, Variant};
use redlock_model::{Model, Rule};

/// Each of three waiters has a reservation on one node, and none of them attempts: all wait for the end of one. With the
/// sound rule, the same state leads to a lock at once.
#[test]
fn a_split_of_reservations_leads_to_an_attempt() {
    let broken = CATALOG.iter().find(|broken| broken.variant == Variant::MinorityWaits).unwrap();
    let sound = Turns::new(broken.scope);
    assert!(sound.holds(Property::Progress, &sound.after(&broken.detect().trace)));
}
