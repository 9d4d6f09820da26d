//! Breaking a lock: deleting the keys of a holder that an inspection has shown.
//!
//! It is the release of a lease that another program holds. Nodes delete a key only where it has the holder's token, so a
//! lock that has changed hands since the inspection stays.

use std::slice;
use std::sync::Arc;

use crate::client::handle::Handle;
use crate::client::inspect::Inspection;
use crate::client::resume;
use crate::telemetry;
use crate::types::claim::Claim;
use crate::types::detached::DetachedLease;
use crate::types::error::{Error, ErrorKind};
use crate::types::report::{Outcome, ReleaseOutcome};
use crate::types::resource::Resources;
use crate::types::token::{Fingerprint, Token};
use crate::types::ttl::Ttl;

pub(crate) async fn break_lock(
    handle: &Arc<Handle>,
    inspection: &Inspection,
    holder: &Fingerprint,
) -> Result<ReleaseOutcome, Error> {
    let resource = inspection.resource();
    let found = inspection.node_reports().iter().find_map(|report| match report.outcome() {
        Outcome::Held(entry) if entry.token.fingerprint() == *holder => Some(&entry.token),
        _ => None,
    });
    let Some(token) = found else {
        let message =
            format!("cannot break the lock on {resource:?}: {holder} does not hold it ({inspection})");
        return Err(Error::new(ErrorKind::Lost, message));
    };
    if *token == Token::of_readers() {
        let message =
            format!("cannot break the lock on {resource:?}: readers hold it and have no tokens of their own");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let claim = Claim::new(Resources::new(slice::from_ref(resource).iter().cloned())?, token.clone());
    // A release does not use the TTL.
    let lease = DetachedLease { claim, ttl: Ttl::MIN, fencing_token: None };
    let outcome = resume::release(handle, &lease).await?;
    telemetry::broken(&lease.claim);
    Ok(outcome)
}
