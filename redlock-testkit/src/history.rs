//! What happened in a simulated world, in true time: what clients asked for and were told, what servers carried out,
//! and what went wrong.
//!
//! A history is the only thing that invariants look at, and it is text: two runs are the same when
//! their histories are the same bytes. So nothing in it depends on an address, a hash or real time; tokens are numbered
//! in the order in which they were first sent.

pub(crate) mod claims;
mod recorder;
pub(crate) mod show;

use std::time::Duration;

use redlock_core::{ErrorKind, FencingToken, Instant, NodeError, Released, Vote};

pub use self::recorder::Recorder;
use crate::Operation;

/// Everything that happened, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(pub Vec<Event>);

/// Something that happened at a moment of true time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// What.
    pub what: What,
}

/// A token, numbered in the order in which tokens were first sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenNumber(pub u32);

/// How a server answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Yes.
    Granted,
    /// Yes, and the counters are at this now.
    Counted(FencingToken),
    /// No.
    Refused,
    /// No: it is ours, and a counter is at this, beyond our fencing token.
    Superseded(FencingToken),
    /// An error, and nothing was changed; or an error of the transport.
    Failed,
}

/// A request of a client to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which client sent it.
    pub client: usize,
    /// To which server.
    pub server: usize,
    /// What it asks for.
    pub operation: Operation,
    /// For whom.
    pub token: TokenNumber,
    /// Tells requests apart that are alike.
    pub call: u64,
}

/// Where something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// At a server.
    Server(usize),
    /// In a client.
    Client(usize),
    /// Between a client and a server.
    Between(usize, usize),
    /// On all ways.
    Network,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// The server is gone; what it keeps shows when it is back.
    Crash,
    /// The server is stopped: it receives, and carries out when it resumes.
    Hang,
    /// All keys are deleted at once, those of counters too.
    Flush,
    /// All locks are deleted at once; the counters are kept.
    Eviction,
    /// The counters of fencing tokens are lost. Since when the server has answered nobody: zero if it still does.
    Amnesia(Duration),
    /// The server refuses what needs memory.
    OutOfMemory,
    /// The server refuses every write.
    ReadOnly,
    /// The server's wall clock steps by so many milliseconds.
    Step(i64),
    /// A clock runs fast (or slow, if negative) by so many parts per million, beyond what the holder allows for.
    Drift(i32),
    /// Nothing gets through between a client and a server.
    Partition,
    /// Messages are lost, repeated and held up far more often than usual.
    Storm,
    /// The program is stopped while its clock and its timers go on.
    Pause,
    /// The machine is suspended: timers stand still, its clock goes on.
    Suspension,
    /// The program dies.
    Kill,
    /// Something that is no lock lies under the key of a resource.
    WrongType,
    /// One message is lost.
    Loss,
    /// One request arrives twice.
    Duplicate,
    /// One message is far later than others.
    Straggler,
    /// A connection breaks.
    Disconnect,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A client asks for a lock.
    Asked {
        /// Which client.
        client: usize,
        /// Which of the resources, all at once.
        resources: Vec<usize>,
        /// For how long.
        ttl: Duration,
        /// Whether it makes a single attempt.
        once: bool,
        /// Whether with a fencing token.
        fenced: bool,
    },
    /// It has the lock.
    Granted {
        /// Which client.
        client: usize,
        /// Which of the resources, all at once.
        resources: Vec<usize>,
        /// Under which token.
        token: TokenNumber,
        /// Until when by its own clock, in true time.
        until: Instant,
        /// With which fencing token, if it asked for one.
        fence: Option<FencingToken>,
    },
    /// It does not have it: an error, or nothing when it gave up by itself.
    NotGranted {
        /// Which client.
        client: usize,
        /// Why; `None` if it dropped the request.
        why: Option<ErrorKind>,
    },
    /// It asks for an extension.
    Extending {
        /// Which client.
        client: usize,
        /// Of which lock.
        token: TokenNumber,
        /// For how long from now.
        ttl: Duration,
    },
    /// The lock is extended.
    Extended {
        /// Which client.
        client: usize,
        /// Which lock.
        token: TokenNumber,
        /// Until when by its own clock, in true time.
        until: Instant,
    },
    /// It is not, or nobody knows.
    NotExtended {
        /// Which client.
        client: usize,
        /// Which lock.
        token: TokenNumber,
        /// Why; `None` if it dropped the request.
        why: Option<ErrorKind>,
    },
    /// It has the lock kept alive from now on.
    KeepsAlive {
        /// Which client.
        client: usize,
        /// Which lock.
        token: TokenNumber,
    },
    /// It sees that its deadline has moved: by keep-alive, or an extension that it gave up.
    Noticed {
        /// Which client.
        client: usize,
        /// Which lock.
        token: TokenNumber,
        /// Until when by its own clock, in true time.
        until: Instant,
    },
    /// The holder does what the lock is for, at the resource.
    Acted {
        /// Which client.
        client: usize,
        /// Under which lock.
        token: TokenNumber,
    },
    /// What the holder has sent arrives at the resource that the lock protects, which checks its fencing token.
    Wrote {
        /// Which client.
        client: usize,
        /// To which of the resources.
        resource: usize,
        /// Under which lock.
        token: TokenNumber,
        /// With which fencing token.
        fence: FencingToken,
        /// How many writes the holder had seen there when it decided what to write; `None` where it writes nothing but
        /// its fencing token.
        seen: Option<u64>,
        /// Whether the resource took it: it has seen no greater fencing token.
        taken: bool,
    },
    /// The holder lets go: from here on the lease is not valid.
    Releasing {
        /// Which client.
        client: usize,
        /// Which lock.
        token: TokenNumber,
        /// Whether it waits to hear what became of it.
        waits: bool,
    },
    /// What it heard.
    Released {
        /// Which client.
        client: usize,
        /// Which lock.
        token: TokenNumber,
        /// What the release found.
        outcome: Result<Released, ErrorKind>,
    },
    /// The client says that nothing of what it began is outstanding.
    Closed {
        /// Which client.
        client: usize,
    },
    /// A request leaves.
    Sent(Request),
    /// The server carries it out.
    Carried {
        /// Which.
        request: Request,
        /// What the server answers.
        said: Said,
        /// Until when the key stands by the server's clock, in true time, where the request wrote it.
        until: Option<Instant>,
        /// How long the request was under way before it arrived.
        travelled: Duration,
        /// Whether it was carried out before: the network has repeated it.
        again: bool,
    },
    /// The answer arrives, in time or not.
    Received {
        /// To which.
        request: Request,
        /// What it says.
        said: Said,
    },
    /// The server's clock was set: this key now stands until then.
    Moved {
        /// Which server.
        server: usize,
        /// Whose key.
        token: TokenNumber,
        /// Until when, in true time.
        until: Instant,
    },
    /// The server has lost a key that would stand.
    Lost {
        /// Which server.
        server: usize,
        /// Whose key.
        token: TokenNumber,
    },
    /// A key that stands at a moment at which somebody looks.
    Stands {
        /// At which server.
        server: usize,
        /// Whose key.
        token: TokenNumber,
    },
    /// Something goes wrong.
    Strikes(Place, Trouble),
    /// It is over.
    Passes(Place, Trouble),
    /// From here on nothing goes wrong any more.
    Calm,
}

