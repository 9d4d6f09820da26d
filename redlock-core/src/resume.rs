//! Going on with a lease that someone else detached, or that another program holds.
//!
//! Nothing is known of it but its token, so it is valid only after an extension round of its own. What its former holder
//! wrote, and whether all of that has arrived, is not known either: a release repeats itself as behind a write whose
//! outcome is unknown.

use std::sync::Arc;

use tracing::Instrument;

use crate::acquire::node_timeout;
use crate::background::drive;
use crate::detached::DetachedLease;
use crate::error::{Error, ErrorKind};
use crate::extend::{self, Extension};
use crate::guard::Guard;
use crate::lease::Lease;
use crate::observe;
use crate::release::{self, Released};
use crate::shared::Presence;

pub(crate) async fn resume(presence: &Arc<Presence>, detached: &DetachedLease) -> Result<Guard, Error> {
    presence.check_names(detached.resources())?;
    if detached.fencing_token.is_some() {
        presence.check_fencing()?;
    }
    presence.resume_chases();
    let lease = Lease::foreign(Arc::clone(presence), detached);
    let limit = node_timeout(presence.settings.node_timeout, detached.ttl);
    let extension = Extension { ttl: detached.ttl, limit, not_beyond: None };
    let span = observe::extension(&lease);
    let work =
        drive(presence, |verdict| extend::everywhere(lease.clone(), extension, verdict).instrument(span));
    // Asked once the work counts as outstanding: whoever closes either sees it or is seen.
    if presence.is_closed() {
        return Err(Error::closed());
    }
    work.await?;
    if lease.is_held() {
        Ok(Guard::new(lease))
    } else {
        Err(lease.not_extended(ErrorKind::Expired, "no validity was left when a quorum had extended it"))
    }
}

pub(crate) async fn release(presence: &Arc<Presence>, detached: &DetachedLease) -> Result<Released, Error> {
    presence.check_names(detached.resources())?;
    presence.resume_chases();
    release::release(&Lease::foreign(Arc::clone(presence), detached)).await
}
