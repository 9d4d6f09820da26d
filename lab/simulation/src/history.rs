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

named! {
    /// A fault.
    pub enum FaultKind {
        /// The server is down. Its remaining data is determined at the restart.
        Crash = "crash",
        /// The server is stopped: it receives requests, and carries them out when it resumes.
        Hang = "hang",
        /// All keys are deleted at once, including those of counters.
        Flush = "flush",
        /// All locks are deleted at once; the counters are kept.
        Eviction = "lost locks",
        /// The counters of fencing tokens are lost. The value is how long the server was down before; zero if it still
        /// runs.
        Amnesia(Duration) = "lost counters",
        /// All data was replaced by an older copy.
        Rollback = "older copy",
        /// The server rejects requests that need memory.
        OutOfMemory = "out of memory",
        /// The server rejects every write.
        ReadOnly = "read-only",
        /// The server's wall clock steps by this number of milliseconds.
        Step(i64) = "clock step",
        /// A clock runs fast (slow if negative) by these parts per million.
        ///
        /// This exceeds the drift that the holder allows for.
        Drift(i32) = "clock drift",
        /// All messages between a client and a server are lost.
        Partition = "partition",
        /// Messages are lost, repeated and held up far more often than usual.
        Storm = "storm",
        /// The program is stopped while its clock and its timers continue.
        Pause = "pause",
        /// The machine is suspended: timers stop, its clock continues.
        Suspension = "suspension",
        /// The program is killed.
        Kill = "kill",
        /// A resource's key holds a non-lock value.
        WrongType = "wrong type",
        /// One message is lost.
        Loss = "lost message",
        /// One request arrives twice.
        Duplicate = "duplicate",
        /// One message is far later than others.
        Straggler = "straggler",
        /// A connection breaks.
        Disconnect = "disconnect",
        /// A vote counts although the clock of the server has jumped before the client began to watch it.
        Unwatched = "unwatched clock",
    }
}

/// An event.
///
/// `token` is that of the lock, or of the key. Each `until` is in true time. That of a client is a deadline by its own
/// clock, and that of a server is the expiry of a key by the clock of the server. `why` is `None` if the client dropped
/// the request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields
pub enum EventKind {
    /// A client requests a lock; `once` means with a single attempt.
    Requested { client: usize, resources: Vec<usize>, ttl: Duration, once: bool, fenced: bool },
    /// The client acquires the lock.
    Granted {
        client: usize,
        resources: Vec<usize>,
        token: TokenNumber,
        until: Instant,
        fence: Option<FencingToken>,
    },
    /// The client does not acquire the lock, because of an error or because it dropped the request.
    NotGranted { client: usize, why: Option<ErrorKind> },
    /// The client starts an extension.
    Extending { client: usize, token: TokenNumber, ttl: Duration },
    /// The lock is extended.
    Extended { client: usize, token: TokenNumber, until: Instant },
    /// The lock is not extended, or the outcome is unknown.
    NotExtended { client: usize, token: TokenNumber, why: Option<ErrorKind> },
    /// The lock that was just granted is shared with other readers.
    Reads { client: usize, token: TokenNumber },
    /// The client keeps the lock alive from now on.
    KeepsAlive { client: usize, token: TokenNumber },
    /// The client notices that its deadline has moved, by keep-alive or by an extension that it dropped.
    Noticed { client: usize, token: TokenNumber, until: Instant },
    /// The holder learns that it has lost the lock, and stops.
    LossReported { client: usize, token: TokenNumber, loss: Loss },
    /// The holder acts on the resource under its lock.
    Acted { client: usize, token: TokenNumber },
    /// A message of the holder arrives at the resource, which checks its fencing token, and accepts it if it has seen
    /// no greater one. `seen` is the number of earlier writes that the holder knew when it decided about this one. It
    /// is `None` if the holder writes only its fencing token.
    Wrote {
        client: usize,
        resource: usize,
        token: TokenNumber,
        fence: FencingToken,
        seen: Option<u64>,
        accepted: bool,
    },
    /// The holder starts to release. From here on, the lease is not valid. `waits` means that it waits for the outcome,
    /// and `is_open` that nodes reserve the resource for no waiter.
    Releasing { client: usize, token: TokenNumber, waits: bool, is_open: bool },
    /// The holder starts to keep the lock for a time. From here on, the lease is not valid.
    Keeping { client: usize, token: TokenNumber },
    /// The lock is kept: no other client acquires it before the promised end.
    Kept { client: usize, token: TokenNumber, until: Instant },
    /// The release completes.
    Released { client: usize, token: TokenNumber, outcome: Result<ReleaseOutcome, ErrorKind> },
    /// The client reports that none of its operations is outstanding.
    Closed { client: usize },
    /// The client still has tasks at the time of a check.
    Runs { client: usize, tasks: usize },
    /// A request is sent.
    Sent(Request),
    /// The server carries a request out. `travelled` is the delay of the request before it arrived. `again` means that
    /// it was carried out before, because the network has repeated it.
    CarriedOut { request: Request, reply: Reply, until: Option<Instant>, travelled: Duration, again: bool },
    /// The reply arrives, in time or not.
    Received { request: Request, reply: Reply },
    /// A key has another expiry: the server's clock was set, or a lock is reserved for a waiter, with the token of its place.
    Moved { server: usize, token: TokenNumber, until: Instant },
    /// The server has lost a key that would not have expired.
    Lost { server: usize, token: TokenNumber },
    /// A key exists at the time of a check.
    Left { server: usize, token: TokenNumber },
    /// A fault begins.
    FaultBegins(Place, FaultKind),
    /// A fault ends.
    FaultEnds(Place, FaultKind),
    /// There are no faults from here on.
    Calm,
    /// A final client begins to request each lock.
    FinalCheck { client: usize },
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