impl Said {
    /// What an answer says.
    pub(crate) fn of(answer: &Result<Vote, NodeError>) -> Self {
        match answer {
            Ok(Vote::Granted) => Self::Granted,
            Ok(Vote::Counted(counter)) => Self::Counted(*counter),
            Ok(Vote::Superseded(counter)) => Self::Superseded(*counter),
            Ok(_) => Self::Refused,
            Err(_) => Self::Failed,
        }
    }

    /// Whether it is a yes.
    pub fn is_yes(self) -> bool {
        matches!(self, Self::Granted | Self::Counted(_))
    }
}

impl History {
    /// How often each thing went wrong; those that never did are left out.
    pub fn troubles(&self) -> Vec<(&'static str, usize)> {
        let mut counts: Vec<(&'static str, usize)> = Vec::new();
        for event in &self.0 {
            let What::Strikes(_, trouble) = event.what else { continue };
            match counts.iter_mut().find(|(name, _)| *name == trouble.name()) {
                Some((_, count)) => *count += 1,
                None => counts.push((trouble.name(), 1)),
            }
        }
        counts.sort_unstable();
        counts
    }

    /// How often a client was told that it has several resources at once.
    pub fn grants_of_several(&self) -> usize {
        let several = |what: &What| matches!(what, What::Granted { resources, .. } if resources.len() > 1);
        self.0.iter().filter(|event| several(&event.what)).count()
    }

    /// How often a client was told that it has a lock.
    pub fn grants(&self) -> usize {
        self.0.iter().filter(|event| matches!(event.what, What::Granted { .. })).count()
    }

    /// How often of them with a fencing token.
    pub fn fenced_grants(&self) -> usize {
        self.0.iter().filter(|event| matches!(event.what, What::Granted { fence: Some(_), .. })).count()
    }

    /// How many writes with a fencing token were taken, and refused, by the resources that they were for.
    pub fn writes(&self) -> (usize, usize) {
        let count = |wanted| {
            let written = |what: &What| matches!(what, What::Wrote { taken, .. } if *taken == wanted);
            self.0.iter().filter(|event| written(&event.what)).count()
        };
        (count(true), count(false))
    }
}

impl What {
    /// The token that it is about, if it is about one.
    pub fn token(&self) -> Option<TokenNumber> {
        match *self {
            Self::Granted { token, .. }
            | Self::Extending { token, .. }
            | Self::Extended { token, .. }
            | Self::NotExtended { token, .. }
            | Self::KeepsAlive { token, .. }
            | Self::Noticed { token, .. }
            | Self::Acted { token, .. }
            | Self::Wrote { token, .. }
            | Self::Releasing { token, .. }
            | Self::Released { token, .. }
            | Self::Sent(Request { token, .. })
            | Self::Carried { request: Request { token, .. }, .. }
            | Self::Received { request: Request { token, .. }, .. }
            | Self::Moved { token, .. }
            | Self::Lost { token, .. }
            | Self::Stands { token, .. } => Some(token),
            Self::Asked { .. }
            | Self::NotGranted { .. }
            | Self::Closed { .. }
            | Self::Strikes(..)
            | Self::Passes(..)
            | Self::Calm => None,
        }
    }
}
