//! The possible steps, and the results that clients see.

use std::fmt;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client starts an attempt with a new token and sends acquires to all nodes.
    Attempt {
        /// The client.
        client: usize,
    },
    /// A client drops its attempt before the outcome is known. A fault.
    Cancel {
        /// The client.
        client: usize,
    },
    /// A client starts to extend its lease on all nodes.
    Extend {
        /// The client.
        client: usize,
    },
    /// A client releases its lease on all nodes.
    Release {
        /// The client.
        client: usize,
    },
    /// The validity of the earliest remaining round ends by the clock of the client. Open calls of that round end, with
    /// their reply if one has arrived.
    Lapse {
        /// The client.
        client: usize,
    },
    /// A node carries a request out. If nothing depends on the arrival of the reply, it arrives at once.
    Carry(Request),
    /// A node carries a request out, and a reply that would arrive at once is lost. A fault.
    CarryWithoutReply(Request),
    /// A node carries a request out, and a copy of it is in flight. A fault.
    CarryTwice(Request),
    /// A node carries the copy of a request out.
    CarryCopy(Request),
    /// A reply arrives.
    Reply(Request),
    /// A reply to an acquire or an extension arrives, and does not count: the node is in quarantine. A fault.
    ReplyUncounted(Request),
    /// A call ends without its reply, and its request may be carried out later. A fault.
    Fail(Request),
    /// A connection breaks, and its client notices. A fault.
    Break {
        /// The client.
        client: usize,
        /// The node.
        node: usize,
    },
    /// A key expires.
    Expire {
        /// The node.
        node: usize,
    },
    /// A broken variant abandons a cleanup.
    Abandon {
        /// The client.
        client: usize,
        /// The attempt.
        attempt: usize,
        /// The node.
        node: usize,
    },
}

/// Identifies a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client.
    pub client: usize,
    /// The attempt, from 0.
    pub attempt: usize,
    /// The node.
    pub node: usize,
    /// The kind of the request.
    pub kind: RequestKind,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Sets the key if no other client has it.
    Acquire,
    /// Prolongs the life of the key.
    Extend,
    /// Sets a missing key after the extension of that number, from 0.
    Refill(usize),
    /// Deletes the key.
    Release,
}

/// A result that a client sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The call of an acquire has ended.
    Voted {
        /// The client.
        client: usize,
        /// The attempt.
        attempt: usize,
        /// The node.
        node: usize,
        /// The reply of the node, or `None` if there was none, or if it does not count.
        granted: Option<bool>,
    },
    /// An attempt has acquired a lease.
    Granted {
        /// The client.
        client: usize,
    },
    /// An attempt has failed.
    Lost {
        /// The client.
        client: usize,
        /// True if a quorum granted too late.
        expired: bool,
    },
    /// An extension has succeeded.
    Extended {
        /// The client.
        client: usize,
    },
    /// An extension has failed.
    NotExtended {
        /// The client.
        client: usize,
        /// True if a quorum granted too late.
        expired: bool,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attempt { client } => write!(f, "{} begins an attempt", name(*client)),
            Self::Cancel { client } => write!(f, "{} drops its attempt", name(*client)),
            Self::Extend { client } => write!(f, "{} extends", name(*client)),
            Self::Release { client } => write!(f, "{} releases", name(*client)),
            Self::Lapse { client } => write!(f, "{}: a validity ends", name(*client)),
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
            Self::CarryCopy(request) => write!(f, "n{} carries out the copy of {request}", request.node),
            Self::Reply(request) => {
                write!(f, "{} receives the reply of n{} to {request}", name(request.client), request.node)
            }
            Self::ReplyUncounted(request) => write!(f, "{}, in quarantine", Self::Reply(*request)),
            Self::Fail(request) => {
                write!(
                    f,
                    "{} will not receive the reply of n{} to {request}",
                    name(request.client),
                    request.node
                )
            }
            Self::Break { client, node } => {
                write!(f, "the connection of {} to n{node} breaks", name(*client))
            }
            Self::Expire { node } => write!(f, "the key on n{node} expires"),
            Self::Abandon { client, attempt, node } => {
                write!(f, "{} abandons the cleanup of {} on n{node}", name(*client), token(*client, *attempt))
            }
        }
    }
}

/// Formats the request like `acquire A1`.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            RequestKind::Acquire => "acquire",
            RequestKind::Extend => "extend",
            RequestKind::Refill(_) => "refill",
            RequestKind::Release => "release",
        };
        write!(f, "{kind} {}", token(self.client, self.attempt))
    }
}

fn name(client: usize) -> char {
    if client == 0 { 'A' } else { 'B' }
}

fn token(client: usize, attempt: usize) -> String {
    format!("{}{}", name(client), attempt + 1)
}
