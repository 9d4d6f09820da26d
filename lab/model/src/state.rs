//! A state of the world: two clients, three nodes, and every message in flight between them.
//!
//! All data of a node, from both sides, is in one place. Nodes are interchangeable, so states that differ only in their
//! names are one state ([`State::key`]). Data without any further effect is dropped at once, so equivalent states are
//! equal.

use crate::cleanup::{Cleanup, WriteState};
use crate::pack::{Words, key};
use crate::scope::{ATTEMPTS, CLIENTS, EXTENSIONS, NODES};
use crate::step::{Request, RequestKind};

/// A complete state of the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) nodes: [Node; NODES],
    /// The number of faults so far.
    pub(crate) faults: u8,
    /// True if a client has extended, overwritten or deleted the key of another.
    pub(crate) trespassed: bool,
    /// True if an ended lease has become valid again.
    pub(crate) revived: bool,
}

/// The activity of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// The number of started attempts. The last one is the current one.
    pub(crate) attempts: u8,
    /// The last round of the lease. Round 0 acquired it, the others extended it.
    pub(crate) round: u8,
    /// The round that set the deadline.
    pub(crate) deadline: u8,
    /// The number of rounds whose validity has ended by the clock of the client, in the order of the rounds.
    pub(crate) lapsed: u8,
    pub(crate) extension: Extension,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The client waits for nothing. Cleanup of ended attempts may continue.
    #[default]
    Idle,
    /// An attempt is in progress.
    Acquiring,
    /// The client has a guard.
    Held,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extension {
    #[default]
    None,
    /// The round is open.
    Open,
    /// The round was won, and replies are outstanding.
    Won,
}

/// A node, and its communication with each client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) key: Option<Key>,
    pub(crate) links: [Link; CLIENTS],
}

/// The key of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The client that owns the key.
    pub client: u8,
    /// The attempt whose token the key contains, from 0.
    pub attempt: u8,
    /// The key does not expire before the validity of this round has ended.
    pub(crate) round: u8,
    /// True if the second copy of a request wrote the key. No client can know of it, so no cleanup is pending for it.
    pub(crate) by_copy: bool,
}

/// The communication between a client and a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// The vote in the open round, which is the attempt or an extension.
    pub(crate) vote: VoteState,
    /// True if the node counted for the deadline of the lease.
    pub(crate) counted: bool,
    pub(crate) extend: Flight,
    pub(crate) attempts: [Attempt; ATTEMPTS],
}

/// The requests and writes of an attempt between a client and a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) acquire: Flight,
    /// The refills, indexed by extension.
    pub(crate) refills: [Flight; EXTENSIONS],
    pub(crate) release: Flight,
    /// True if a second copy of the acquire is in flight.
    pub(crate) copy: bool,
    pub(crate) write_state: WriteState,
    pub(crate) cleanup: Cleanup,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum VoteState {
    /// No round is open.
    #[default]
    None,
    Pending,
    Granted,
    Denied,
    /// The node did not have the key, and does not count.
    DeniedInQuarantine,
    /// There is no reply, or a grant that does not count.
    Failed,
}

impl VoteState {
    /// Returns the vote in a reply.
    pub(crate) fn of_reply(granted: bool, counts: bool) -> Self {
        match (granted, counts) {
            (true, true) => Self::Granted,
            (false, true) => Self::Denied,
            (true, false) => Self::Failed,
            (false, false) => Self::DeniedInQuarantine,
        }
    }
}

/// A request, its reply, and the call that waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flight {
    /// There is no request, or it no longer matters.
    #[default]
    None,
    /// The call is open. The request may be in flight or unsent.
    Sent,
    /// The call is open, and a grant is in flight.
    Granted,
    /// The call is open, and a denial is in flight.
    Denied,
    /// The call has ended, and the request may be carried out later.
    Late(Order),
}

/// The known position of a late request among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The position is unknown, because there is no order, or the connection is lost.
    Free,
    /// The request is on the existing connection. Later requests are carried out after it.
    Connection,
    /// The same as `Connection`, and a release was sent after the request.
    BeforeRelease,
}

impl Client {
    /// Returns true if the client may rely on its lease.
    pub(crate) fn is_valid(self) -> bool {
        self.phase == Phase::Held && self.deadline >= self.lapsed
    }

    /// Returns the number of the current attempt.
    pub(crate) fn current(self) -> usize {
        usize::from(self.attempts.saturating_sub(1))
    }

    /// Returns true if an attempt has failed, was dropped, or its lease was released.
    pub(crate) fn has_ended(self, attempt: usize) -> bool {
        let begun = usize::from(self.attempts);
        attempt < begun && (self.phase == Phase::Idle || attempt + 1 < begun)
    }
}

