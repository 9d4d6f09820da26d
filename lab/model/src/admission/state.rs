//! A state of the world under the admission rule: nodes with their data, clients, and the links between them.
//!
//! Time is counted in ticks. Durations are stored as the number of remaining or passed ticks, so equal states at different
//! times are one state.

use crate::admission::clock::{Readings, Reply};
use crate::admission::scope::CLIENTS;
use crate::admission::scope::MOST_NODES;
use crate::pack::{Words, key};

/// A complete state of the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(crate) nodes: [Node; MOST_NODES],
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) losses: u8,
    /// The steps of clocks so far, forward and back.
    pub(crate) steps: [u8; 2],
    /// The number of connections that broke so far.
    pub(crate) reconnects: u8,
    /// The number of times that an operator vouched for a node so far.
    pub(crate) vouches: u8,
    /// The number of processes that were replaced so far.
    pub(crate) replacements: u8,
}

/// A node, and its links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) data: Data,
    /// An older copy of the data: a snapshot, or a replica that is behind.
    pub(crate) copy: Option<Data>,
    pub(crate) links: [Link; CLIENTS],
    /// True if the clock may step.
    pub(crate) may_step: bool,
    /// True if the clock runs at twice its speed.
    pub(crate) is_fast: bool,
    /// The ticks during which a step of the clock matters to new clients, if no client has noticed it.
    pub(crate) unnoticed: u8,
}

/// The data that a node may lose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) key: Option<Key>,
    pub(crate) stamp: Stamp,
}

/// The key of the resource. It contains the token of the current attempt of its client. Keys of ended attempts are not part
/// of the model, since they only prevent grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) client: u8,
    /// The remaining ticks.
    pub(crate) left: u8,
}

/// The stamp of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) origin: Origin,
    /// The ticks since the wait began.
    pub(crate) age: u8,
    /// The longest TTL of the clients that have looked; zero if the bounds of all clients are equal.
    pub(crate) longest: u8,
    /// True if an operator has vouched for the data. Only scopes with clocks have this.
    pub(crate) is_vouched: bool,
}

/// The server that a stamp describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// There is no stamp.
    #[default]
    Missing,
    /// The server before a restart or a promotion.
    Earlier,
    /// The present server.
    Present,
}

/// The connection of a client to a node, and its requests there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // independent facts, one bit each in a packed state
pub(crate) struct Link {
    pub(crate) check: Check,
    pub(crate) acquire: Request,
    pub(crate) extend: Extend,
    pub(crate) vote: Vote,
    /// The remaining ticks of the wait by the clock of the client.
    pub(crate) own_wait: u8,
    /// True if the client has looked at this node before.
    pub(crate) knew: bool,
    // The following fields are used only if clients watch the clocks.
    /// The vote whose reply is in flight, if replies may be late.
    pub(crate) reply: Option<Reply>,
    /// The readings of the clock.
    pub(crate) readings: Readings,
    /// The age of the stamp: at the last look, and by the clock of the client since then.
    pub(crate) age: u8,
    /// True if the last look found the present stamp.
    pub(crate) knows_stamp: bool,
    /// True if the next look renews the present stamp, because the clock has jumped since the last one.
    pub(crate) finds_outdated: bool,
    /// True if the clock has jumped since the last look.
    pub(crate) has_noticed: bool,
    /// True if the client has last seen another server here.
    pub(crate) is_other_server: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Check {
    /// The client has not looked since the connection was made, or since a flush.
    #[default]
    Unchecked,
    /// The client has looked.
    Checked,
    /// The data was lost after the look, and the client was not notified. Only broken variants have this.
    Unaware,
}

/// The acquire of the current attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Request {
    /// There is no acquire, or it was carried out.
    #[default]
    None,
    /// The acquire may be unsent, or in flight.
    Pending,
    /// The acquire is in flight. This state is used only if nothing is written to nodes that are not admitted.
    Sent,
}

/// The extension or the refill of the current lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extend {
    #[default]
    None,
    /// The extension is in flight.
    Pending,
    /// The node did not have the key.
    Denied,
    /// The extension was won, and a refill is in flight.
    Refill,
}

/// The vote of a node in the open round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Vote {
    #[default]
    None,
    /// Granted during the wait. It counts when the wait has ended, if the link has not changed.
    Kept,
    /// It counts.
    Counted,
}

