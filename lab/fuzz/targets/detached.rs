//! Detached leases from JSON: no panic, and an accepted lease is equal after it is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redlock_core::DetachedLease;

fuzz_target!(|json: &[u8]| {
    let Ok(lease) = serde_json::from_slice::<DetachedLease>(json) else { return };
    assert!(!lease.resources().is_empty() && !lease.token().as_bytes().is_empty());
    let _ = format!("{lease:?}");
    let written = serde_json::to_string(&lease).expect("a lease has a serialized form");
    assert!(written.is_ascii());
    let again: DetachedLease = serde_json::from_str(&written).expect("a written lease can be read");
    assert!(lease == again, "{lease:?} became {again:?}");
});
