//! A lock that is released on drop: the part of a guard that all kinds share.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use crate::client::handle::Handle;
use crate::client::lease::Lease;
use crate::lease::record::Record;
use crate::round::release;

/// A lock that is released on drop.
#[derive(Debug)]
#[allow(unreachable_pub)] // the sealed trait of the kinds returns it
pub struct Held {
    pub(super) lease: Lease,
    pub(super) released: bool,
}

impl Held {
    pub(crate) fn new(handle: Arc<Handle>, record: Arc<Record>) -> Self {
        Self { lease: Lease { handle, record }, released: false }
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }
}

/// Hands the release to the runtime; see [`Guard`].
impl Drop for Held {
    fn drop(&mut self) {
        if mem::replace(&mut self.released, true) {
            return;
        }
        let release =
            AssertUnwindSafe(|| release::begin(&self.lease.handle, &self.lease.record).in_background());
        if thread::panicking() {
            // A second panic that leaves this function would end the process. If there is one, the keys are left to
            // their TTL.
            drop(catch_unwind(release));
        } else {
            release.0();
        }
    }
}
