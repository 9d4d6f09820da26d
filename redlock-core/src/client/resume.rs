//! Resuming a lease that another process detached, or that another program holds.
//!
//! Only its token is known, so it is valid only after an extension round. The writes of its former holder are not
//! known, and some of them may not have arrived yet. Thus a release is repeated as after a write whose outcome is
//! unknown.

use std::sync::Arc;

use crate::client::guard::Guard;
use crate::client::handle::Handle;
use crate::client::held::Held;
use crate::client::lease::Lease;
use crate::lease::record::Record;
use crate::round::extend::{self, Extension};
use crate::round::failure::{Aim, Cause, Failure};
use crate::round::release;
use crate::types::detached::DetachedLease;
use crate::types::error::Error;
use crate::types::report::ReleaseOutcome;

pub(crate) async fn resume(handle: &Arc<Handle>, detached: &DetachedLease) -> Result<Guard, Error> {
    handle.check_ttl(detached.ttl)?;
    if detached.fencing_token.is_some() {
        handle.check_fencing()?;
    }
    let lease = foreign(handle, detached)?;
    if handle.node_lists_must_agree() {
        handle.compare_node_lists().await;
    }
    let limit = handle.rules.timeout_within(detached.ttl);
    let extension = Extension { ttl: detached.ttl, limit, not_beyond: None };
    let extending = extend::begin(handle, &lease.record, extension);
    // Checked once the work counts as outstanding. Thus either `close` sees this work, or this sees that it is closed.
    if handle.is_closed() {
        return Err(Error::closed());
    }
    extending.await.map_err(|failure| lease.error(failure))?;
    if lease.remaining().is_zero() {
        let votes = handle.rules.votes(handle.now());
        return Err(lease.error(Failure::new(Aim::Extend, Cause::TooSlow, votes)));
    }
    Ok(Guard::new(Held::new(lease.handle, lease.record), ()))
}

pub(crate) async fn release(handle: &Arc<Handle>, detached: &DetachedLease) -> Result<ReleaseOutcome, Error> {
    let lease = foreign(handle, detached)?;
    release::begin(&lease.handle, &lease.record).await.map_err(|failure| lease.error(failure))
}

fn foreign(handle: &Arc<Handle>, detached: &DetachedLease) -> Result<Lease, Error> {
    handle.check_call(detached.resources())?;
    handle.resume_cleanup();
    let record = Record::foreign(handle.peers.len(), detached, handle.now());
    Ok(Lease { handle: Arc::clone(handle), record: Arc::new(record) })
}
