//! The possible steps.

use std::fmt;

use crate::catalog::name;
/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields
pub enum Step {
    /// A client starts its attempt and sends acquires to all nodes.
    Attempt { client: usize },
    /// A client drops its attempt before the outcome is known. A fault.
    Cancel { client: usize },
    /// A client starts to extend its lease on all nodes.
    Extend { client: usize },
    /// A client releases its lease. The releases may be carried out from now on.
    Release { client: usize },
    /// The validity of the earliest remaining round ends by the clock of the client.
    Lapse { client: usize },
    /// A node carries a request out.
    Carry(Request),
    /// A node carries a request out, and a copy of it is in flight. A fault.
    CarryTwice(Request),
    /// A node denies a reader, for example because a writer waits.
    Deny(Request),
    /// A reply arrives.
    Reply(Request),
    /// A call ends without its reply, and its request may be carried out later. A fault.
    Fail(Request),
    /// A node carries the release of a client out, for the first time or again.
    Remove { client: usize, node: usize },
    /// The entry of a client expires.
    Expire { client: usize, node: usize },
}

/// Identifies a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client.
    pub client: usize,
    /// The node.
    pub node: usize,
    /// The kind of the request.
    pub kind: RequestKind,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Adds the entry of the client.
    Acquire,
    /// Prolongs the life of the entry.
    Extend,
    /// Adds the entry again after an extension. It does not count.
    Refill,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Attempt { client } => write!(f, "{} begins its attempt", name(client)),
            Self::Cancel { client } => write!(f, "{} drops its attempt", name(client)),
            Self::Extend { client } => write!(f, "{} extends", name(client)),
            Self::Release { client } => write!(f, "{} releases", name(client)),
            Self::Lapse { client } => write!(f, "{}: a validity ends", name(client)),
            Self::Carry(request) => write!(f, "n{} carries out {request}", request.node),
            Self::CarryTwice(request) => write!(f, "n{} carries out {request}, a copy follows", request.node),
            Self::Deny(request) => write!(f, "n{} denies {request}", request.node),
            Self::Reply(request) => {
                write!(f, "{} receives the reply of n{} to {request}", name(request.client), request.node)
            }
            Self::Fail(request) => {
                write!(
                    f,
                    "{} will not receive the reply of n{} to {request}",
                    name(request.client),
                    request.node
                )
            }
            Self::Remove { client, node } => write!(f, "n{node} carries out release {}", name(client)),
            Self::Expire { client, node } => write!(f, "the entry of {} on n{node} expires", name(client)),
        }
    }
}

/// Formats the request like `acquire A`.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            RequestKind::Acquire => "acquire",
            RequestKind::Extend => "extend",
            RequestKind::Refill => "refill",
        };
        write!(f, "{kind} {}", name(self.client))
    }
}
