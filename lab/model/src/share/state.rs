//! A state of the world: clients, nodes, and every message in flight between them.

use crate::decision::Vote;
use crate::lease::{Client, Phase};
use crate::pack::{Words, key};
use crate::share::scope::{CLIENTS, NODES};
use crate::share::step::{Request, RequestKind};

/// A complete state of the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) nodes: [[Link; CLIENTS]; NODES],
    /// The number of faults so far.
    pub(crate) faults: u8,
    /// True if a client has removed or changed the entry of another.
    pub(crate) trespassed: bool,
}

/// A client on a node: its entry, its requests, and the vote of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// The entry does not expire before the validity of this round has ended.
    pub(crate) entry: Option<u8>,
    /// True if this entry was the last that was added or extended on the node. Only a broken rule needs it.
    pub(crate) is_last: bool,
    /// True if the node counted for the deadline of the lease.
    pub(crate) counted: bool,
    pub(crate) vote: Vote,
    pub(crate) acquire: Flight,
    /// True if a copy of the acquire is in flight, or a refill.
    pub(crate) late_write: bool,
    pub(crate) extend: Flight,
}

/// A request, its reply, and the call that waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flight {
    /// There is no request, or it no longer matters.
    #[default]
    None,
    /// The request is in flight, and its call is open.
    Sent,
    /// A grant is in flight.
    Granted,
    /// A denial is in flight.
    Denied,
}

/// A packed state without the names of the nodes.
pub(crate) type StateKey = [u64; 1 + NODES];

impl State {
    /// Returns true if a client may rely on its lease.
    pub fn is_valid(&self, client: usize) -> bool {
        self.clients[client].is_valid()
    }

    /// Returns true if a client has a guard, valid or not.
    pub fn is_held(&self, client: usize) -> bool {
        self.clients[client].phase == Phase::Held
    }

    /// Returns true if the attempt or the lease of a client has ended.
    pub fn has_ended(&self, client: usize) -> bool {
        self.clients[client].phase == Phase::Ended
    }

    /// Returns the last round of a client.
    pub fn round(&self, client: usize) -> usize {
        self.clients[client].round.into()
    }

    /// Returns the number of rounds of a client whose validity has ended.
    pub fn lapsed(&self, client: usize) -> usize {
        self.clients[client].lapsed.into()
    }

    /// Returns true if a node has the entry of a client.
    pub fn has_entry(&self, client: usize, node: usize) -> bool {
        self.nodes[node][client].entry.is_some()
    }

    /// Returns true if a request is in flight, and its call is open.
    pub fn is_in_flight(&self, request: Request) -> bool {
        self.flight(request) == Flight::Sent
    }

    /// Returns the reply that is in flight; true for a grant.
    pub fn reply(&self, request: Request) -> Option<bool> {
        match self.flight(request) {
            Flight::None | Flight::Sent => None,
            Flight::Granted => Some(true),
            Flight::Denied => Some(false),
        }
    }

    fn flight(&self, request: Request) -> Flight {
        let link = &self.nodes[request.node][request.client];
        match request.kind {
            RequestKind::Acquire => link.acquire,
            RequestKind::Extend => link.extend,
            RequestKind::Refill => Flight::None,
        }
    }

    /// Returns the same key for states that differ only in the names of the nodes, and for no others.
    pub(crate) fn key(&self) -> StateKey {
        let mut head = Words::<1>::new().with(self.faults, 8).with(self.trespassed, 1);
        self.clients.iter().for_each(|client| head.push(client.bits(), 9));
        let nodes = self.nodes.map(|links| {
            let mut words = Words::<1>::new();
            for link in links {
                words.push(link.bits(), 16);
            }
            words.words()
        });
        key(&head.words(), &mut { nodes })
    }
}

impl Link {
    /// Packs a link into 16 bits.
    fn bits(self) -> u64 {
        let entry = self.entry.map_or(0, |round| round + 1);
        let words = Words::new().with(entry, 3).with(self.is_last, 1).with(self.counted, 1);
        let words = words.with(self.vote as u8, 3).with(self.acquire as u8, 2);
        words.with(self.late_write, 1).with(self.extend as u8, 2).word()
    }
}
