//! The world: two clients with their rounds, three nodes, and every request in flight between them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::decide::fencing::Bound;
use crate::decide::quorums::Quorums;
use crate::decide::validity::DriftFactor;
use crate::lease::mode::Mode;
use crate::lease::record::Record;
use crate::node::{ConnectionId, Request};
use crate::round::acquire::{self, Acquire};
use crate::round::exploration::broken::{Broken, Variant};
use crate::round::exploration::node::{Node, creates};
use crate::round::exploration::scope::{CLIENTS, NODES, Scope};
use crate::round::extend::{self, Extend};
use crate::round::release::Release;
use crate::round::{Cleanup, Rules};
use crate::types::claim::Claim;
use crate::types::instant::Instant;
use crate::types::report::{Outcome, ReleaseOutcome};
use crate::types::resource::{Resource, Resources};
use crate::types::token::Token;
use crate::types::ttl::Ttl;

/// The maximum number of attempts of a client.
const ATTEMPTS: usize = 4;

/// A TTL so long that only a step ends a validity.
const TTL: Duration = Duration::from_secs(10_000);

/// The retention time of counters.
const RETENTION: Duration = Duration::from_secs(1);

pub(super) const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// The time of all first releases. Cleanup compares its times only with each other.
pub(super) const RELEASED: Instant = Instant::ORIGIN;

/// A complete state.
pub(super) struct World {
    pub(super) scope: Scope,
    pub(super) variant: Variant,
    pub(super) clients: [Client; CLIENTS],
    pub(super) nodes: [Node; NODES],
    /// The number of faults so far.
    pub(super) faults: u8,
    /// The tokens of the leases that clients have received, in this order.
    pub(super) tokens: Vec<u64>,
    pub(super) seen: Seen,
}

/// Violations that are visible in a step, not in a state.
#[derive(Clone, Copy, Debug, Default, Hash)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub(super) struct Seen {
    /// A lease was granted or extended without a quorum of grants that count.
    pub(super) no_quorum: bool,
    /// An ended lease became valid again.
    pub(super) revived: bool,
    /// All calls of a round have ended, and it has no result.
    pub(super) no_result: bool,
    /// A release reported something else than what has happened.
    pub(super) wrong_release: bool,
    /// A lease was reported as revoked, although a quorum did not deny.
    pub(super) wrong_loss: bool,
    /// Two leases have one token.
    pub(super) same_token: bool,
    /// A token is not greater than that of a lease that was received before its attempt began.
    pub(super) decreasing: bool,
    /// An extension succeeded that began after a newer token was received.
    pub(super) late_extension: bool,
    /// An attempt has removed the key of another attempt.
    pub(super) trespassed: bool,
    /// A node was refilled before a quorum had extended the lease.
    pub(super) early_refill: bool,
}

/// A client, whose clock only [a lapse](super::step::Step::Lapse) and new rounds move.
#[derive(Default)]
pub(super) struct Client {
    pub(super) attempts: Vec<Attempt>,
    /// The number of rounds of the last attempt whose validity has ended, in the order of the rounds.
    pub(super) lapsed: u8,
    /// The number of the present connection to each node.
    pub(super) connections: [u64; NODES],
}

/// An attempt, and the lease that results from it.
pub(super) struct Attempt {
    pub(super) record: Arc<Record>,
    pub(super) phase: Phase,
    /// The number of extensions that have begun.
    pub(super) extensions: u8,
    /// The nodes that counted for the deadline of the lease, as bits.
    pub(super) counted: u8,
    /// The round that set the deadline.
    pub(super) deadline: u8,
    /// The votes in the acquisition, or in the release.
    pub(super) replies: Replies,
    /// The state of the lease when its release began.
    pub(super) at_release: Option<ReleaseOutcome>,
    /// The last token that a client had received when the attempt began.
    pub(super) floor: u64,
    pub(super) acquire: Option<Run<Acquire>>,
    /// The extensions in progress, in the order of their starts. Where keys vanish, one whose reply is lost stays among them.
    pub(super) extending: Vec<Extending>,
    pub(super) release: Option<Run<Release>>,
}

