//! A state of the world: two clients, three nodes, and every message under way between them.
//!
//! Everything about a node, seen from both sides, stands in one place: the nodes are alike, so states that differ only in
//! which node is which are one state ([`State::key`]). What can have no effect any more is forgotten at once, so that
//! states that cannot be told apart are equal.

use crate::pursuit::{Trace, Undo};
use crate::scope::{ATTEMPTS, CLIENTS, EXTENSIONS, NODES};
use crate::step::{Asks, Request};

/// Everything, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) nodes: [Node; NODES],
    /// How many things have gone wrong.
    pub(crate) faults: u8,
    /// Somebody has extended, overwritten or deleted the key of another.
    pub(crate) trespassed: bool,
    /// A lease that had ended has become valid again.
    pub(crate) revived: bool,
}

/// What a client is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// How many attempts it has begun; the last one is the current one.
    pub(crate) attempts: u8,
    /// The last round of the lease: 0 acquired it, the others extended it.
    pub(crate) round: u8,
    /// The round that the deadline comes from.
    pub(crate) deadline: u8,
    /// Of how many rounds the validity has passed, by the client's clock. Of an earlier one it passes first.
    pub(crate) lapsed: u8,
    pub(crate) extension: Extension,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It waits for nothing; what is left of ended attempts goes on.
    #[default]
    Idle,
    /// An attempt is open.
    Asking,
    /// It has a guard.
    Held,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extension {
    #[default]
    None,
    /// Its round is open.
    Open,
    /// It was won; votes are outstanding.
    Won,
}

/// One node, and what is between it and each client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) key: Option<Key>,
    pub(crate) links: [Link; CLIENTS],
}

/// The key of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Whose it is.
    pub client: u8,
    /// Which attempt's token is under it, from 0.
    pub attempt: u8,
    /// It does not expire before the validity that comes from this round has passed.
    pub(crate) round: u8,
    /// The second copy of a request has written it: nobody can know, so nobody owes its release.
    pub(crate) by_copy: bool,
}

/// What is between a client and a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// The vote of the round that is open: the attempt, or an extension.
    pub(crate) vote: Standing,
    /// The node's vote counted for the deadline of the lease.
    pub(crate) counted: bool,
    pub(crate) extend: Flight,
    pub(crate) attempts: [Attempt; ATTEMPTS],
}

/// What there is of one attempt between a client and a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) acquire: Flight,
    /// By extension.
    pub(crate) refills: [Flight; EXTENSIONS],
    pub(crate) release: Flight,
    /// A second copy of the acquire is under way.
    pub(crate) copy: bool,
    pub(crate) trace: Trace,
    pub(crate) undo: Undo,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// No round is open.
    #[default]
    None,
    Pending,
    Granted,
    Refused,
    Failed,
}

/// A request, its answer, and the call that waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flight {
    /// There is none, or nothing of it matters any more.
    #[default]
    None,
    /// The call is open. The request may have been sent, or wait for it.
    Sent,
    /// The call is open; the answer is on its way.
    Granted,
    /// The same.
    Refused,
    /// The call has ended, and the request may be carried out later.
    Late(Order),
}

/// What is known of a late request's place among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing: there is no order, or its connection is gone.
    Free,
    /// It is on the connection that stands: what is sent from now on is carried out after it.
    Connection,
    /// So it is, and a release was sent behind it.
    BeforeRelease,
}

impl Client {
    /// Whether its lease may be relied on.
    pub(crate) fn is_valid(self) -> bool {
        self.phase == Phase::Held && self.deadline >= self.lapsed
    }

    /// The number of the current attempt.
    pub(crate) fn current(self) -> usize {
        usize::from(self.attempts.saturating_sub(1))
    }

    /// Whether an attempt has ended: it was lost, given up, or its lease was released.
    pub(crate) fn has_ended(self, attempt: usize) -> bool {
        let begun = usize::from(self.attempts);
        attempt < begun && (self.phase == Phase::Idle || attempt + 1 < begun)
    }
}

impl Flight {
    /// Whether the call has not ended.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Sent | Self::Granted | Self::Refused)
    }

    /// Whether the answer is on its way.
    pub fn is_answered(self) -> bool {
        matches!(self, Self::Granted | Self::Refused)
    }

    /// Whether the request may still be carried out.
    pub fn is_under_way(self) -> bool {
        matches!(self, Self::Sent | Self::Late(_))
    }

    fn bits(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Sent => 1,
            Self::Granted => 2,
            Self::Refused => 3,
            Self::Late(Order::Free) => 4,
            Self::Late(Order::Connection) => 5,
            Self::Late(Order::BeforeRelease) => 6,
        }
    }
}

