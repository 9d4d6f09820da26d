//! The operations of a node, as values. This is the only list of them.

use std::fmt;
use std::slice::from_ref;

use crate::types::claim::Claim;
use crate::types::fencing_token::FencingToken;
use crate::types::resource::Resource;
use crate::types::ttl::Ttl;

/// A request to a node.
///
/// Each variant states the effect and the replies. Every operation is atomic on its node, and all of its checks come
/// before its first change. The first three are required; a node that does not support another one replies with
/// [`NodeError::unsupported`](super::NodeError::unsupported).
///
/// Clones share the names and the token.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Request {
    /// Sets every resource of the claim to its token, or none of them.
    ///
    /// [`Granted`](super::Reply::Granted) if each resource is absent or holds this token already. Absent resources are
    /// set and expire after the TTL. A resource that holds the token already is left as it is.
    ///
    /// Otherwise [`Denied`](super::Reply::Denied), and nothing is changed. The denial has the holder's token and the
    /// remaining TTL, if they are cheap to determine.
    ///
    /// A backend that supports [places](super::Profile::places) serves requests with a [place](super::Place) in order. A
    /// resource that holds the place is reserved for this request, and counts as absent. If the resource is absent and
    /// another place has waited longer, the resource is reserved for the place that has waited longest: it is set to that
    /// place for the time of its reservation, and the request is denied. A request that is denied enters the places, and
    /// one that is granted leaves them, as does a place for which the resource is reserved. If one of several resources is
    /// reserved for a request that is denied, the reservation passes on to the next place, and the request enters the
    /// places of this resource again, as if it had not waited. The denial may have the
    /// [position](super::Denial::position) of the place that it has entered, if the claim is on one resource.
    Acquire(Claim, Ttl),
    /// Makes the remaining TTL of every resource at least this long.
    ///
    /// [`Granted`](super::Reply::Granted) if every resource still holds the token. Otherwise
    /// [`Denied`](super::Reply::Denied), and nothing is changed. Never shortens a TTL, and never creates a resource.
    Extend(Claim, Ttl),
    /// Deletes each resource that still holds the token.
    ///
    /// [`Deleted`](super::Reply::Deleted) with `true` if at least one was deleted, and with `false` if no resource
    /// holds the token. Neither is an error. A key with a value that is not a lock is left as it is, and is not an
    /// error here.
    ///
    /// If the claim has a [place](super::Place), the place first enters the places of each resource, except a resource that
    /// is reserved for it. If it no longer waits, it leaves them. Then a resource that was deleted is reserved for the place
    /// that has waited longest, if there is one. The exception is a token whose last byte is a multiple of 16: other clients
    /// get their chance.
    Release(Claim),
    /// Acquires the claim, and raises the counters of its resources.
    ///
    /// Same as [`Acquire`](Request::Acquire). In addition, if something was set, the counters of all resources become
    /// the [next](FencingToken::next) of the greatest of them. If all resources hold the token already, nothing is
    /// changed, including the counters: a request that arrives twice counts once. (If a counter is gone by then, it is
    /// counted again.)
    ///
    /// [`Counted`](super::Reply::Counted) with the value of the counters, or a denial. If the next number would not be
    /// [plausible](FencingToken::is_plausible), the result is an error of the kind
    /// [`Rejected`](super::NodeErrorKind::Rejected), and nothing is changed. A counter is an error of the kind
    /// [`DamagedCounter`](super::NodeErrorKind::DamagedCounter) if it is not plausible, not a number, or at its
    /// maximum.
    ///
    /// A backend that supports this states it in its [profile](super::Profile::fencing), for this operation
    /// and the next two.
    AcquireFenced(Claim, Ttl),
    /// Extends the claim, and sets the counters of its resources to the fencing token.
    ///
    /// Same as [`Extend`](Request::Extend), if no counter of the resources is greater than the fencing token: then all
    /// of them become the token.
    ///
    /// - [`Granted`](super::Reply::Granted) in this case.
    /// - [`Denied`](super::Reply::Denied) if a resource does not hold the token of the claim.
    /// - [`Superseded`](super::Reply::Superseded) if all resources hold the token and a counter is greater. Nothing is
    ///   changed.
    /// - If all resources hold the token, an error of the kind [`Rejected`](super::NodeErrorKind::Rejected) if the
    ///   fencing
    ///   token is not [plausible](FencingToken::is_plausible), and
    ///   [`DamagedCounter`](super::NodeErrorKind::DamagedCounter) if a counter is not plausible. Nothing is changed.
    Confirm(Claim, Ttl, FencingToken),
    /// Acquires the claim, and sets the counters of its resources to the fencing token.
    ///
    /// Same as [`Acquire`](Request::Acquire), if no counter of the resources is greater than the fencing token: then
    /// all of them become the token. The replies are those of [`Confirm`](Request::Confirm), except that an absent
    /// resource does not cause a denial.
    Refill(Claim, Ttl, FencingToken),
    /// Adds the token to the readers of every resource of the claim, or of none of them.
    ///
    /// [`Granted`](super::Reply::Granted) if the gate, which is the second field, is absent, and each resource is
    /// absent or has readers. The time of this reader is the TTL then. If the token reads all resources already, the
    /// request is granted, nothing is changed, and the gate does not matter. Otherwise denied, and nothing is changed.
    ///
    /// A request with a [place](super::Place) has its place on each resource and on the gate, as in
    /// [`Acquire`](Request::Acquire). If it is granted, a gate that was reserved for it is reserved for the next place. For
    /// every reader, with a place or without, what is reserved for a [reader](super::Token::is_place_of_reader) counts as
    /// absent. While a resource is reserved in this way, the gate does not matter.
    ///
    /// A backend that supports this states it in its [profile](super::Profile::shared), for this operation
    /// and for [`WatchShared`](Request::WatchShared).
    AcquireShared(Claim, Resource, Ttl),
    /// Sets the TTL of each resource, even to a shorter one, if all resources hold the token.
    ///
    /// It is the last operation of a client on its claim. A backend that supports it states so in its
    /// [profile](super::Profile::keep). The replies are those of [`Extend`](Request::Extend).
    Keep(Claim, Ttl),
    /// Returns the holder of a resource on this node, and changes nothing.
    ///
    /// [`Held`](super::Reply::Held) with the token and its remaining time at one moment, or [`Free`](super::Reply::Free).
    /// A key of another type is an error. Both replies may have the number of [places](super::Place) that wait for the
    /// resource. A backend leaves it out if it keeps no places, or cannot count them.
    ///
    /// A backend that supports this states it in its [profile](super::Profile::inspect).
    Inspect(Resource),
    /// Begins to watch a resource, and returns its present state.
    ///
    /// A later change by any client completes [`Watch::changed`](super::Watch::changed). Without this operation, the
    /// core polls. A backend that supports this states it in its [profile](super::Profile::watch).
    Watch(Resource),
    /// Begins to watch a resource, or a gate, for a reader.
    ///
    /// Same as [`Watch`](Request::Watch), except that readers count as free.
    WatchShared(Resource),
    /// Ends the quarantine of the server, for all clients: the caller asserts that no lock was lost.
    ///
    /// [`Granted`](super::Reply::Granted), or an error. See [`Redlock::vouch`](crate::Redlock::vouch).
    Vouch,
}

