//! The requests about a claim, which depend on the kind of lock.

use crate::node::Request;
use crate::types::claim::Claim;
use crate::types::fencing_token::FencingToken;
use crate::types::resource::Resource;
use crate::types::ttl::Ttl;

/// The way in which a claim excludes others.
#[derive(Clone, Debug)]
pub(crate) enum Mode {
    /// It excludes everyone.
    Exclusive,
    /// It excludes everyone, and has a fencing token.
    Fenced,
    /// It excludes everyone except readers. They are not granted while a writer has locked the gate.
    Shared { gate: Resource },
}

impl Mode {
    /// Returns the gate of a reader.
    pub(crate) fn gate(&self) -> Option<&Resource> {
        match self {
            Self::Exclusive | Self::Fenced => None,
            Self::Shared { gate } => Some(gate),
        }
    }

    pub(crate) fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced)
    }

    /// Returns the request that creates the claim.
    pub(crate) fn acquire(&self, claim: Claim, ttl: Ttl) -> Request {
        match self {
            Self::Exclusive => Request::Acquire(claim, ttl),
            Self::Fenced => Request::AcquireFenced(claim, ttl),
            Self::Shared { gate } => Request::AcquireShared(claim, gate.clone(), ttl),
        }
    }

    /// Returns the request that extends the claim.
    pub(crate) fn extend(claim: Claim, ttl: Ttl, token: Option<FencingToken>) -> Request {
        match token {
            Some(token) => Request::Confirm(claim, ttl, token),
            None => Request::Extend(claim, ttl),
        }
    }

    /// Returns the request that writes the claim again to a node that has lost it.
    pub(crate) fn refill(&self, claim: Claim, ttl: Ttl, token: Option<FencingToken>) -> Request {
        match token {
            Some(token) => Request::Refill(claim, ttl, token),
            None => self.acquire(claim, ttl),
        }
    }
}
