//! A state of the world: the client that keeps its lock, another client, the nodes, and every message in flight.

use crate::keep::scope::{EXTENSIONS, NODES};
use crate::keep::step::{Request, RequestKind};

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

/// The vote in the open round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Vote {
    #[default]
    None,
    Pending,
    Granted,
    Denied,
    Failed,
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
        let mut nodes = self.nodes.map(Node::bits);
        nodes.sort_unstable();
        let flags = u64::from(self.faults) << 1 | u64::from(self.trespassed);
        let mut key = [0; 1 + NODES];
        key[0] = (flags << 2 | self.other as u64) << 12 | self.keeper.bits();
        key[1..].copy_from_slice(&nodes);
        key
    }
}

impl Keeper {
    pub(crate) fn is_valid(self) -> bool {
        self.phase == Phase::Held && self.deadline >= self.lapsed
    }

    /// Packs the client into 12 bits.
    fn bits(self) -> u64 {
        let bits = (self.phase as u64) << 2 | u64::from(self.round);
        let bits = (bits << 2 | u64::from(self.deadline)) << 2 | u64::from(self.lapsed);
        let flags = [self.extending, self.extended, self.elapsed];
        flags.into_iter().fold(bits, |bits, flag| bits << 1 | u64::from(flag))
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

    /// Packs a node into 22 bits.
    fn bits(mut self) -> u64 {
        let key = match self.key {
            None => 0,
            Some(Key::Other) => 1,
            Some(Key::Own(life)) => {
                let round = life.round.map_or(0, |round| u64::from(round) + 1);
                2 | u64::from(life.kept) << 2 | round << 3
            }
        };
        let bits = self.flights_mut().fold(key, |bits, flight| bits << 2 | *flight as u64);
        let bits = bits << 3 | self.vote as u64;
        [self.counted, self.settled, self.wanted]
            .into_iter()
            .fold(bits, |bits, flag| bits << 1 | u64::from(flag))
    }
}
