//! `redlock break`: deleting the lock of a holder that an inspection has shown.
//!
//! It is a compare-and-delete with the holder's token, which the servers return to an inspection. A lock that has changed
//! hands in between stays.

use redlock_redis_rs::{ErrorKind, Fingerprint, NodeReport, Outcome, ReleaseOutcome};

use super::{print, resources, with_redlock};
use crate::args::{Break, Shared};
use crate::exit::{Code, Failure};
use crate::request;

/// Deletes the keys of the named holder.
pub(crate) fn break_lock(args: &Break, shared: &Shared) -> Result<u8, Failure> {
    let names = resources(std::slice::from_ref(&args.resource))?;
    let quiet = shared.quiet;
    with_redlock(shared, async |redlock, _| {
        let failure = |error| request::failure(&error);
        let name = &names[0];
        let found = redlock.inspect(name).await.map_err(failure)?;
        let mut holders: Vec<_> = found.node_reports().iter().filter_map(holder).collect();
        holders.retain(|holder| is_named(holder, &args.holder));
        holders.dedup();
        if holders.is_empty() {
            return Err(Failure::new(
                Code::Conflict,
                format!("{} does not hold the lock: {found}", args.holder),
            ));
        }
        for holder in holders {
            match redlock.break_lock(&found, &holder).await {
                Ok(ReleaseOutcome::Released) if quiet => {}
                Ok(ReleaseOutcome::Released) => print(&format!("broke the lock on {name:?} of {holder}"))?,
                Ok(_) => return Err(Failure::new(Code::Lost, "the lock was no longer held")),
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    let way = "stop their commands, or wait until their locks expire";
                    return Err(Failure::usage(format!(
                        "readers hold {name:?}, and cannot be named one by one; {way}"
                    )));
                }
                Err(error) => return Err(failure(error)),
            }
        }
        Ok(0)
    })
}

fn holder(report: &NodeReport) -> Option<Fingerprint> {
    match report.outcome() {
        Outcome::Held(entry) => Some(entry.token.fingerprint()),
        _ => None,
    }
}

/// Compares with `LABEL#FINGERPRINT`, `#FINGERPRINT` or `FINGERPRINT`.
fn is_named(found: &Fingerprint, holder: &str) -> bool {
    let shown = found.to_string();
    let fingerprint = shown.rsplit('#').next().unwrap_or_default();
    shown == holder || fingerprint == holder.strip_prefix('#').unwrap_or(holder)
}

#[cfg(test)]
mod tests {
    use redlock_redis_rs::node::Token;

    use super::*;

    #[test]
    fn a_holder_is_named_with_and_without_its_label() {
        let found = Token::from_bytes(format!("web-1:77#{}", "0".repeat(40))).fingerprint();
        let shown = found.to_string();
        let fingerprint = shown.strip_prefix("web-1:77#").unwrap();
        assert!(
            is_named(&found, &shown)
                && is_named(&found, fingerprint)
                && is_named(&found, &format!("#{fingerprint}"))
        );
        for other in ["", "web-1:77", "web-2:77#00000000", &format!("web-2:77#{fingerprint}")] {
            assert!(!is_named(&found, other), "{other}");
        }
    }
}