impl Flight {
    /// Returns true if the call has not ended.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Sent | Self::Granted | Self::Denied)
    }

    /// Returns true if the reply is in flight.
    pub fn has_reply(self) -> bool {
        matches!(self, Self::Granted | Self::Denied)
    }

    /// Returns true if the request may still be carried out.
    pub fn is_in_flight(self) -> bool {
        matches!(self, Self::Sent | Self::Late(_))
    }

    fn bits(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Sent => 1,
            Self::Granted => 2,
            Self::Denied => 3,
            Self::Late(Order::Free) => 4,
            Self::Late(Order::Connection) => 5,
            Self::Late(Order::BeforeRelease) => 6,
        }
    }
}

impl Attempt {
    /// Returns the requests that can create the key.
    pub(crate) fn writes(&self) -> impl Iterator<Item = Flight> {
        [self.acquire].into_iter().chain(self.refills)
    }

    pub(crate) fn writes_mut(&mut self) -> impl Iterator<Item = &mut Flight> {
        [&mut self.acquire].into_iter().chain(&mut self.refills)
    }

    /// Packs an attempt into 24 bits.
    fn bits(&self) -> u64 {
        let mut words = Words::new();
        self.writes().chain([self.release]).for_each(|flight| words.push(flight.bits(), 3));
        let words = words.with(self.copy, 1).with(self.write_state.bits(), 8);
        words.with(self.cleanup.bits(), 3).word()
    }
}

impl Link {
    /// Packs a link into 55 bits.
    fn bits(&self) -> u64 {
        let words = Words::new().with(self.counted, 1).with(self.vote as u8, 3);
        let mut words = words.with(self.extend.bits(), 3);
        self.attempts.iter().for_each(|attempt| words.push(attempt.bits(), 24));
        words.word()
    }
}

impl Node {
    fn bits(&self) -> [u64; CLIENTS] {
        let key = self.key.map_or(0, |key| {
            let words = Words::new().with(true, 1).with(key.by_copy, 1).with(key.client, 1);
            words.with(key.attempt, 1).with(key.round, 2).word()
        });
        let [a, b] = self.links.each_ref().map(Link::bits);
        Words::new().with(key, 6).with(a, 55).with(b, 55).words()
    }
}

impl Client {
    /// Packs a client into 13 bits.
    fn bits(self) -> u64 {
        let words = Words::new().with(self.phase as u8, 2).with(self.attempts, 2).with(self.round, 2);
        words.with(self.deadline, 2).with(self.lapsed, 3).with(self.extension as u8, 2).word()
    }
}

/// A packed state without the names of the nodes, equal for states that no property and no future distinguishes.
pub(crate) type StateKey = [u64; 1 + NODES * CLIENTS];

impl State {
    /// Returns the same key for states that differ only in the names of the nodes, and for no others.
    pub(crate) fn key(&self) -> StateKey {
        let mut head = Words::<1>::new().with(self.trespassed, 1).with(self.revived, 1).with(self.faults, 8);
        self.clients.iter().for_each(|client| head.push(client.bits(), 13));
        key(&head.words(), &mut self.nodes.each_ref().map(Node::bits))
    }

    /// Returns the key of the resource on a node.
    pub fn key_on(&self, node: usize) -> Option<Key> {
        self.nodes[node].key
    }

    /// Returns the progress of a request.
    pub fn flight(&self, request: Request) -> Flight {
        let link = &self.nodes[request.node].links[request.client];
        let attempt = &link.attempts[request.attempt];
        match request.kind {
            RequestKind::Acquire => attempt.acquire,
            RequestKind::Extend => link.extend,
            RequestKind::Refill(number) => attempt.refills[number],
            RequestKind::Release => attempt.release,
        }
    }

    /// Returns true if the release of an attempt in flight to a node is the second one.
    pub fn is_second_release(&self, request: Request) -> bool {
        let attempt = &self.nodes[request.node].links[request.client].attempts[request.attempt];
        attempt.cleanup == Cleanup::Second
    }

    /// Returns true if an attempt has failed, was dropped, or its lease was released.
    pub fn has_ended(&self, client: usize, attempt: usize) -> bool {
        self.clients[client].has_ended(attempt)
    }

    /// Returns true if a write of an attempt may exist on a node, or arrive there, as far as its client knows.
    pub fn needs_cleanup(&self, request: Request) -> bool {
        let attempt = &self.nodes[request.node].links[request.client].attempts[request.attempt];
        attempt.cleanup.is_pending() && attempt.write_state.needs_release()
    }

    /// Returns the number of rounds of a client whose validity has ended by its clock.
    pub fn lapsed(&self, client: usize) -> usize {
        usize::from(self.clients[client].lapsed)
    }

    /// Returns true if a client has a guard.
    pub fn holds(&self, client: usize) -> bool {
        self.clients[client].phase == Phase::Held
    }

    /// Returns true if a client may rely on its lease.
    pub fn is_valid(&self, client: usize) -> bool {
        self.clients[client].is_valid()
    }
}
