//! The replies of a node, and the outcomes that follow from them.

use std::time::Duration;

use super::{LockEntry, NodeError, Request, Watch};
use crate::types::fencing_token::FencingToken;
use crate::types::report::Outcome;
use crate::types::token::Token;

/// The reply of a node to a [`Request`]. Errors are not replies.
///
/// The variants of [`Request`] state which replies belong to a request. The core treats any other reply as an error
/// with an unknown effect.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reply {
    /// The request was carried out on every resource.
    Granted,
    /// A fenced acquisition was carried out on every resource; the counters have this value.
    Counted(FencingToken),
    /// The request was denied, and nothing was changed.
    Denied(Denial),
    /// The resources hold the token, but a counter is greater than the fencing token.
    ///
    /// Nothing was changed. The value is this counter. A newer claim has set it, so the node never counts for this
    /// claim again.
    Superseded(FencingToken),
    /// The reply to a release: `true` if a resource was deleted.
    Deleted(bool),
    /// The reply to an inspection: the lock of the resource, if there is one.
    Holder(Option<LockEntry>),
    /// The reply to a watch.
    Watching(Watch),
}

/// Replies are equal if they are the same, so tests can compare them. A watch equals no other.
impl PartialEq for Reply {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Granted, Self::Granted) => true,
            (Self::Counted(one), Self::Counted(other)) | (Self::Superseded(one), Self::Superseded(other)) => {
                one == other
            }
            (Self::Denied(one), Self::Denied(other)) => one == other,
            (Self::Deleted(one), Self::Deleted(other)) => one == other,
            (Self::Holder(one), Self::Holder(other)) => one == other,
            _ => false,
        }
    }
}

impl Reply {
    /// Returns whether the request was carried out on every resource.
    ///
    /// ```
    /// # use redlock_core::node::{Denial, Reply};
    /// assert!(Reply::Granted.is_grant());
    /// assert!(!Reply::Denied(Denial::default()).is_grant());
    /// ```
    pub fn is_grant(&self) -> bool {
        matches!(self, Self::Granted | Self::Counted(_))
    }

    /// Returns the outcome of a request.
    ///
    /// The effect is unknown if the reply does not belong to the request.
    pub(crate) fn outcome(result: Result<Self, NodeError>, of: &Request) -> Outcome {
        use Request::{
            Acquire, AcquireFenced, AcquireShared, Confirm, Extend, Inspect, Keep, Refill, Release, Vouch,
        };

        let reply = match result {
            Ok(reply) => reply,
            Err(error) => return Outcome::Failed(error),
        };
        match (reply, of) {
            (
                Self::Granted,
                Acquire(..) | Extend(..) | Confirm(..) | Refill(..) | AcquireShared(..) | Keep(..) | Vouch,
            ) => Outcome::Granted,
            (Self::Counted(counter), AcquireFenced(..)) => Outcome::GrantedFenced(counter),
            (
                Self::Denied(denial),
                Acquire(..) | Extend(..) | AcquireFenced(..) | Confirm(..) | Refill(..) | AcquireShared(..)
                | Keep(..),
            ) => Outcome::Denied(denial),
            (Self::Superseded(counter), Confirm(..) | Refill(..)) => Outcome::Superseded(counter),
            (Self::Deleted(true), Release(_)) => Outcome::Released,
            (Self::Deleted(false), Release(_)) => Outcome::NotHeld,
            (Self::Holder(None), Inspect(_)) => Outcome::Free,
            (Self::Holder(Some(entry)), Inspect(_)) => Outcome::Held(entry),
            (reply, of) => Outcome::Failed(NodeError::unknown(format!(
                "the backend replied {reply:?} to a request of another kind ({})",
                of.operation()
            ))),
        }
    }
}

/// The details of a denial.
///
/// The fields are optional: a backend sets those that are cheap to determine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denial {
    /// The token that holds the resource.
    pub holder: Option<Token>,
    /// The time until the key expires unless it is extended, by the node's clock.
    pub remaining: Option<Duration>,
    /// `true` if the key was gone when the node looked for its holder.
    ///
    /// Such a denial names no holder because there is none. Without this, a denial that names no holder may be caused by
    /// any client.
    pub is_gone: bool,
}

