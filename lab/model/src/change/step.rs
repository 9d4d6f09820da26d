//! The possible steps.

use std::fmt;

use crate::catalog::name;
/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields
pub enum Step {
    /// A client starts its attempt and sends acquires to all of its nodes.
    Attempt { client: usize },
    /// A client starts to extend its lease on all of its nodes.
    Extend { client: usize },
    /// A client drops its attempt or releases its lease.
    End { client: usize },
    /// The validity of the earliest remaining round ends by the clock of the client.
    Lapse { client: usize },
    /// A node carries a request out, and its client receives the reply if it waits for it.
    Carry(Request),
    /// A node carries a request out, and the reply is lost. A fault.
    CarryWithoutReply(Request),
    /// A node carries a request out, and a copy of it is in flight. A fault.
    CarryTwice(Request),
    /// A call ends without its reply, and its request may be carried out later. A fault.
    Fail(Request),
    /// A key expires, or a release deletes it.
    Expire { node: usize },
    /// A node loses its key, and is in quarantine if a lease relies on the key.
    Lose { node: usize },
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
    /// Sets the key if no client has it.
    Acquire,
    /// Prolongs the life of the key.
    Extend,
    /// Sets the key if no client has it, and does not count: an acquire whose call has ended, a copy, or a refill.
    Late,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Attempt { client } => write!(f, "{} begins its attempt", name(client)),
            Self::Extend { client } => write!(f, "{} extends", name(client)),
            Self::End { client } => write!(f, "{} drops its attempt or releases", name(client)),
            Self::Lapse { client } => write!(f, "{}: a validity ends", name(client)),
            Self::Carry(request) => write!(f, "n{} carries out {request}", request.node),
            Self::CarryWithoutReply(request) => {
                write!(
                    f,
                    "n{} carries out {request}, {} does not receive the reply",
                    request.node,
                    name(request.client)
                )
            }
            Self::CarryTwice(request) => write!(f, "n{} carries out {request}, a copy follows", request.node),
            Self::Fail(request) => {
                write!(
                    f,
                    "{} will not receive the reply of n{} to {request}",
                    name(request.client),
                    request.node
                )
            }
            Self::Expire { node } => write!(f, "the key on n{node} expires"),
            Self::Lose { node } => write!(f, "n{node} loses its key"),
        }
    }
}

/// Formats the request like `acquire A`.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            RequestKind::Acquire => "acquire",
            RequestKind::Extend => "extend",
            RequestKind::Late => "a late acquire or a refill of",
        };
        write!(f, "{kind} {}", name(self.client))
    }
}