/// A client and its current attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// The number of attempts so far.
    pub(crate) attempts: u8,
    /// The number of extensions of the current lease so far.
    pub(crate) extensions: u8,
    /// The TTL of the current attempt.
    pub(crate) ttl: u8,
    /// The ticks until the validity of the open round ends.
    pub(crate) round: u8,
    /// The ticks until the lease ends.
    pub(crate) lease: u8,
    /// The longest TTL in the stamps that this client has seen; zero if all bounds are equal.
    pub(crate) seen: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is no attempt.
    #[default]
    Idle,
    /// The attempt is open.
    Acquiring,
    /// The client has a lease.
    Held,
    /// The client has a lease, and extends it.
    Extending,
}

impl Key {
    pub(crate) fn new(client: usize, left: u8) -> Self {
        Self { client: u8::try_from(client).unwrap_or(u8::MAX), left }
    }

    pub(crate) fn is_of(self, client: usize) -> bool {
        usize::from(self.client) == client
    }
}

impl Data {
    pub(crate) fn is_free(self) -> bool {
        self.key.is_none()
    }

    pub(crate) fn has_key_of(self, client: usize) -> bool {
        self.key.is_some_and(|key| key.is_of(client))
    }

    /// Packs data into 14 bits.
    fn bits(self) -> u64 {
        let (owner, left) = self.key.map_or((0, 0), |key| (key.client + 1, key.left));
        let Stamp { origin, age, longest, is_vouched } = self.stamp;
        let words = Words::new().with(owner, 2).with(left, 3).with(origin as u8, 2);
        words.with(age, 3).with(longest, 3).with(is_vouched, 1).word()
    }
}

impl Link {
    /// Returns what the client knows about the node, without its requests and votes there.
    pub(crate) fn without_requests(self) -> Self {
        let (acquire, extend, vote, reply) = (Request::None, Extend::None, Vote::None, None);
        Self { acquire, extend, vote, reply, ..self }
    }

    /// Packs a link into 47 bits.
    fn bits(self) -> u64 {
        let words = Words::new().with(self.check as u8, 2).with(self.acquire as u8, 2);
        let words = words.with(self.extend as u8, 2).with(self.vote as u8, 2);
        let words = words.with(self.own_wait, 3).with(self.knew, 1).with(self.reply.is_some(), 1);
        let words = words.with(self.reply.map_or(0, Reply::bits), 7).with(self.readings.bits(), 20);
        let words = words.with(self.age, 3).with(self.knows_stamp, 1).with(self.finds_outdated, 1);
        words.with(self.has_noticed, 1).with(self.is_other_server, 1).word()
    }
}

impl Node {
    fn bits(self) -> [u64; NODE_WORDS] {
        let copy = self.copy.map_or(0, Data::bits);
        let words = Words::new().with(self.data.bits(), 14).with(self.copy.is_some(), 1).with(copy, 14);
        let words = words.with(self.may_step, 1).with(self.is_fast, 1).with(self.unnoticed, 3);
        self.links.iter().fold(words, |words, link| words.with(link.bits(), 47)).words()
    }
}

impl Client {
    /// Packs a client into 18 bits.
    fn bits(self) -> u64 {
        let words = Words::new().with(self.phase as u8, 2).with(self.attempts, 2);
        let words = words.with(self.extensions, 2).with(self.ttl, 3).with(self.round, 3);
        words.with(self.lease, 3).with(self.seen, 3).word()
    }
}

/// The words of a packed node.
const NODE_WORDS: usize = 3;

/// A packed state without the names of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Packed {
    words: [u64; 1 + NODE_WORDS * MOST_NODES],
    count: usize,
}

impl AsRef<[u64]> for Packed {
    fn as_ref(&self) -> &[u64] {
        &self.words[..self.count]
    }
}

impl State {
    /// Packs a state of `count` nodes.
    pub(crate) fn pack(&self, count: usize) -> Packed {
        let mut head = Words::<1>::new();
        self.clients.iter().for_each(|client| head.push(client.bits(), 18));
        let counts = [self.losses, self.steps[0], self.steps[1], self.reconnects, self.vouches];
        counts.iter().chain([&self.replacements]).for_each(|count| head.push(*count, 2));
        let mut nodes = self.nodes.map(Node::bits);
        let words = key(&head.words(), &mut nodes[..count]);
        Packed { words, count: 1 + NODE_WORDS * count }
    }

    /// Returns the same state with the names of the clients exchanged.
    pub(crate) fn exchanged(&self) -> Self {
        let mut other = *self;
        other.clients.swap(0, 1);
        for node in &mut other.nodes {
            node.links.swap(0, 1);
            for data in [Some(&mut node.data), node.copy.as_mut()].into_iter().flatten() {
                if let Some(key) = &mut data.key {
                    key.client = 1 - key.client;
                }
            }
        }
        other
    }

    /// Returns true if a client may rely on its lease.
    pub fn is_valid(&self, client: usize) -> bool {
        self.clients[client].lease > 0
    }
}
