//! Resuming a lease that another process detached, or that another program holds.
//!
//! Only its token is known, so it is valid only after an extension round. The writes of its former holder are not
//! known, and some of them may not have arrived yet. So a release is repeated as after a write whose outcome is
//! unknown.

use std::sync::Arc;

use tracing::Instrument;

use crate::drive::drive;
use crate::inner::Handle;
use crate::lease::Lease;
use crate::lease::guard::Guard;
use crate::protocol::acquire::node_timeout;
use crate::protocol::extend::{self, Extension};
use crate::protocol::release::{self, ReleaseOutcome};
use crate::telemetry;
use crate::types::detached::DetachedLease;
use crate::types::error::{Error, ErrorKind};

pub(crate) async fn resume(handle: &Arc<Handle>, detached: &DetachedLease) -> Result<Guard, Error> {
    handle.check_names(detached.resources())?;
    if detached.fencing_token.is_some() {
        handle.check_fencing()?;
    }
    handle.resume_cleanup();
    let lease = Lease::foreign(Arc::clone(handle), detached);
    let limit = node_timeout(handle.settings.node_timeout, detached.ttl);
    let extension = Extension { ttl: detached.ttl, limit, not_beyond: None };
    let span = telemetry::extension(&lease);
    let work =
        drive(handle, |responder| extend::run_round(lease.clone(), extension, responder).instrument(span));
    // Checked once the work counts as outstanding. So either `close` sees this work, or this sees that it is closed.
    if handle.is_closed() {
        return Err(Error::closed());
    }
    work.await?;
    if lease.is_held() {
        Ok(Guard::new(lease))
    } else {
        Err(lease.not_extended(ErrorKind::TooSlow, "no validity left when a quorum extended it"))
    }
}

pub(crate) async fn release(handle: &Arc<Handle>, detached: &DetachedLease) -> Result<ReleaseOutcome, Error> {
    handle.check_names(detached.resources())?;
    handle.resume_cleanup();
    release::release(&Lease::foreign(Arc::clone(handle), detached)).await
}