impl Attempt {
    /// The requests that can create the key.
    pub(crate) fn writes(&self) -> impl Iterator<Item = Flight> {
        [self.acquire].into_iter().chain(self.refills)
    }

    pub(crate) fn writes_mut(&mut self) -> impl Iterator<Item = &mut Flight> {
        [&mut self.acquire].into_iter().chain(&mut self.refills)
    }

    /// 24 bits.
    fn bits(&self) -> u64 {
        let flights = self.writes().chain([self.release]).fold(0, |bits, flight| bits << 3 | flight.bits());
        let bits = flights << 1 | u64::from(self.copy);
        bits << 11 | self.trace.bits() << 3 | self.undo.bits()
    }
}

impl Link {
    /// 55 bits.
    fn bits(&self) -> u64 {
        let bits = u64::from(self.counted) << 3 | self.vote as u64;
        let bits = bits << 3 | self.extend.bits();
        self.attempts.iter().fold(bits, |bits, attempt| bits << 24 | attempt.bits())
    }
}

impl Node {
    fn bits(&self) -> [u64; CLIENTS] {
        let key = self.key.map_or(0, |key| {
            let bits = 1 << 1 | u64::from(key.by_copy);
            let bits = bits << 1 | u64::from(key.client);
            (bits << 1 | u64::from(key.attempt)) << 2 | u64::from(key.round)
        });
        let [a, b] = self.links.each_ref().map(Link::bits);
        [key << 55 | a, b]
    }
}

impl Client {
    /// 13 bits.
    fn bits(self) -> u64 {
        let bits = (self.phase as u64) << 2 | u64::from(self.attempts);
        let bits = bits << 2 | u64::from(self.round);
        let bits = bits << 2 | u64::from(self.deadline);
        (bits << 3 | u64::from(self.lapsed)) << 2 | self.extension as u64
    }
}

/// A state without the names of the nodes, packed: equal where no property and no future tells states apart.
pub(crate) type StateKey = [u64; 1 + NODES * CLIENTS];

impl State {
    /// The same for states that differ only in which node is which, and for no others.
    pub(crate) fn key(&self) -> StateKey {
        let mut nodes = self.nodes.each_ref().map(Node::bits);
        nodes.sort_unstable();
        let flags = u64::from(self.trespassed) << 1 | u64::from(self.revived);
        let head = self.clients.iter().fold(flags, |bits, client| bits << 13 | client.bits());
        let mut key = StateKey::default();
        key[0] = head << 8 | u64::from(self.faults);
        for (word, bits) in key[1..].iter_mut().zip(nodes.as_flattened()) {
            *word = *bits;
        }
        key
    }

    /// The key of the resource on a node.
    pub fn key_on(&self, node: usize) -> Option<Key> {
        self.nodes[node].key
    }

    /// How far a request is.
    pub fn flight(&self, request: Request) -> Flight {
        let link = &self.nodes[request.node].links[request.client];
        let attempt = &link.attempts[request.attempt];
        match request.asks {
            Asks::Acquire => attempt.acquire,
            Asks::Extend => link.extend,
            Asks::Refill(number) => attempt.refills[number],
            Asks::Release => attempt.release,
        }
    }

    /// Whether the release of an attempt that is out on a node is the second one.
    pub fn is_second_release(&self, request: Request) -> bool {
        let attempt = &self.nodes[request.node].links[request.client].attempts[request.attempt];
        attempt.undo == Undo::Second
    }

    /// Whether an attempt has ended: it was lost, given up, or its lease was released.
    pub fn has_ended(&self, client: usize, attempt: usize) -> bool {
        self.clients[client].has_ended(attempt)
    }

    /// Whether anything of an attempt may be, or come to be, on a node, as far as its client knows.
    pub fn is_owed(&self, request: Request) -> bool {
        let attempt = &self.nodes[request.node].links[request.client].attempts[request.attempt];
        attempt.undo.is_owed() && attempt.trace.owes()
    }

    /// How many rounds of a client's lease have passed by its clock.
    pub fn lapsed(&self, client: usize) -> usize {
        usize::from(self.clients[client].lapsed)
    }

    /// Whether a client has a guard.
    pub fn holds(&self, client: usize) -> bool {
        self.clients[client].phase == Phase::Held
    }

    /// Whether a client has a lease that may be relied on.
    pub fn is_valid(&self, client: usize) -> bool {
        self.clients[client].is_valid()
    }
}
