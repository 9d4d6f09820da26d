//! `redlock break`: deleting the lock of a holder that an inspection has shown.
//!
//! It is a compare-and-delete with the holder's token, which the servers return to an inspection. A lock that has changed
//! hands in between stays.

use std::time::Duration;

use redlock_redis_rs::node::Token;
use redlock_redis_rs::{DetachedLease, NodeReport, Outcome, ReleaseOutcome};

use super::{print, resources, with_redlock};
use crate::args::{Break, Shared};
use crate::exit::{Code, Failure};
use crate::request;

/// A lease has a TTL. This one is not used for a release.
const UNUSED_TTL: Duration = Duration::from_secs(1);

/// Deletes the keys of the named holder.
pub(crate) fn break_lock(args: &Break, shared: &Shared) -> Result<u8, Failure> {
    let names = resources(std::slice::from_ref(&args.resource))?;
    let quiet = shared.quiet;
    with_redlock(shared, async |redlock| {
        let failure = |error| request::failure(&error);
        let name = &names[0];
        let found = redlock.inspect(name).await.map_err(failure)?;
        let mut tokens: Vec<_> = found.node_reports().iter().filter_map(token).collect();
        tokens.retain(|token| is_named(token, &args.holder));
        tokens.dedup();
        if tokens.contains(&&Token::of_readers()) {
            let way = "stop their commands, or wait until their locks expire";
            return Err(Failure::usage(format!(
                "readers hold {name:?}, and cannot be named one by one; {way}"
            )));
        }
        if tokens.is_empty() {
            return Err(Failure::new(
                Code::Conflict,
                format!("{} does not hold the lock: {found}", args.holder),
            ));
        }
        for token in tokens {
            let lease = DetachedLease::new(name, token.as_bytes(), UNUSED_TTL).map_err(failure)?;
            match redlock.release(&lease).await.map_err(failure)? {
                ReleaseOutcome::Released if quiet => {}
                ReleaseOutcome::Released => {
                    print(&format!("broke the lock on {name:?} of {}", token.fingerprint()))?;
                }
                _ => return Err(Failure::new(Code::Lost, "the lock was no longer held")),
            }
        }
        Ok(0)
    })
}

fn token(report: &NodeReport) -> Option<&Token> {
    match report.outcome() {
        Outcome::Held(entry) => Some(&entry.token),
        _ => None,
    }
}

/// Compares with `LABEL#FINGERPRINT`, `#FINGERPRINT` or `FINGERPRINT`.
fn is_named(token: &Token, holder: &str) -> bool {
    let shown = token.fingerprint().to_string();
    let fingerprint = shown.rsplit('#').next().unwrap_or_default();
    shown == holder || fingerprint == holder.strip_prefix('#').unwrap_or(holder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_named_with_and_without_its_label() {
        let token = Token::from_bytes(format!("web-1:77#{}", "0".repeat(40)));
        let shown = token.fingerprint().to_string();
        let fingerprint = shown.strip_prefix("web-1:77#").unwrap();
        assert!(
            is_named(&token, &shown)
                && is_named(&token, fingerprint)
                && is_named(&token, &format!("#{fingerprint}"))
        );
        for other in ["", "web-1:77", "web-2:77#00000000", &format!("web-2:77#{fingerprint}")] {
            assert!(!is_named(&token, other), "{other}");
        }
    }
}
