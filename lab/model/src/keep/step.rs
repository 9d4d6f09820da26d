//! The possible steps.

use std::fmt;

use crate::keep::scope::EXTENSIONS;

/// An event. A is the client that keeps its lock, and B is the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields
pub enum Step {
    /// A starts its attempt and sends acquires to all nodes.
    Attempt,
    /// A starts to extend its lease on all nodes.
    Extend,
    /// A starts to keep its lock: the renewals end.
    Keep,
    /// A drops an operation that keeps its lock. A fault.
    Cancel,
    /// The validity of the earliest remaining round of A ends. An attempt and a lease end with their last one.
    Lapse,
    /// The promised time of the keys ends.
    Elapse,
    /// The time on which A relies ends. It differs from the promised time of the keys only if the rule is broken.
    RelyNoLonger,
    /// A node carries a request of A out, and A receives the reply if it waits for it.
    Carry(Request),
    /// A node carries a request of A out, and the reply is lost. A fault.
    CarryWithoutReply(Request),
    /// A call of A ends without its reply, and its request may be carried out later. A fault.
    Fail(Request),
    /// The connection of A to a node breaks, and A notices. A fault.
    Break { node: usize },
    /// B starts its attempt.
    OtherAttempt,
    /// A node carries the acquire of B out.
    OtherCarry { node: usize },
    /// B drops its attempt or releases its lease, or its validity ends.
    OtherEnd,
    /// A key expires, or a release deletes it.
    Expire { node: usize },
}

/// Identifies a request of A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The node.
    pub node: usize,
    /// The kind of the request.
    pub kind: RequestKind,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Sets the key if it does not exist: the acquire is number 0, and refills have the number of their extension.
    Write(usize),
    /// Raises the life of the key. Extensions count from 1.
    Extend(usize),
    /// Sets the life of the key to the promised time.
    Keep,
}

impl RequestKind {
    /// All kinds.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..=EXTENSIONS).map(Self::Write).chain((1..=EXTENSIONS).map(Self::Extend)).chain([Self::Keep])
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attempt => write!(f, "A begins its attempt"),
            Self::Extend => write!(f, "A extends"),
            Self::Keep => write!(f, "A keeps its lock for a time: its renewals end"),
            Self::Cancel => write!(f, "A drops the operation"),
            Self::Lapse => write!(f, "A: a validity ends"),
            Self::Elapse => write!(f, "the promised time of the keys ends"),
            Self::RelyNoLonger => write!(f, "A relies on the promise no longer"),
            Self::Carry(request) => write!(f, "n{} carries out {request}", request.node),
            Self::CarryWithoutReply(request) => {
                write!(f, "n{} carries out {request}, A does not receive the reply", request.node)
            }
            Self::Fail(request) => {
                write!(f, "A will not receive the reply of n{} to {request}", request.node)
            }
            Self::Break { node } => write!(f, "the connection of A to n{node} breaks"),
            Self::OtherAttempt => write!(f, "B begins its attempt"),
            Self::OtherCarry { node } => write!(f, "n{node} carries out acquire B"),
            Self::OtherEnd => write!(f, "B ends its attempt or its lease"),
            Self::Expire { node } => write!(f, "the key on n{node} expires"),
        }
    }
}

/// Formats the request like `keep A`.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            RequestKind::Write(0) => "acquire A",
            RequestKind::Write(_) => "refill A",
            RequestKind::Extend(_) => "extend A",
            RequestKind::Keep => "keep A",
        })
    }
}
