//! Resuming a lease that another process detached, or that another program holds.
//!
//! Only its token is known, so it is valid only after an extension round. The writes of its former holder are not
//! known, and some of them may not have arrived yet. Thus a release is repeated as after a write whose outcome is
//! unknown.

use std::sync::Arc;

use tracing::Instrument;

use crate::drive::drive;
use crate::inner::Handle;
use crate::lease::guard::Guard;
use crate::lease::record::LeaseRecord;
use crate::protocol::extend::{self, Extension};
use crate::protocol::extend_error::not_extended;
use crate::protocol::release;
use crate::telemetry;
use crate::types::detached::DetachedLease;
use crate::types::error::{Error, ErrorKind};
use crate::types::report::ReleaseOutcome;

pub(crate) async fn resume(handle: &Arc<Handle>, detached: &DetachedLease) -> Result<Guard, Error> {
    handle.check_call(detached.resources())?;
    handle.check_ttl(detached.ttl)?;
    if detached.fencing_token.is_some() {
        handle.check_fencing()?;
    }
    handle.resume_cleanup();
    let lease = LeaseRecord::foreign(Arc::clone(handle), detached);
    let limit = handle.settings.timeout_within(detached.ttl);
    let extension = Extension { ttl: detached.ttl, limit, not_beyond: None };
    let span = telemetry::extension(lease.claim());
    let work =
        drive(handle, |responder| extend::run(Arc::clone(&lease), extension, responder).instrument(span));
    // Checked once the work counts as outstanding. Thus either `close` sees this work, or this sees that it is closed.
    if handle.is_closed() {
        return Err(Error::closed());
    }
    work.await.map_err(|failure| failure.into_error(&lease))?;
    if lease.remaining().is_zero() {
        let why = "no validity left when a quorum extended it";
        return Err(not_extended(&lease, ErrorKind::TooSlow, why));
    }
    Ok(Guard::new(lease))
}

pub(crate) async fn release(handle: &Arc<Handle>, detached: &DetachedLease) -> Result<ReleaseOutcome, Error> {
    handle.check_call(detached.resources())?;
    handle.resume_cleanup();
    release::release(&LeaseRecord::foreign(Arc::clone(handle), detached)).await
}
