//! A lease that travels: what another task, process or program needs to go on with a lock.
//!
//! It has no deadline. A deadline is a time on one machine's clock and says nothing on another's, and how long the
//! journey took is unknown: so whoever receives it asks the nodes before relying on anything. It is a secret, because
//! whoever has the token can release the lock: `Debug` shows the token's fingerprint, and no error of this crate shows more.

use std::fmt;
use std::time::Duration;

use crate::claim::Claim;
use crate::error::Error;
use crate::fencing::FencingToken;
use crate::resource::{IntoResources, Resource};
use crate::token::Token;
use crate::ttl::Ttl;

/// The longest token that is taken from elsewhere, in bytes: far above what any lock library writes.
const LONGEST_TOKEN: usize = 1024;

/// A lease without its holder: resources, token, TTL and fencing token, to be resumed elsewhere. A secret.
///
/// It holds nothing, says nothing about whether the lock is still there, and does nothing when it is dropped: the keys
/// are then left to their TTL. It may also be made of a resource and a token that another program used, to extend or
/// release that program's lock.
///
/// Nobody can see from a lease whether it is genuine. To release one means to delete keys whose value is its token, whatever
/// they are. A lease that passes through untrusted hands needs a MAC, which you check before you use it.
#[cfg_attr(feature = "serde", doc = "")]
#[cfg_attr(feature = "serde", doc = include_str!("detached/format.md"))]
#[derive(Clone, PartialEq, Eq)]
pub struct DetachedLease {
    pub(crate) claim: Claim,
    pub(crate) ttl: Ttl,
    pub(crate) fencing_token: Option<FencingToken>,
}

impl DetachedLease {
    /// A lease as another program has it: what it locked, with which token. `ttl` is for how long it is to be held when
    /// it is resumed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redlock_core::DetachedLease;
    ///
    /// let lease = DetachedLease::new("invoice:42", "1d0ca7e5", Duration::from_secs(10))?;
    /// assert_eq!(b"1d0ca7e5", lease.token().as_bytes());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for bad resources or more than 1,000, a token that is empty or longer than 1,024 bytes, and a
    /// TTL out of bounds.
    pub fn new(resources: impl IntoResources, token: impl AsRef<[u8]>, ttl: Duration) -> Result<Self, Error> {
        let token = token.as_ref();
        match token.len() {
            0 => return Err(Error::invalid("a token is empty; it needs 1 to 1024 bytes")),
            1..=LONGEST_TOKEN => {}
            long => return Err(Error::invalid(format!("a token is {long} bytes long; the limit is 1024"))),
        }
        let claim = Claim::new(resources.into_resources()?, Token::from_bytes(token));
        Ok(Self { claim, ttl: Ttl::new(ttl)?, fencing_token: None })
    }

    /// The same of a fenced lock that has this fencing token. Resumed without it, a fenced lock is extended as a plain one,
    /// whatever newer claims have counted.
    #[must_use]
    pub fn with_fencing_token(mut self, fencing_token: FencingToken) -> Self {
        self.fencing_token = Some(fencing_token);
        self
    }

    /// What is locked: at least one resource, sorted.
    pub fn resources(&self) -> &[Resource] {
        self.claim.resources()
    }

    /// The value under every key of the lock.
    pub fn token(&self) -> &Token {
        self.claim.token()
    }

    /// The TTL that the lock was last given.
    pub fn ttl(&self) -> Duration {
        self.ttl.as_duration()
    }

    /// Of a fenced lock: its [fencing token](crate::Lease::fencing_token).
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing_token
    }
}

/// Shows the token's fingerprint, never the token.
impl fmt::Debug for DetachedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedLease")
            .field("resources", self.claim.all_resources())
            .field("token", self.token())
            .field("ttl", &self.ttl)
            .field("fencing_token", &self.fencing_token)
            .finish()
    }
}

#[cfg(feature = "serde")]
mod format;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const TTL: Duration = Duration::from_secs(10);

    #[test]
    fn what_could_not_be_a_lock_is_refused() {
        let long = "x".repeat(LONGEST_TOKEN + 1);
        for (wrong, said) in [
            (DetachedLease::new("a", "", TTL), "a token is empty"),
            (DetachedLease::new("a", &long, TTL), "1025 bytes"),
            (DetachedLease::new("", "token", TTL), "resource name is empty"),
            (DetachedLease::new(["a", "a"], "token", TTL), "named twice"),
            (DetachedLease::new("a", "token", Duration::ZERO), "TTL of 0ns is too short"),
        ] {
            let error = wrong.unwrap_err();
            assert_eq!(ErrorKind::Invalid, error.kind());
            assert!(error.to_string().contains(said), "{error}");
            assert!(!error.to_string().contains("xxx"), "a token in an error: {error}");
        }
        assert!(DetachedLease::new("a", &long[1..], TTL).is_ok());
    }

    #[test]
    fn it_never_prints_its_token() {
        let lease = DetachedLease::new("invoice:42", "hunter2-hunter2", TTL).unwrap();
        let shown = format!("{lease:?} {lease:#?}");
        assert!(!shown.contains("hunter"), "{shown}");
        for part in ["invoice:42", "10s", &lease.token().fingerprint().to_string()] {
            assert!(shown.contains(part), "{shown}");
        }
    }
}
