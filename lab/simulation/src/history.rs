//! The history of a simulated run, in true time: the requests and results of clients, the operations of servers, and
//! faults.
//!
//! Invariants look only at the history, and it is text: two runs are the same if their histories are the same bytes.
//! Nothing in it therefore depends on an address, a hash or real time. Tokens are numbered in the order in which they
//! were first sent.

pub(crate) mod claims;
mod recorder;
pub(crate) mod show;

use std::time::Duration;

use redlock_core::node::{self, Availability};
use redlock_core::runtime::Instant;
use redlock_core::{ErrorKind, FencingToken, Loss, ReleaseOutcome};
use redlock_testkit::Operation;

pub use self::recorder::Recorder;
use crate::server::Outcome;

/// All events, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(pub Vec<Event>);

/// An event at a moment of true time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time of the event.
    pub at: Instant,
    /// The event.
    pub kind: EventKind,
}

/// A token, numbered in the order in which tokens were first sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenNumber(pub u32);

impl TokenNumber {
    /// The token of requests about no claim, such as a watch. It has no number.
    pub const NONE: Self = Self(u32::MAX);
}

/// The reply of a server to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A grant.
    Granted,
    /// A grant with this value of the counters.
    Counted(FencingToken),
    /// A denial.
    Denied,
    /// A denial although the token holds the resources: a counter has this value, above the fencing token.
    Superseded(FencingToken),
    /// An error that changed nothing, or an error of the transport.
    Failed,
    /// A vote of a node in quarantine, which does not count.
    Uncounted,
}

/// A request of a client to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client that sent it.
    pub client: usize,
    /// The server that it was sent to.
    pub server: usize,
    /// The requested operation.
    pub operation: Operation,
    /// The token of the claim.
    pub token: TokenNumber,
    /// A number that distinguishes requests that are otherwise equal.
    pub call: u64,
}