/// The kind of a request.
///
/// Its text is the name in messages, events and metrics: `acquire`, `confirm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`Request::Acquire`], [`Request::AcquireFenced`], [`Request::AcquireShared`] and [`Request::Refill`].
    Acquire,
    /// [`Request::Extend`].
    Extend,
    /// [`Request::Release`].
    Release,
    /// [`Request::Confirm`].
    Confirm,
    /// [`Request::Keep`].
    Keep,
    /// [`Request::Inspect`].
    Inspect,
    /// [`Request::Watch`] and [`Request::WatchShared`].
    Watch,
    /// [`Request::Vouch`].
    Vouch,
}

impl Request {
    /// Returns the kind of the request.
    ///
    /// ```
    /// # use redlock_core::IntoResources;
    /// # use redlock_core::node::{Claim, Operation, Request, Token, Ttl};
    /// let claim = Claim::new("orders:42".into_resources()?, Token::from_bytes("alice"));
    /// assert_eq!(Operation::Acquire, Request::AcquireFenced(claim.clone(), Ttl::MAX).operation());
    /// assert_eq!("release", Request::Release(claim).operation().to_string());
    /// # Ok::<_, redlock_core::Error>(())
    /// ```
    pub fn operation(&self) -> Operation {
        match self {
            Self::Acquire(..) | Self::AcquireFenced(..) | Self::AcquireShared(..) | Self::Refill(..) => {
                Operation::Acquire
            }
            Self::Extend(..) => Operation::Extend,
            Self::Release(_) => Operation::Release,
            Self::Confirm(..) => Operation::Confirm,
            Self::Keep(..) => Operation::Keep,
            Self::Inspect(_) => Operation::Inspect,
            Self::Watch(_) | Self::WatchShared(_) => Operation::Watch,
            Self::Vouch => Operation::Vouch,
        }
    }

