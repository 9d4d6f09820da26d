//! A state of the world: the client that keeps its lock, another client, the nodes, and every message in flight.

use crate::decision::Vote;
use crate::keep::scope::{EXTENSIONS, NODES};
use crate::keep::step::{Request, RequestKind};
use crate::pack::{Words, key};

/// A complete state of the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(crate) keeper: Keeper,
    pub(crate) other: Other,
    pub(crate) nodes: [Node; NODES],
    /// The number of faults so far.
    pub(crate) faults: u8,
    /// True if the keeper has changed the key of the other client.
    pub(crate) trespassed: bool,
}

/// The client that acquires, extends and then keeps its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keeper {
    pub(crate) phase: Phase,
    /// The last round of the lease. Round 0 acquired it, the others extended it.
    pub(crate) round: u8,
    /// The round that set the deadline.
    pub(crate) deadline: u8,
    /// The number of rounds whose validity has ended, in the order of the rounds.
    pub(crate) lapsed: u8,
    /// True while votes of an extension are outstanding.
    pub(crate) extending: bool,
    /// True if a quorum has granted this extension.
    pub(crate) extended: bool,
    /// True if the promised time of the keys has passed, and the client still relies on it. Only a broken rule does.
    pub(crate) elapsed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Idle,
    /// The attempt is in progress.
    Acquiring,
    /// The client has a guard.
    Held,
    /// The renewals have ended, and writes are awaited.
    Waiting,
    /// The life of the keys is being set.
    Keeping,
    /// A quorum has set the life of the keys.
    Kept,
    /// The attempt or the operation has failed or was dropped, or its time has ended.
    Ended,
}

/// The other client that requests the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Other {
    #[default]
    Idle,
    Acquiring,
    Held,
    /// The attempt was dropped, or its validity has ended.
    Ended,
}

/// A node, its key, and the requests to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) key: Option<Key>,
    /// The acquire, and the refills by extension.
    pub(crate) writes: [Flight; 1 + EXTENSIONS],
    pub(crate) extends: [Flight; EXTENSIONS],
    pub(crate) keep: Flight,
    /// The vote in the open round of the keeper.
    pub(crate) vote: Vote,
    /// True if the node counted for the success of the keep.
    pub(crate) counted: bool,
    /// True if the keep was carried out, and no request without an order after it.
    pub(crate) settled: bool,
    /// True if an acquire of the other client is in flight.
    pub(crate) wanted: bool,
}

/// The key of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The key of the keeper.
    Own(Life),
    /// The key of the other client.
    Other,
}

/// A key does not expire before the periods that are recorded here have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// The promised time, if the keep has set it.
    pub(crate) kept: bool,
    /// The validity of this round.
    pub(crate) round: Option<u8>,
}

/// A request, and the call that waits for its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flight {
    /// There is no request, or it was carried out.
    #[default]
    None,
    /// The call is open. The request may be in flight or unsent.
    Sent,
    /// The call has ended. If the request was sent, later requests are carried out after it.
    Ordered,
    /// The call has ended, and the connection of the request is lost.
    Free,
}

/// A packed state without the names of the nodes.
pub(crate) type StateKey = [u64; 1 + NODES];

impl State {
    /// Returns true if the keeper may rely on its lease, or on the promise that the lock is kept.
    pub(crate) fn is_protected(&self) -> bool {
        match self.keeper.phase {
            Phase::Held => self.keeper.is_valid(),
            phase => phase == Phase::Kept,
        }
    }

    /// Returns true if the keeper has a guard that is valid.
    pub fn is_valid(&self) -> bool {
        self.keeper.is_valid()
    }

    /// Returns true if a quorum has set the life of the keys, and the promised time has not ended.
    pub fn is_kept(&self) -> bool {
        self.keeper.phase == Phase::Kept
    }

    /// Returns true if the keeper relies on nothing any more.
    pub fn has_ended(&self) -> bool {
        self.keeper.phase == Phase::Ended
    }

    /// Returns the number of rounds of the keeper whose validity has ended.
    pub fn lapsed(&self) -> usize {
        self.keeper.lapsed.into()
    }

    /// Returns true if the other client holds the lock.
    pub fn other_holds(&self) -> bool {
        self.other == Other::Held
    }

    /// Returns true if the keeper waits for the reply to a request.
    pub fn is_open(&self, request: Request) -> bool {
        let mut node = self.nodes[request.node];
        *node.flight(request.kind) == Flight::Sent
    }

    /// Returns the owner of the key on a node; true for the keeper.
    pub fn owner_on(&self, node: usize) -> Option<bool> {
        self.nodes[node].key.map(|key| key != Key::Other)
    }

    /// Returns the periods before whose ends the key of the keeper does not expire: the promised time, and the validity of
    /// a round.
    pub fn life_on(&self, node: usize) -> (bool, Option<usize>) {
        match self.nodes[node].key {
            Some(Key::Own(life)) => (life.kept, life.round.map(usize::from)),
            None | Some(Key::Other) => (false, None),
        }
    }

    /// Returns the same key for states that differ only in the names of the nodes, and for no others.
    pub(crate) fn key(&self) -> StateKey {
        let head = Words::<1>::new().with(self.faults, 8).with(self.trespassed, 1).with(self.other as u8, 2);
        key(&head.with(self.keeper.bits(), 12).words(), &mut self.nodes.map(|node| [node.bits()]))
    }
}

impl Keeper {
    pub(crate) fn is_valid(self) -> bool {
        self.phase == Phase::Held && self.deadline >= self.lapsed
    }

    /// Packs the client into 12 bits.
    fn bits(self) -> u64 {
        let words = Words::new().with(self.phase as u8, 3).with(self.round, 2).with(self.deadline, 2);
        let words = words.with(self.lapsed, 2).with(self.extending, 1);
        words.with(self.extended, 1).with(self.elapsed, 1).word()
    }
}

impl Flight {
    /// Ends the call without its reply.
    pub(crate) fn abandon(&mut self) {
        if *self == Self::Sent {
            *self = Self::Ordered;
        }
    }
}

impl Node {
    /// Returns the progress of a request.
    pub(crate) fn flight(&mut self, kind: RequestKind) -> &mut Flight {
        match kind {
            RequestKind::Write(round) => &mut self.writes[round],
            RequestKind::Extend(round) => &mut self.extends[round - 1],
            RequestKind::Keep => &mut self.keep,
        }
    }

    /// Returns the progress of all requests.
    pub(crate) fn flights_mut(&mut self) -> impl Iterator<Item = &mut Flight> {
        self.writes.iter_mut().chain(&mut self.extends).chain([&mut self.keep])
    }

    /// Packs a node.
    fn bits(mut self) -> u64 {
        let (owner, life) = match self.key {
            None => (0_u8, Life::default()),
            Some(Key::Other) => (1, Life::default()),
            Some(Key::Own(life)) => (2, life),
        };
        let round = life.round.map_or(0, |round| round + 1);
        let mut words = Words::new().with(owner, 2).with(life.kept, 1).with(round, 2);
        self.flights_mut().for_each(|flight| words.push(*flight as u8, 2));
        let words = words.with(self.vote as u8, 3).with(self.counted, 1);
        words.with(self.settled, 1).with(self.wanted, 1).word()
    }
}
