//! What can happen next.

use std::fmt;

use crate::fence::scope::FAR;

/// One thing that happens. Where an answer is heard, it is heard at once, and what it decides is decided at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An attempt begins: it asks all nodes.
    Begin {
        /// Which.
        attempt: usize,
    },
    /// A node carries out the acquire of an attempt and sets its key: the first time, or once more.
    Set {
        /// Whose.
        attempt: usize,
        /// Where.
        node: usize,
        /// What F becomes.
        counter: u8,
        /// The attempt hears the answer.
        heard: bool,
    },
    /// A node carries out the acquire of an attempt whose key it has already, and the attempt hears F.
    Again {
        /// Whose.
        attempt: usize,
        /// Where.
        node: usize,
        /// What F becomes, which is not what it was if the rule is broken.
        counter: u8,
        /// The attempt hears the answer.
        heard: bool,
    },
    /// A node answers the acquire of an attempt with a counter far above all others, whatever its own is. The attempt hears
    /// it.
    Lie {
        /// Whom.
        attempt: usize,
        /// Where.
        node: usize,
    },
    /// A node carries out a confirm of an attempt, and counts for it.
    Confirm {
        /// Whose.
        attempt: usize,
        /// Where.
        node: usize,
    },
    /// A holder begins to extend.
    Extend {
        /// Which.
        attempt: usize,
    },
    /// A node that has lost the key of a holder gets it back.
    Refill {
        /// Whose.
        attempt: usize,
        /// Where.
        node: usize,
    },
    /// A key goes: it was released, it has expired, or it is lost.
    Vanish {
        /// Where.
        node: usize,
    },
    /// An attempt that comes to nothing sets its key on a node, and it goes.
    Pass {
        /// Where.
        node: usize,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Begin { attempt } => write!(f, "{} begins", name(attempt)),
            Self::Set { attempt, node, counter, heard } => {
                write!(f, "n{node} sets the key of {}, counter {counter}{}", name(attempt), lost(heard))
            }
            Self::Again { attempt, node, counter, heard } => {
                write!(f, "n{node} has the key of {}, counter {counter}{}", name(attempt), lost(heard))
            }
            Self::Lie { attempt, node } => write!(f, "n{node} lies to {}: counter {FAR}", name(attempt)),
            Self::Confirm { attempt, node } => write!(f, "n{node} confirms {}", name(attempt)),
            Self::Extend { attempt } => write!(f, "{} extends", name(attempt)),
            Self::Refill { attempt, node } => {
                write!(f, "n{node} is refilled with the key of {}", name(attempt))
            }
            Self::Vanish { node } => write!(f, "the key on n{node} goes"),
            Self::Pass { node } => write!(f, "a stranger's key comes and goes on n{node}"),
        }
    }
}

fn lost(heard: bool) -> &'static str {
    if heard { "" } else { "; nobody hears of it" }
}

pub(crate) fn name(attempt: usize) -> char {
    char::from(b'A' + u8::try_from(attempt).unwrap_or(25))
}