    /// Returns the claim of the request; `None` if it is about a single resource, or about the node.
    ///
    /// ```
    /// # use redlock_core::{IntoResource, IntoResources};
    /// # use redlock_core::node::{Claim, Request, Token};
    /// let claim = Claim::new("orders:42".into_resources()?, Token::from_bytes("alice"));
    /// let request = Request::Release(claim.clone());
    /// assert_eq!(Some(claim.token()), request.claim().map(Claim::token));
    /// assert!(Request::Inspect("orders:42".into_resource()?).claim().is_none());
    /// # Ok::<_, redlock_core::Error>(())
    /// ```
    pub fn claim(&self) -> Option<&Claim> {
        match self {
            Self::Acquire(claim, _)
            | Self::Extend(claim, _)
            | Self::Release(claim)
            | Self::AcquireFenced(claim, _)
            | Self::Confirm(claim, ..)
            | Self::Refill(claim, ..)
            | Self::AcquireShared(claim, ..)
            | Self::Keep(claim, _) => Some(claim),
            Self::Inspect(_) | Self::Watch(_) | Self::WatchShared(_) | Self::Vouch => None,
        }
    }

    /// Returns the resources of the request: none if it is about the node.
    ///
    /// ```
    /// # use redlock_core::IntoResource;
    /// # use redlock_core::node::Request;
    /// let order = "orders:42".into_resource()?;
    /// assert_eq!([order.clone()], Request::Inspect(order).resources());
    /// assert!(Request::Vouch.resources().is_empty());
    /// # Ok::<_, redlock_core::Error>(())
    /// ```
    pub fn resources(&self) -> &[Resource] {
        match self {
            Self::Inspect(resource) | Self::Watch(resource) | Self::WatchShared(resource) => {
                from_ref(resource)
            }
            _ => self.claim().map_or(&[], |claim| claim.resources()),
        }
    }

    /// Returns whether the reply is a vote, which does not count during a [quarantine](super::Admission).
    ///
    /// ```
    /// # use redlock_core::IntoResources;
    /// # use redlock_core::node::{Claim, Request, Token, Ttl};
    /// let claim = Claim::new("orders:42".into_resources()?, Token::from_bytes("alice"));
    /// assert!(Request::Acquire(claim.clone(), Ttl::MAX).is_vote());
    /// assert!(!Request::Release(claim).is_vote(), "releases always count");
    /// # Ok::<_, redlock_core::Error>(())
    /// ```
    pub fn is_vote(&self) -> bool {
        self.operation().is_vote()
    }
}

impl Operation {
    pub(crate) fn is_vote(self) -> bool {
        !matches!(self, Self::Release | Self::Vouch)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Extend => "extend",
            Self::Release => "release",
            Self::Confirm => "confirm",
            Self::Keep => "keep",
            Self::Inspect => "inspect",
            Self::Watch => "watch",
            Self::Vouch => "vouch",
        }
    }
}

/// The effect, as a phrase that completes the sentence *this backend cannot …*.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acquire(..) => "acquire a lock",
            Self::Extend(..) => "extend a lock",
            Self::Release(_) => "release a lock",
            Self::AcquireFenced(..) => "acquire with a fencing token",
            Self::Confirm(..) => "confirm a fencing token",
            Self::Refill(..) => "refill with a fencing token",
            Self::AcquireShared(..) => "share a lock among readers",
            Self::Keep(..) => "keep a lock for a time",
            Self::Inspect(_) => "inspect",
            Self::Watch(_) => "watch",
            Self::WatchShared(_) => "watch a lock for a reader",
            Self::Vouch => "vouch for its data",
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