/// The place of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A server.
    Server(usize),
    /// A client.
    Client(usize),
    /// The path between a client and a server.
    Between(usize, usize),
    /// All paths.
    Network,
    /// A resource that checks fencing tokens. It has no faults.
    Resource(usize),
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// The server is down. Its remaining data is determined at the restart.
    Crash,
    /// The server is stopped: it receives requests, and carries them out when it resumes.
    Hang,
    /// All keys are deleted at once, including those of counters.
    Flush,
    /// All locks are deleted at once; the counters are kept.
    Eviction,
    /// The counters of fencing tokens are lost. The value is how long the server was down before; zero if it still
    /// runs.
    Amnesia(Duration),
    /// All data was replaced by an older copy.
    Rollback,
    /// The server rejects requests that need memory.
    OutOfMemory,
    /// The server rejects every write.
    ReadOnly,
    /// The server's wall clock steps by this number of milliseconds.
    Step(i64),
    /// A clock runs fast (slow if negative) by these parts per million.
    ///
    /// This exceeds the drift that the holder allows for.
    Drift(i32),
    /// All messages between a client and a server are lost.
    Partition,
    /// Messages are lost, repeated and held up far more often than usual.
    Storm,
    /// The program is stopped while its clock and its timers continue.
    Pause,
    /// The machine is suspended: timers stop, its clock continues.
    Suspension,
    /// The program is killed.
    Kill,
    /// A resource's key holds a non-lock value.
    WrongType,
    /// One message is lost.
    Loss,
    /// One request arrives twice.
    Duplicate,
    /// One message is far later than others.
    Straggler,
    /// A connection breaks.
    Disconnect,
    /// A vote counts although the clock of the server has jumped before the client began to watch it.
    Unwatched,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A client requests a lock.
    Requested {
        /// The client.
        client: usize,
        /// The resources, all at once.
        resources: Vec<usize>,
        /// The TTL.
        ttl: Duration,
        /// `true` for a single attempt.
        once: bool,
        /// `true` for a lock with a fencing token.
        fenced: bool,
    },
    /// The client acquires the lock.
    Granted {
        /// The client.
        client: usize,
        /// The resources, all at once.
        resources: Vec<usize>,
        /// The token of the claim.
        token: TokenNumber,
        /// The deadline by the client's clock, in true time.
        until: Instant,
        /// The fencing token, if the client requested one.
        fence: Option<FencingToken>,
    },
    /// The client does not acquire the lock, because of an error or because it dropped the request.
    NotGranted {
        /// The client.
        client: usize,
        /// The reason; `None` if it dropped the request.
        why: Option<ErrorKind>,
    },
    /// The client starts an extension.
    Extending {
        /// The client.
        client: usize,
        /// The lock.
        token: TokenNumber,
        /// The TTL from now.
        ttl: Duration,
    },
    /// The lock is extended.
    Extended {
        /// The client.
        client: usize,
        /// The lock.
        token: TokenNumber,
        /// The deadline by the client's clock, in true time.
        until: Instant,
    },
    /// The lock is not extended, or the outcome is unknown.
    NotExtended {
        /// The client.
        client: usize,
        /// The lock.
        token: TokenNumber,
        /// The reason; `None` if it dropped the request.
        why: Option<ErrorKind>,
    },
    /// The lock that was just granted is shared with other readers.
    Reads {
        /// The client.
        client: usize,
        /// The lock.
        token: TokenNumber,
    },
    /// The client keeps the lock alive from now on.
    KeepsAlive {
        /// The client.
        client: usize,
        /// The lock.
        token: TokenNumber,
    },
    /// The client notices that its deadline has moved, by keep-alive or by an extension that it dropped.
    Noticed {
        /// The client.
        client: usize,
        /// The lock.
        token: TokenNumber,
        /// The deadline by the client's clock, in true time.
        until: Instant,
    },
    /// The holder learns that it has lost the lock, and stops.
    LossReported {
        /// The client.
        client: usize,
        /// The lock.
        token: TokenNumber,
        /// The reason.
        loss: Loss,
    },
    /// The holder acts on the resource under its lock.
    Acted {
        /// The client.
        client: usize,
        /// The lock.
        token: TokenNumber,
    },
    /// A message of the holder arrives at the resource, which checks its fencing token.
    Wrote {
        /// The client.
        client: usize,
        /// The resource.
        resource: usize,
        /// The lock.
        token: TokenNumber,
        /// The fencing token.
        fence: FencingToken,
        /// The number of earlier writes that the holder knew when it decided about this one. `None` if it writes only
        /// its fencing token.
        seen: Option<u64>,
        /// `true` if the resource accepted it: it has seen no greater fencing token.
        accepted: bool,
    },
    /// The holder starts to release. From here on, the lease is not valid.
    Releasing {
        /// The client.
        client: usize,
        /// The lock.
        token: TokenNumber,
        /// `true` if it waits for the outcome.
        waits: bool,
        /// `true` if the turn that follows is open: nodes reserve the resource for no waiter.
        is_open: bool,
    },
    /// The holder starts to keep the lock for a time. From here on, the lease is not valid.
    Keeping {
        /// The client.
        client: usize,
        /// The lock.
        token: TokenNumber,
    },
    /// The lock is kept: no other client acquires it before the promised end.
    Kept {
        /// The client.
        client: usize,
        /// The lock.
        token: TokenNumber,
        /// The promised end, in true time.
        until: Instant,
    },
    /// The release completes.
    Released {
        /// The client.
        client: usize,
        /// The lock.
        token: TokenNumber,
        /// The outcome of the release.
        outcome: Result<ReleaseOutcome, ErrorKind>,
    },
    /// The client reports that none of its operations is outstanding.
    Closed {
        /// The client.
        client: usize,
    },
    /// The client still has tasks at the time of a check.
    Runs {
        /// The client.
        client: usize,
        /// The number of tasks.
        tasks: usize,
    },
    /// A request is sent.
    Sent(Request),
    /// The server carries a request out.
    CarriedOut {
        /// The request.
        request: Request,
        /// The server's reply.
        reply: Reply,
        /// The expiry of a written key by the server's clock, in true time.
        until: Option<Instant>,
        /// The delay of the request before it arrived.
        travelled: Duration,
        /// `true` if the request was carried out before, because the network has repeated it.
        again: bool,
    },
    /// The reply arrives, in time or not.
    Received {
        /// The request.
        request: Request,
        /// The reply.
        reply: Reply,
    },
    /// A key has another expiry: the server's clock was set, or a lock is reserved for a waiter, with the token of its place.
    Moved {
        /// The server.
        server: usize,
        /// The token of the key.
        token: TokenNumber,
        /// The new expiry, in true time.
        until: Instant,
    },
    /// The server has lost a key that would not have expired.
    Lost {
        /// The server.
        server: usize,
        /// The token of the key.
        token: TokenNumber,
    },
    /// A key exists at the time of a check.
    Left {
        /// The server.
        server: usize,
        /// The token of the key.
        token: TokenNumber,
    },
    /// A fault begins.
    FaultBegins(Place, FaultKind),
    /// A fault ends.
    FaultEnds(Place, FaultKind),
    /// There are no faults from here on.
    Calm,
    /// A final client begins to request each lock.
    FinalCheck {
        /// The client.
        client: usize,
    },
}

