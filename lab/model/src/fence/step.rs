//! The possible steps.

use std::fmt;

use crate::catalog::name;
use crate::fence::scope::FAR;

/// An event. If its reply is received, that happens at once, and so does the resulting decision.
///
/// `counter` is the new value of F. `received` means that the attempt receives the reply. [`Again`](Step::Again)
/// changes F only if the rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields
pub enum Step {
    /// An attempt starts and sends acquires to all nodes.
    Begin { attempt: usize },
    /// A node carries out the acquire of an attempt and sets its key, for the first time or again.
    Set { attempt: usize, node: usize, counter: u8, received: bool },
    /// A node carries out the acquire of an attempt that already has the key, and replies with F.
    Again { attempt: usize, node: usize, counter: u8, received: bool },
    /// A node replies to an acquire with a counter far above all others, independent of its own. The attempt receives
    /// the reply.
    Lie { attempt: usize, node: usize },
    /// A node carries out a confirm of an attempt and counts for it.
    Confirm { attempt: usize, node: usize },
    /// A holder starts an extension.
    Extend { attempt: usize },
    /// A node that has lost the key of a holder is refilled.
    Refill { attempt: usize, node: usize },
    /// A key is released, expires or is lost.
    Vanish { node: usize },
    /// A failed attempt sets its key on a node, and the key is removed again.
    Pass { node: usize },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Begin { attempt } => write!(f, "{} begins", name(attempt)),
            Self::Set { attempt, node, counter, received } => {
                write!(f, "n{node} sets the key of {}, counter {counter}{}", name(attempt), lost(received))
            }
            Self::Again { attempt, node, counter, received } => {
                write!(f, "n{node} has the key of {}, counter {counter}{}", name(attempt), lost(received))
            }
            Self::Lie { attempt, node } => write!(f, "n{node} lies to {}: counter {FAR}", name(attempt)),
            Self::Confirm { attempt, node } => write!(f, "n{node} confirms {}", name(attempt)),
            Self::Extend { attempt } => write!(f, "{} extends", name(attempt)),
            Self::Refill { attempt, node } => {
                write!(f, "n{node} is refilled with the key of {}", name(attempt))
            }
            Self::Vanish { node } => write!(f, "the key on n{node} is removed"),
            Self::Pass { node } => write!(f, "the key of a failed attempt is set and removed on n{node}"),
        }
    }
}

fn lost(received: bool) -> &'static str {
    if received { "" } else { "; the reply is lost" }
}
