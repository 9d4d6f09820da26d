//! A state of the world: clients, nodes, and every message in flight between them.

use crate::change::scope::{CLIENTS, Lists, NODES, Program};
use crate::change::step::{Request, RequestKind};
use crate::decision::Vote;
use crate::lease::{Client, Phase};
use crate::pack::{Words, key};

/// A complete state of the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) nodes: [Node; NODES],
    /// The number of faults so far.
    pub(crate) faults: u8,
    /// The number of lost keys so far.
    pub(crate) losses: u8,
}

/// A node, its key, and the requests to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) key: Option<Key>,
    pub(crate) links: [Link; CLIENTS],
}

/// The key of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) client: usize,
    /// The key does not expire before the validity of this round has ended.
    pub(crate) round: u8,
}

/// A client on a node: its requests, and the vote of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub(crate) struct Link {
    /// True if the node counted for the deadline of the lease.
    pub(crate) counted: bool,
    pub(crate) vote: Vote,
    /// True if the acquire is in flight, and its call is open.
    pub(crate) acquire: bool,
    /// True if an acquire is in flight whose call has ended, a copy of it, or a refill.
    pub(crate) late_write: bool,
    /// True if the extension is in flight, and its call is open.
    pub(crate) extend: bool,
    /// The round of the lease whose key the node has lost, if its validity has not ended.
    pub(crate) lost: Option<u8>,
}

/// A packed state without the names of the nodes of the same lists.
pub(crate) type StateKey = [u64; 1 + NODES];

impl State {
    /// Returns true if a client may rely on its lease.
    pub fn is_valid(&self, client: usize) -> bool {
        self.clients[client].is_valid()
    }

    /// Returns true if the attempt or the lease of a client has ended.
    pub fn has_ended(&self, client: usize) -> bool {
        self.clients[client].phase == Phase::Ended
    }

    /// Returns true if a client has a guard, valid or not.
    pub fn is_held(&self, client: usize) -> bool {
        self.clients[client].phase == Phase::Held
    }

    /// Returns the number of rounds of a client whose validity has ended.
    pub fn lapsed(&self, client: usize) -> usize {
        self.clients[client].lapsed.into()
    }

    /// Returns the last round of a client.
    pub fn round(&self, client: usize) -> usize {
        self.clients[client].round.into()
    }

    /// Returns the client that has the key on a node.
    pub fn owner_on(&self, node: usize) -> Option<usize> {
        self.nodes[node].key.map(|key| key.client)
    }

    /// Returns true if a request is in flight, and its call is open.
    pub fn is_open(&self, request: Request) -> bool {
        let link = &self.nodes[request.node].links[request.client];
        match request.kind {
            RequestKind::Acquire => link.acquire,
            RequestKind::Extend => link.extend,
            RequestKind::Late => false,
        }
    }

    /// Returns true if the votes of a node count: no valid lease relies on a key that it has lost.
    pub(crate) fn is_admitted(&self, node: usize) -> bool {
        self.nodes[node].links.iter().all(|link| link.lost.is_none())
    }

    /// Returns the same key for states that differ only in the names of nodes that are in the same lists.
    pub(crate) fn key(&self, lists: Lists) -> StateKey {
        let mut head = Words::<1>::new().with(self.faults, 8).with(self.losses, 8);
        self.clients.iter().for_each(|client| head.push(client.bits(), 9));
        let mut nodes: [[u64; 1]; NODES] = std::array::from_fn(|node| {
            let is_in = [Program::Old, Program::New].map(|program| lists.has(program, node));
            [self.nodes[node].words().with(is_in[0], 1).with(is_in[1], 1).word()]
        });
        key(&head.words(), &mut nodes)
    }
}

impl Node {
    /// Packs a node.
    fn words(self) -> Words<1> {
        let owner = self.key.map_or(0, |key| key.client as u64 + 1);
        let words = Words::new().with(owner, 2).with(self.key.map_or(0, |key| key.round), 2);
        self.links.iter().fold(words, |words, link| {
            let words = words.with(link.counted, 1).with(link.vote as u8, 3).with(link.acquire, 1);
            let words = words.with(link.late_write, 1).with(link.extend, 1);
            words.with(link.lost.map_or(0, |round| round + 1), 2)
        })
    }
}