impl Reply {
    /// Converts the result of a request. For an inspection and a watch, a grant means that the resource is free.
    pub(crate) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Ok(node::Reply::Counted(counter)) => Self::Counted(*counter),
            Ok(node::Reply::Granted | node::Reply::Deleted(true)) => Self::Granted,
            Ok(node::Reply::Superseded(counter)) => Self::Superseded(*counter),
            Ok(node::Reply::Denied(_) | node::Reply::Deleted(false)) => Self::Denied,
            Ok(node::Reply::Free { .. }) => Self::free(true),
            Ok(node::Reply::Held(_)) => Self::free(false),
            Ok(node::Reply::Watching(watch)) => Self::free(matches!(watch.availability, Availability::Free)),
            Ok(other) => panic!("the simulation has no such reply: {other:?}"),
            Err(_) => Self::Failed,
        }
    }

    fn free(is_free: bool) -> Self {
        if is_free { Self::Granted } else { Self::Denied }
    }

    /// Returns whether the reply is a grant.
    pub fn is_grant(self) -> bool {
        matches!(self, Self::Granted | Self::Counted(_))
    }
}

impl History {
    /// Returns the number of faults by kind, without kinds that did not occur.
    pub fn faults(&self) -> Vec<(&'static str, usize)> {
        let mut counts: Vec<(&'static str, usize)> = Vec::new();
        for event in &self.0 {
            let EventKind::FaultBegins(_, fault) = event.kind else { continue };
            match counts.iter_mut().find(|(name, _)| *name == fault.name()) {
                Some((_, count)) => *count += 1,
                None => counts.push((fault.name(), 1)),
            }
        }
        counts.sort_unstable();
        counts
    }

    /// Returns the number of grants for several resources at once.
    pub fn grants_of_several(&self) -> usize {
        let several =
            |kind: &EventKind| matches!(kind, EventKind::Granted { resources, .. } if resources.len() > 1);
        self.0.iter().filter(|event| several(&event.kind)).count()
    }

    /// Returns the number of grants.
    pub fn grants(&self) -> usize {
        self.0.iter().filter(|event| matches!(event.kind, EventKind::Granted { .. })).count()
    }

    /// Returns the number of grants with a fencing token.
    pub fn fenced_grants(&self) -> usize {
        self.0.iter().filter(|event| matches!(event.kind, EventKind::Granted { fence: Some(_), .. })).count()
    }

    /// Returns the number of accepted and of rejected writes with a fencing token.
    pub fn writes(&self) -> (usize, usize) {
        let count = |wanted| {
            let written =
                |kind: &EventKind| matches!(kind, EventKind::Wrote { accepted, .. } if *accepted == wanted);
            self.0.iter().filter(|event| written(&event.kind)).count()
        };
        (count(true), count(false))
    }
}

impl EventKind {
    /// Returns the token of the event, if there is one.
    pub fn token(&self) -> Option<TokenNumber> {
        match *self {
            Self::Granted { token, .. }
            | Self::Extending { token, .. }
            | Self::Extended { token, .. }
            | Self::NotExtended { token, .. }
            | Self::Reads { token, .. }
            | Self::KeepsAlive { token, .. }
            | Self::Noticed { token, .. }
            | Self::LossReported { token, .. }
            | Self::Acted { token, .. }
            | Self::Wrote { token, .. }
            | Self::Releasing { token, .. }
            | Self::Keeping { token, .. }
            | Self::Kept { token, .. }
            | Self::Released { token, .. }
            | Self::Sent(Request { token, .. })
            | Self::CarriedOut { request: Request { token, .. }, .. }
            | Self::Received { request: Request { token, .. }, .. }
            | Self::Moved { token, .. }
            | Self::Lost { token, .. }
            | Self::Left { token, .. } => Some(token),
            Self::Requested { .. }
            | Self::NotGranted { .. }
            | Self::Closed { .. }
            | Self::Runs { .. }
            | Self::FaultBegins(..)
            | Self::FaultEnds(..)
            | Self::Calm
            | Self::FinalCheck { .. } => None,
        }
    }
}
