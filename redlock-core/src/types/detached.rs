//! A detached lease: the data with which a lock is resumed elsewhere.
//!
//! It has no deadline. A deadline is a time on the clock of one machine and has no meaning on another. The time of the
//! transfer is unknown as well. Thus the receiver sends requests to the nodes before it relies on the lock.
//!
//! It is a secret, because a client that has the token can release the lock. `Debug` shows the token's fingerprint, and
//! no error of this crate shows more.

use std::fmt;
use std::time::Duration;

use crate::types::claim::Claim;
use crate::types::error::Error;
use crate::types::fencing_token::FencingToken;
use crate::types::resource::{IntoResources, Resource};
use crate::types::token::Token;
use crate::types::ttl::Ttl;

/// The maximum length of a token from elsewhere, in bytes.
///
/// Tokens of other lock libraries are far shorter.
const LONGEST_TOKEN: usize = 1024;

/// A lease without its holder, to be resumed elsewhere. A secret.
///
/// It consists of resources, token, TTL and fencing token. It holds nothing and does not show whether the lock still
/// exists. Dropping it has no effect: the keys are left to their TTL. You can also create one from a resource and a
/// token that another program used, to extend or release that program's lock.
///
/// A lease does not show whether it is genuine. Its release deletes all keys whose value is its token, even if they are
/// not locks. If a lease passes through untrusted hands, send a MAC with it, and verify the MAC before you use the
/// lease.
#[cfg_attr(feature = "serde", doc = "")]
#[cfg_attr(feature = "serde", doc = include_str!("detached/format.md"))]
#[derive(Clone, PartialEq, Eq)]
#[must_use = "the lock stays until its TTL ends; resume or release it"]
pub struct DetachedLease {
    pub(crate) claim: Claim,
    pub(crate) ttl: Ttl,
    pub(crate) fencing_token: Option<FencingToken>,
}

impl DetachedLease {
    /// Creates a lease from the resources and the token of another program.
    ///
    /// `ttl` is the TTL for which the lock is held after it is resumed.
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
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) in each of these cases:
    ///
    /// - The resources are invalid, or more than 1,000.
    /// - The token is empty or longer than 1,024 bytes.
    /// - The TTL is out of bounds.
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

    /// Adds the fencing token of a fenced lock.
    ///
    /// If a fenced lock is resumed without it, it is extended like a plain lock, even if newer claims have counted.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// # let sent = redlock.lock("orders:42", ttl).fenced().await?.detach().await;
    /// # let token = sent.token().as_bytes();
    /// # let fence = sent.fencing_token().unwrap();
    /// // Another process has sent the parts of the lease.
    /// let lease = DetachedLease::new("orders:42", token, ttl)?;
    /// let guard = redlock.resume(&lease.with_fencing_token(fence)).await?;
    /// assert_eq!(Some(fence), guard.fencing_token());
    /// # });
    /// ```
    pub fn with_fencing_token(mut self, fencing_token: FencingToken) -> Self {
        self.fencing_token = Some(fencing_token);
        self
    }

    /// Returns the locked resources: at least one, sorted.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock(["orders:42", "stock:7"], ttl).await?;
    /// let lease = guard.detach().await;
    /// assert_eq!("orders:42", lease.resources()[0].to_string());
    /// assert_eq!("stock:7", lease.resources()[1].to_string());
    /// # });
    /// ```
    pub fn resources(&self) -> &[Resource] {
        self.claim.resources()
    }

    /// Returns the value of every key of the lock.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let lease = redlock.lock("orders:42", ttl).await?.detach().await;
    /// // A script that continues the work needs the value of the key.
    /// let value = String::from_utf8_lossy(lease.token().as_bytes());
    /// assert_eq!(40, value.len(), "random digits, because there is no owner label");
    /// # });
    /// ```
    pub fn token(&self) -> &Token {
        self.claim.token()
    }

    /// Returns the last TTL of the lock.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let lease = redlock.lock("orders:42", ttl).await?.detach().await;
    /// // The message that carries the lease is valid for half of this time.
    /// let time_limit = lease.ttl() / 2;
    /// assert_eq!(Duration::from_secs(5), time_limit);
    /// # });
    /// ```
    pub fn ttl(&self) -> Duration {
        self.ttl.as_duration()
    }

    /// Returns the [fencing token](crate::Lease::fencing_token) of a fenced lock.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).fenced().await?;
    /// let fence = guard.fencing_token();
    /// assert_eq!(fence, guard.detach().await.fencing_token());
    /// # });
    /// ```
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
    use crate::types::error::ErrorKind;

    const TTL: Duration = Duration::from_secs(10);

    #[test]
    fn invalid_leases_are_rejected() {
        let long = "x".repeat(LONGEST_TOKEN + 1);
        for (wrong, expected) in [
            (DetachedLease::new("a", "", TTL), "a token is empty"),
            (DetachedLease::new("a", &long, TTL), "1025 bytes"),
            (DetachedLease::new("", "token", TTL), "resource name is empty"),
            (DetachedLease::new(["a", "a"], "token", TTL), "named twice"),
            (DetachedLease::new("a", "token", Duration::ZERO), "TTL of 0ns is too short"),
        ] {
            let error = wrong.unwrap_err();
            assert_eq!(ErrorKind::InvalidInput, error.kind());
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!error.to_string().contains("xxx"), "a token in an error: {error}");
        }
        assert!(DetachedLease::new("a", &long[1..], TTL).is_ok());
    }

    #[test]
    fn debug_output_omits_the_token() {
        let lease = DetachedLease::new("invoice:42", "hunter2-hunter2", TTL).unwrap();
        let shown = format!("{lease:?} {lease:#?}");
        assert!(!shown.contains("hunter"), "{shown}");
        for part in ["invoice:42", "10s", &lease.token().fingerprint().to_string()] {
            assert!(shown.contains(part), "{shown}");
        }
    }
}
