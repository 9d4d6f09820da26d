//! What can happen next, and what somebody sees of it.

use std::fmt;

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client begins an attempt, with a token of its own: it asks all nodes.
    Ask {
        /// Which client.
        client: usize,
    },
    /// It gives the attempt up before its outcome is known. A fault.
    Cancel {
        /// Which client.
        client: usize,
    },
    /// It begins to extend its lease: it asks all nodes.
    Extend {
        /// Which client.
        client: usize,
    },
    /// It releases its lease: on all nodes.
    Release {
        /// Which client.
        client: usize,
    },
    /// By its clock, the validity passes that comes from its earliest round of which it has not. Calls of that round that
    /// are open end: with the answer that has been given, if one was.
    Lapse {
        /// Which client.
        client: usize,
    },
    /// A node carries a request out. Where nothing depends on when the answer arrives, it does so at once.
    Carry(Request),
    /// A node carries a request out, and the answer that would arrive at once is lost. A fault.
    CarryUnanswered(Request),
    /// It does so, and another copy of it is under way. A fault.
    CarryTwice(Request),
    /// The copy is carried out.
    CarryCopy(Request),
    /// An answer arrives.
    Answer(Request),
    /// A call ends without its answer; what was sent may be carried out later. A fault.
    Fail(Request),
    /// A connection breaks, and its client notices. A fault.
    Break {
        /// Which client.
        client: usize,
        /// From which node.
        node: usize,
    },
    /// A key expires.
    Expire {
        /// Where.
        node: usize,
    },
    /// A broken variant gives a chase up.
    GiveUp {
        /// Which client.
        client: usize,
        /// Which attempt.
        attempt: usize,
        /// Where.
        node: usize,
    },
}

/// Which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whose.
    pub client: usize,
    /// Of which attempt, from 0.
    pub attempt: usize,
    /// To which node.
    pub node: usize,
    /// What it asks.
    pub asks: Asks,
}

/// What a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// To set the key, if nobody else has it.
    Acquire,
    /// To make it live longer.
    Extend,
    /// To set it where it is missing, after the extension of that number, from 0.
    Refill(usize),
    /// To delete it.
    Release,
}

/// What a client sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// How the call of an acquire ended.
    Voted {
        /// Whose.
        client: usize,
        /// Of which attempt.
        attempt: usize,
        /// Which node.
        node: usize,
        /// What it said; `None` if nothing.
        granted: Option<bool>,
    },
    /// An attempt has become a lease.
    Granted {
        /// Whose.
        client: usize,
    },
    /// An attempt was lost.
    Lost {
        /// Whose.
        client: usize,
        /// A quorum had granted, too late.
        expired: bool,
    },
    /// An extension has taken effect.
    Extended {
        /// Whose.
        client: usize,
    },
    /// It has not.
    NotExtended {
        /// Whose.
        client: usize,
        /// A quorum had granted, too late.
        expired: bool,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask { client } => write!(f, "{} begins an attempt", name(*client)),
            Self::Cancel { client } => write!(f, "{} gives its attempt up", name(*client)),
            Self::Extend { client } => write!(f, "{} extends", name(*client)),
            Self::Release { client } => write!(f, "{} releases", name(*client)),
            Self::Lapse { client } => write!(f, "{}: validity passes", name(*client)),
            Self::Carry(request) => write!(f, "n{} carries out {request}", request.node),
            Self::CarryUnanswered(request) => {
                write!(
                    f,
                    "n{} carries out {request}, {} does not hear of it",
                    request.node,
                    name(request.client)
                )
            }
            Self::CarryTwice(request) => write!(f, "n{} carries out {request}, a copy follows", request.node),
            Self::CarryCopy(request) => write!(f, "n{} carries out the copy of {request}", request.node),
            Self::Answer(request) => {
                write!(f, "{} hears from n{} of {request}", name(request.client), request.node)
            }
            Self::Fail(request) => {
                write!(f, "{} will not hear from n{} of {request}", name(request.client), request.node)
            }
            Self::Break { client, node } => {
                write!(f, "the connection of {} to n{node} breaks", name(*client))
            }
            Self::Expire { node } => write!(f, "the key on n{node} expires"),
            Self::GiveUp { client, attempt, node } => {
                write!(f, "{} takes {} on n{node} for undone", name(*client), token(*client, *attempt))
            }
        }
    }
}

/// `acquire A1`
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asks = match self.asks {
            Asks::Acquire => "acquire",
            Asks::Extend => "extend",
            Asks::Refill(_) => "refill",
            Asks::Release => "release",
        };
        write!(f, "{asks} {}", token(self.client, self.attempt))
    }
}

fn name(client: usize) -> char {
    if client == 0 { 'A' } else { 'B' }
}

fn token(client: usize, attempt: usize) -> String {
    format!("{}{}", name(client), attempt + 1)
}