/// An extension of a lease.
#[derive(Clone)]
pub(super) struct Extending {
    /// Counts from 1.
    pub(super) number: u8,
    pub(super) run: Run<Extend>,
    pub(super) replies: Replies,
    /// The last token that a client had received when the extension began.
    pub(super) floor: u64,
}

/// What nodes replied in a round, as bits. It is independent of what the round makes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Replies {
    pub(super) granted: u8,
    pub(super) denied: u8,
    pub(super) failed: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Acquiring,
    /// The client has a guard.
    Held,
    /// The attempt has failed or was dropped, or its lease was released.
    Ended,
}

/// What the engine knows about a round.
#[derive(Clone)]
pub(super) struct Run<R> {
    pub(super) round: Broken<R>,
    /// True if there is no result yet, and the round is asked for one.
    pub(super) is_open: bool,
    /// True if a caller waits for the result.
    pub(super) is_awaited: bool,
}

/// A request between a client and a node.
pub(super) struct Message {
    pub(super) client: u8,
    pub(super) attempt: u8,
    pub(super) call: Call,
    pub(super) request: Request,
    pub(super) flight: Flight,
    pub(super) connection: Option<ConnectionId>,
    pub(super) sent: Instant,
    /// True for the second copy of a request.
    pub(super) is_copy: bool,
    /// For a release: the time at which a node has replied to the first release of this claim.
    pub(super) first_reply: Option<Instant>,
    /// The entry of the queue of cleanup that this release belongs to.
    pub(super) cleanup: Option<Cleanup>,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Call {
    Acquire(acquire::Lane),
    /// A request of the extension of this number, from 1.
    Extend(u8, extend::Lane),
    Release,
    Cleanup,
}

#[derive(Clone, Debug)]
pub(super) enum Flight {
    /// The call is open. The request may be in flight or unsent.
    Sent,
    /// The call is open, and its reply is in flight.
    Replied(Outcome),
    /// The call has ended, and the request may still be carried out.
    Late {
        /// True if a release was sent over the same connection afterwards.
        is_before_release: bool,
    },
}

impl World {
    pub(super) fn new(scope: Scope, variant: Variant) -> Self {
        Self {
            scope,
            variant,
            clients: Default::default(),
            nodes: scope.counters.map(Node::new),
            faults: 0,
            tokens: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Returns a copy that shares nothing.
    pub(super) fn fork(&self) -> Self {
        Self {
            clients: self.clients.each_ref().map(Client::fork),
            nodes: self.nodes.each_ref().map(Node::fork),
            tokens: self.tokens.clone(),
            ..*self
        }
    }

    pub(super) fn rules(&self) -> Rules {
        let hurry = self.variant == Variant::SecondReleaseAtOnce;
        Rules {
            quorums: Quorums::of(NODES),
            node_timeout: if hurry { Duration::ZERO } else { NODE_TIMEOUT },
            drift: DriftFactor::new(0.0).expect("zero is a factor"),
            bound: Bound::of(if self.variant == Variant::AnyReplyCounts { Duration::MAX } else { RETENTION }),
        }
    }

    pub(super) fn mode(&self, client: u8) -> Mode {
        match self.scope.readers[usize::from(client)] {
            true => Mode::Shared { gate: Resource::new("gate").expect("a short name") },
            false if self.scope.fenced => Mode::Fenced,
            false => Mode::Exclusive,
        }
    }

    pub(super) fn attempt(&mut self, client: u8, attempt: u8) -> &mut Attempt {
        &mut self.clients[usize::from(client)].attempts[usize::from(attempt)]
    }
}

impl Client {
    fn fork(&self) -> Self {
        Self { attempts: self.attempts.iter().map(Attempt::fork).collect(), ..*self }
    }

    /// Returns the present time: at least the start of the last round, and the end of the last validity that has ended.
    pub(super) fn now(&self) -> Instant {
        let Some(last) = self.attempts.last() else { return Instant::ORIGIN };
        let number = self.attempts.len() - 1;
        let start = start_of(number, last.extensions);
        match self.lapsed.checked_sub(1) {
            Some(round) => start.max(end_of(number, round)),
            None => start,
        }
    }

    /// Returns the number of the last attempt.
    pub(super) fn last(&self) -> u8 {
        u8::try_from(self.attempts.len() - 1).expect("there are few attempts")
    }
}

impl Attempt {
    pub(super) fn new(world: &World, client: u8, number: usize, floor: u64) -> Self {
        let start = start_of(number, 0);
        let shared = world.variant == Variant::OneTokenForAllAttempts;
        let claim = claim(client, if shared { 0 } else { number });
        let from = if world.variant == Variant::ValidityFromTheReply { start + TTL } else { start };
        let round = Acquire::new(world.rules(), claim, world.mode(client), ttl(), from);
        let record = Arc::clone(&round.record);
        let run = Run { round: Broken::new(round, world.variant), is_open: true, is_awaited: true };
        Self {
            record,
            phase: Phase::Acquiring,
            extensions: 0,
            counted: 0,
            deadline: 0,
            replies: Replies::default(),
            at_release: None,
            floor,
            acquire: Some(run),
            extending: Vec::new(),
            release: None,
        }
    }

    fn fork(&self) -> Self {
        let record = &self.record;
        let copy = Arc::new(Record::new(record.claim.clone(), record.mode.clone(), record.since, NODES));
        let state = record.with(|state| state.clone());
        copy.with(|new| *new = state);
        let (mut acquire, mut extending, mut release) =
            (self.acquire.clone(), self.extending.clone(), self.release.clone());
        if let Some(run) = &mut acquire {
            run.round.inner.record = Arc::clone(&copy);
        }
        for Extending { run, .. } in &mut extending {
            run.round.inner.record = Arc::clone(&copy);
        }
        if let Some(run) = &mut release {
            run.round.inner.record = Arc::clone(&copy);
        }
        Self { record: copy, acquire, extending, release, ..*self }
    }
}

impl Node {
    fn fork(&self) -> Self {
        let messages = self.messages.iter().map(Message::fork).collect();
        Self { keys: self.keys.clone(), messages, ..*self }
    }
}

impl Message {
    pub(super) fn fork(&self) -> Self {
        let cleanup = self.cleanup.as_ref().map(|Cleanup { node, due, claim, release }| Cleanup {
            node: *node,
            due: *due,
            claim: claim.clone(),
            release: *release,
        });
        Self { request: self.request.clone(), flight: self.flight.clone(), cleanup, ..*self }
    }

    /// Returns true if it belongs to this attempt.
    pub(super) fn is_of(&self, client: u8, attempt: u8) -> bool {
        (self.client, self.attempt) == (client, attempt)
    }

    /// Returns true if the call has not ended.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.flight, Flight::Late { .. })
    }

    /// Returns true if the request may still be carried out.
    pub(super) fn is_to_come(&self) -> bool {
        !matches!(self.flight, Flight::Replied(_))
    }

    pub(super) fn is_release(&self) -> bool {
        matches!(self.request, Request::Release(_))
    }

    /// Returns true if it can create the key.
    pub(super) fn is_write(&self) -> bool {
        creates(&self.request)
    }
}

pub(super) fn ttl() -> Ttl {
    Ttl::new(TTL).expect("the TTL is within its bounds")
}

/// Returns the start of a round. It is the same on every path, so that equal states have equal times.
pub(super) fn start_of(attempt: usize, round: u8) -> Instant {
    let attempts = u32::try_from(attempt + 1).expect("there are few attempts");
    Instant::ORIGIN + TTL * 3 * attempts + NODE_TIMEOUT * 10 * u32::from(round)
}

/// Returns the end of the validity of a round.
pub(super) fn end_of(attempt: usize, round: u8) -> Instant {
    DriftFactor::new(0.0).expect("zero is a factor").deadline(start_of(attempt, round), ttl())
}

pub(super) fn claim(client: u8, attempt: usize) -> Claim {
    static CLAIMS: LazyLock<Vec<Claim>> = LazyLock::new(|| {
        let resources = Resources::new([Resource::new("a").expect("a short name")]).expect("one name");
        let claim = |number: usize| {
            let token = Token::from_bytes(format!("{}{}", ['A', 'B'][number / ATTEMPTS], number % ATTEMPTS));
            Claim::new(resources.clone(), token)
        };
        (0..CLIENTS * ATTEMPTS).map(claim).collect()
    });
    CLAIMS[usize::from(client) * ATTEMPTS + attempt].clone()
}
