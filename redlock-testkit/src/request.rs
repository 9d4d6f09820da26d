//! The operations of a node as values: requests, and their replies.

use redlock_core::node::{
    Claim, ConfirmVote, Denial, FencedVote, LockEntry, LockNode, NodeError, Ttl, Vote, Watch,
};
use redlock_core::{FencingToken, Resource};

/// A request to a [`LockNode`], as a value.
///
/// A wrapper around a node can store, delay, reorder and drop requests before it [applies](Request::apply) them.
///
/// ```
/// use redlock_core::IntoResources;
/// use redlock_core::node::{Claim, Token, Ttl, Vote};
/// use redlock_testkit::{MemoryNode, Operation, Request, block_on};
///
/// let claim = Claim::new("invoice:42".into_resources()?, Token::from_bytes("alice"));
/// let request = Request::Acquire(claim, Ttl::MAX);
/// assert_eq!(Operation::Acquire, request.operation());
///
/// let node = MemoryNode::new("fake-1");
/// assert_eq!(Vote::Granted, block_on(request.apply(&node))?.expect());
/// assert_eq!(Some(Token::from_bytes("alice")), node.holder("invoice:42"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Request {
    /// [`LockNode::acquire`].
    Acquire(Claim, Ttl),
    /// [`LockNode::extend`].
    Extend(Claim, Ttl),
    /// [`LockNode::keep_for`].
    Keep(Claim, Ttl),
    /// [`LockNode::acquire_fenced`].
    AcquireFenced(Claim, Ttl),
    /// [`LockNode::confirm`].
    Confirm(Claim, Ttl, FencingToken),
    /// [`LockNode::refill_fenced`].
    RefillFenced(Claim, Ttl, FencingToken),
    /// [`LockNode::release`].
    Release(Claim),
    /// [`LockNode::inspect`].
    Inspect(Resource),
    /// [`LockNode::watch`].
    Watch(Resource),
    /// [`LockNode::acquire_shared`].
    AcquireShared(Claim, Resource, Ttl),
    /// [`LockNode::watch_shared`].
    WatchShared(Resource),
}

/// The kind of a request to a [`LockNode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`LockNode::acquire`], fenced, shared or not, and [`LockNode::refill_fenced`].
    Acquire,
    /// [`LockNode::extend`] and [`LockNode::keep_for`].
    Extend,
    /// [`LockNode::release`].
    Release,
    /// [`LockNode::inspect`].
    Inspect,
    /// [`LockNode::watch`] and [`LockNode::watch_shared`].
    Watch,
    /// [`LockNode::confirm`].
    Confirm,
}

/// The reply of a node to a [`Request`], with one variant for each type of reply.
#[derive(Debug)]
pub enum NodeReply {
    /// The reply to an acquisition or extension.
    Vote(Vote),
    /// The reply to a fenced acquisition.
    Fenced(FencedVote),
    /// The reply to a confirmation or a fenced refill.
    Confirmed(ConfirmVote),
    /// The reply to a release: `true` if a resource was deleted.
    Released(bool),
    /// The reply to an inspection: the lock of the resource, if there is one.
    Inspected(Option<LockEntry>),
    /// The reply to a watch.
    Watching(Watch),
}