impl Denial {
    /// Creates a denial because of `holder`.
    ///
    /// ```
    /// # use redlock_core::node::{Denial, Reply, Token};
    /// // The value that the server has under the resource.
    /// let holder = Token::from_bytes("1d0ca7e5");
    /// let reply = Reply::Denied(Denial::by(holder.clone()));
    /// assert!(matches!(reply, Reply::Denied(denial) if denial.holder == Some(holder)));
    /// ```
    pub fn by(holder: Token) -> Self {
        Self { holder: Some(holder), ..Self::default() }
    }

    /// Creates the denial of a node that found no key any more when it looked for the holder.
    ///
    /// ```
    /// # use redlock_core::node::Denial;
    /// // `SET .. NX` set nothing, and `GET` then returned nothing.
    /// assert!(Denial::of_gone_key().is_gone);
    /// ```
    pub fn of_gone_key() -> Self {
        Self { is_gone: true, ..Self::default() }
    }

    /// Adds the time after which the holder's key expires.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::node::{Denial, Token};
    /// // The server returns the remaining time in milliseconds.
    /// let (value, pttl) = ("1d0ca7e5", 8_900);
    /// let denial = Denial::by(Token::from_bytes(value));
    /// let denial = denial.expiring_in(Duration::from_millis(pttl));
    /// assert_eq!(Some(Duration::from_millis(8_900)), denial.remaining);
    /// ```
    #[must_use]
    pub fn expiring_in(mut self, remaining: Duration) -> Self {
        self.remaining = Some(remaining);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::node::{Availability, Claim, NodeErrorKind, Ttl};
    use crate::types::resource::{IntoResource, IntoResources};

    fn requests() -> Vec<Request> {
        let claim = Claim::new("a".into_resources().unwrap(), Token::from_bytes("mine"));
        let (a, one) = ("a".into_resource().unwrap(), FencingToken::new(1).unwrap());
        vec![
            Request::Acquire(claim.clone(), Ttl::MAX),
            Request::Extend(claim.clone(), Ttl::MAX),
            Request::Keep(claim.clone(), Ttl::MAX),
            Request::AcquireShared(claim.clone(), a.clone(), Ttl::MAX),
            Request::AcquireFenced(claim.clone(), Ttl::MAX),
            Request::Confirm(claim.clone(), Ttl::MAX, one),
            Request::Refill(claim.clone(), Ttl::MAX, one),
            Request::Release(claim),
            Request::Inspect(a.clone()),
            Request::Vouch,
            Request::Watch(a),
        ]
    }

    /// Returns the operations for which a reply is valid. The others must fail with an unknown effect.
    fn valid_for(reply: impl Fn() -> Reply) -> Vec<String> {
        let is_valid = |request: &Request| match Reply::outcome(Ok(reply()), request) {
            Outcome::Failed(error) => {
                assert_eq!(NodeErrorKind::Unknown, error.kind(), "{error}");
                false
            }
            _ => true,
        };
        requests().iter().filter(|request| is_valid(request)).map(ToString::to_string).collect()
    }

    #[test]
    fn a_reply_of_another_kind_is_an_error_with_an_unknown_effect() {
        let one = FencingToken::new(1).unwrap();
        let plain =
            ["acquire a lock", "extend a lock", "keep a lock for a time", "share a lock among readers"];
        let fenced = ["acquire with a fencing token"];
        let written = ["confirm a fencing token", "refill with a fencing token"];
        let vouch = ["vouch for its data"];
        assert_eq!([&plain[..], &written, &vouch].concat(), valid_for(|| Reply::Granted));
        assert_eq!(fenced[..], valid_for(|| Reply::Counted(one)));
        assert_eq!([&plain[..], &fenced, &written].concat(), valid_for(|| Reply::Denied(Denial::default())));
        assert_eq!(written[..], valid_for(|| Reply::Superseded(one)));
        assert_eq!(["release a lock"][..], valid_for(|| Reply::Deleted(true)));
        assert_eq!(["inspect"][..], valid_for(|| Reply::Holder(None)));
        let watch = || Reply::Watching(Watch::new(Availability::Free, pending()));
        assert!(valid_for(watch).is_empty(), "a watch is no call of a round");
    }
}
