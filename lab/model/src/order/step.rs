//! The possible steps.

use std::fmt;

use crate::catalog::name;
use crate::order::scope::Fault;

/// An event. A, B and C are the clients.
///
/// `later` means that a request begins clearly after all earlier ones; `next` is that of the next request of the
/// process, if one waits. `placed` means that the attempt has a place, and `open` that the release hands over to
/// nobody. `penalty` is added to the score, and `delay` is the delay of the message in the score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields
pub enum Step {
    /// A request begins, and its first attempt.
    Begin { client: usize, later: bool, placed: bool },
    /// A further attempt of a request begins.
    Attempt { client: usize },
    /// A failed attempt is released.
    GiveBack { client: usize, penalty: u8, open: bool },
    /// A request that waits enters its place again on a node that may have lost it.
    Enter { client: usize, node: usize },
    /// A request is given up.
    Leave { client: usize },
    /// A lock is released.
    Release { client: usize, open: bool, next: Option<bool> },
    /// A node carries out the next request of a client.
    Carry { client: usize, node: usize, delay: u8 },
    /// A node carries out a stray request.
    CarryStray { client: usize, node: usize },
    /// The key on a node expires.
    Expire { node: usize },
    /// The places of a client on a node end, whose requests have made no attempt for a long time.
    Forget { client: usize, node: usize },
    /// A fault of a client, of a node, or of the next request from the client to the node.
    Fault { kind: Fault, client: usize, node: usize },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Begin { client, later, placed } => {
                let when = if later { "clearly after all others" } else { "together with the last one" };
                let plain = if placed { "" } else { ", with a plain attempt" };
                write!(f, "{} begins a request {when}{plain}", name(client))
            }
            Self::Attempt { client } => write!(f, "{} attempts again", name(client)),
            Self::GiveBack { client, penalty, open } => {
                let penalty = if penalty > 0 { ", with a penalty" } else { "" };
                let open = if open { ", an open turn" } else { "" };
                write!(f, "{} releases the failed attempt{penalty}{open}", name(client))
            }
            Self::Enter { client, node } => write!(f, "{} enters its place on n{node} again", name(client)),
            Self::Leave { client } => write!(f, "{} gives up", name(client)),
            Self::Release { client, open, next } => {
                let open = if open { ", an open turn" } else { "" };
                let next = match next {
                    None => "",
                    Some(true) => ", and enters a new request",
                    Some(false) => ", and enters a request that began with the last one",
                };
                write!(f, "{} releases the lock{open}{next}", name(client))
            }
            Self::Carry { client, node, delay } => {
                let delay = if delay > 0 { ", after a delay" } else { "" };
                write!(f, "n{node} carries out the next request of {}{delay}", name(client))
            }
            Self::CarryStray { client, node } => {
                write!(f, "n{node} carries out a stray request of {}", name(client))
            }
            Self::Expire { node } => write!(f, "the key on n{node} expires"),
            Self::Forget { client, node } => write!(f, "the place of {} on n{node} ends", name(client)),
            Self::Fault { kind, client, node } => match kind {
                Fault::Late => {
                    write!(f, "the connection of {} to n{node} breaks under its next request", name(client))
                }
                Fault::Repeat => write!(
                    f,
                    "n{node} carries out the next request of {}, and a copy is in flight",
                    name(client)
                ),
                Fault::NoReply => write!(
                    f,
                    "n{node} carries out the next request of {}, and the reply is lost",
                    name(client)
                ),
                Fault::Death => write!(f, "{} ends", name(client)),
                Fault::Pause => write!(f, "the key on n{node} expires too early"),
                Fault::Loss => write!(f, "n{node} loses its data"),
                Fault::LossOfWaiters => write!(f, "n{node} loses its waiters"),
                Fault::ClockStep => write!(f, "the clock of n{node} steps back"),
            },
        }
    }
}