impl Request {
    /// Returns the kind of the request.
    ///
    /// ```
    /// # use redlock_core::{IntoResources, node::{Claim, Token, Ttl}};
    /// # use redlock_testkit::{Operation, Request};
    /// let resources = "orders:42".into_resources()?;
    /// let claim = Claim::new(resources, Token::from_bytes("alice"));
    /// let keep = Request::Keep(claim.clone(), Ttl::MAX);
    /// assert_eq!(Operation::Extend, keep.operation(), "it sets the time of a held lock");
    /// assert_eq!(Operation::Release, Request::Release(claim).operation());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn operation(&self) -> Operation {
        match self {
            Self::Acquire(..)
            | Self::AcquireFenced(..)
            | Self::AcquireShared(..)
            | Self::RefillFenced(..) => Operation::Acquire,
            Self::Confirm(..) => Operation::Confirm,
            Self::Extend(..) | Self::Keep(..) => Operation::Extend,
            Self::Release(_) => Operation::Release,
            Self::Inspect(_) => Operation::Inspect,
            Self::Watch(_) | Self::WatchShared(_) => Operation::Watch,
        }
    }

    /// Returns the claim of the request; `None` for an inspection and for a watch.
    ///
    /// ```
    /// # use redlock_core::{IntoResource, IntoResources, node::{Claim, Token}};
    /// # use redlock_testkit::Request;
    /// let resources = "orders:42".into_resources()?;
    /// let claim = Claim::new(resources, Token::from_bytes("alice"));
    /// let request = Request::Release(claim.clone());
    /// assert_eq!(Some(claim.token()), request.claim().map(Claim::token));
    /// assert!(Request::Inspect("orders:42".into_resource()?).claim().is_none());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn claim(&self) -> Option<&Claim> {
        match self {
            Self::Acquire(claim, _)
            | Self::Extend(claim, _)
            | Self::Keep(claim, _)
            | Self::AcquireFenced(claim, _)
            | Self::AcquireShared(claim, ..)
            | Self::Confirm(claim, ..)
            | Self::RefillFenced(claim, ..)
            | Self::Release(claim) => Some(claim),
            Self::Inspect(_) | Self::Watch(_) | Self::WatchShared(_) => None,
        }
    }

    /// Sends the request to a node.
    ///
    /// ```
    /// # use redlock_core::{IntoResources, node::{Claim, Token, Ttl}};
    /// # use redlock_testkit::{MemoryNode, Request, block_on};
    /// # let node = MemoryNode::new("fake-1");
    /// # let claim = Claim::new("orders:42".into_resources()?, Token::from_bytes("alice"));
    /// let sent = [Request::Acquire(claim.clone(), Ttl::MAX), Request::Release(claim)];
    /// for request in sent.iter().rev() {
    ///     block_on(request.apply(&node))?; // the release overtakes the acquisition
    /// }
    /// assert!(node.holder("orders:42").is_some(), "a key is left behind");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - The errors of the operation.
    ///
    /// # Cancel safety
    ///
    /// Same as the operation of the node.
    pub async fn apply(&self, node: &dyn LockNode) -> Result<NodeReply, NodeError> {
        Ok(match self {
            Self::Acquire(claim, ttl) => node.acquire(claim, *ttl).await?.into(),
            Self::Extend(claim, ttl) => node.extend(claim, *ttl).await?.into(),
            Self::Keep(claim, ttl) => node.keep_for(claim, *ttl).await?.into(),
            Self::AcquireFenced(claim, ttl) => node.acquire_fenced(claim, *ttl).await?.into(),
            Self::Confirm(claim, ttl, fence) => node.confirm(claim, *ttl, *fence).await?.into(),
            Self::RefillFenced(claim, ttl, fence) => node.refill_fenced(claim, *ttl, *fence).await?.into(),
            Self::Release(claim) => node.release(claim).await?.into(),
            Self::Inspect(resource) => node.inspect(resource).await?.into(),
            Self::Watch(resource) => node.watch(resource).await?.into(),
            Self::AcquireShared(claim, gate, ttl) => node.acquire_shared(claim, gate, *ttl).await?.into(),
            Self::WatchShared(resource) => node.watch_shared(resource).await?.into(),
        })
    }

    /// Returns the reply of a node that denies the request; `None` for inspections and watches.
    ///
    /// A release deletes nothing then.
    pub(crate) fn denied(&self) -> Option<NodeReply> {
        let denial = Denial::default();
        match self {
            Self::Acquire(..) | Self::AcquireShared(..) | Self::Extend(..) | Self::Keep(..) => {
                Some(Vote::Denied(denial).into())
            }
            Self::AcquireFenced(..) => Some(FencedVote::Denied(denial).into()),
            Self::Confirm(..) | Self::RefillFenced(..) => Some(ConfirmVote::Denied(denial).into()),
            Self::Release(_) => Some(false.into()),
            Self::Inspect(_) | Self::Watch(_) | Self::WatchShared(_) => None,
        }
    }
}

impl NodeReply {
    /// Returns the reply as the type that belongs to the request.
    ///
    /// ```
    /// # use redlock_core::{IntoResources, node::{Claim, Token, Ttl}};
    /// # use redlock_testkit::{MemoryNode, Request, block_on};
    /// # let node = MemoryNode::new("fake-1");
    /// # node.set_holder("orders:42", Token::from_bytes("alice"), Ttl::MAX);
    /// # let claim = Claim::new("orders:42".into_resources()?, Token::from_bytes("alice"));
    /// let reply = block_on(Request::Release(claim).apply(&node))?;
    /// let is_deleted: bool = reply.expect();
    /// assert!(is_deleted);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the request has replies of another type.
    #[track_caller]
    pub fn expect<T: TryFrom<Self, Error = Self>>(self) -> T {
        self.try_into().unwrap_or_else(|other| panic!("a reply to another request: {other:?}"))
    }
}

/// Implements the conversions between [`NodeReply`] and the types of its variants.
macro_rules! conversions {
    ($($variant:ident: $reply:ty,)*) => {$(
        impl From<$reply> for NodeReply {
            fn from(reply: $reply) -> Self {
                Self::$variant(reply)
            }
        }

        impl TryFrom<NodeReply> for $reply {
            type Error = NodeReply;

            fn try_from(reply: NodeReply) -> Result<Self, NodeReply> {
                match reply {
                    NodeReply::$variant(reply) => Ok(reply),
                    other => Err(other),
                }
            }
        }
    )*};
}

conversions! {
    Vote: Vote,
    Fenced: FencedVote,
    Confirmed: ConfirmVote,
    Released: bool,
    Inspected: Option<LockEntry>,
    Watching: Watch,
}
