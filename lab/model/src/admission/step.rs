//! The possible steps.

use std::fmt;

use crate::admission::loss::Loss;
use crate::catalog::name;

/// An event. A reply is received when its request is carried out, and the resulting decision is made at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are the client and the node
pub enum Step {
    /// A tick passes on all clocks.
    Tick,
    /// A client begins an attempt and sends acquires to all nodes.
    Begin { client: usize },
    /// A client ends its attempt or its lease.
    End { client: usize },
    /// A client begins to extend its lease on all nodes.
    Extend { client: usize },
    /// A client looks at the stamp of a node.
    Look { client: usize, node: usize },
    /// A client sends its acquire to a node. Only variants have this separate step.
    Send { client: usize, node: usize },
    /// A client receives the notification of a flush. Only variants have this separate step.
    Hear { client: usize, node: usize },
    /// A node carries out an acquire and sets the key.
    Acquire { client: usize, node: usize },
    /// A node carries out an extension.
    Prolong { client: usize, node: usize },
    /// A node carries out a refill and sets the key.
    Refill { client: usize, node: usize },
    /// The data of a node is copied.
    Copy { node: usize },
    /// A node loses data.
    Lose { node: usize, loss: Loss },
    /// A client receives the reply of a node to its acquire or extension. Only scopes with late replies have this.
    Receive { client: usize, node: usize },
    /// A client reads the clock of a node, and compares the stamp.
    Read { client: usize, node: usize },
    /// The clock of a node steps forward, or back if the number is negative.
    Clock { node: usize, by: i8 },
    /// An operator vouches for the data of a node.
    Vouch { node: usize },
    /// The clock of a node runs at twice its speed from now on.
    RunFast { node: usize },
    /// The connection of a client to a node breaks.
    Reconnect { client: usize, node: usize },
    /// A new process replaces a client that has no attempt.
    Replace { client: usize },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Tick => f.write_str("a tick passes"),
            Self::Begin { client } => write!(f, "{} begins an attempt", name(client)),
            Self::End { client } => write!(f, "{} ends its attempt", name(client)),
            Self::Extend { client } => write!(f, "{} extends", name(client)),
            Self::Look { client, node } => write!(f, "{} looks at n{node}", name(client)),
            Self::Send { client, node } => write!(f, "{} sends its acquire to n{node}", name(client)),
            Self::Hear { client, node } => write!(f, "{} is notified of the flush of n{node}", name(client)),
            Self::Acquire { client, node } => write!(f, "n{node} sets the key of {}", name(client)),
            Self::Prolong { client, node } => write!(f, "n{node} receives the extension of {}", name(client)),
            Self::Refill { client, node } => {
                write!(f, "n{node} is refilled with the key of {}", name(client))
            }
            Self::Copy { node } => write!(f, "the data of n{node} is copied"),
            Self::Lose { node, loss } => write!(f, "n{node} {loss}"),
            Self::Receive { client, node } => write!(f, "{} receives the reply of n{node}", name(client)),
            Self::Read { client, node } => write!(f, "{} reads the clock of n{node}", name(client)),
            Self::Clock { node, by } => {
                let (way, by) = (if by < 0 { "back" } else { "forward" }, by.unsigned_abs());
                write!(f, "the clock of n{node} steps {way} by {by}")
            }
            Self::Vouch { node } => write!(f, "an operator vouches for n{node}"),
            Self::RunFast { node } => write!(f, "the clock of n{node} begins to run fast"),
            Self::Reconnect { client, node } => {
                write!(f, "the connection of {} to n{node} breaks", name(client))
            }
            Self::Replace { client } => write!(f, "{} ends, and a new process replaces it", name(client)),
        }
    }
}
