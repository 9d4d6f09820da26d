//! A state of the world: the clients, the nodes, and every message in flight.

use crate::order::scope::{CLIENTS, NODES, QUORUM, REQUESTS};
use crate::pack::{Words, key};

/// The number of requests that may be in flight from a client to a node, in their order.
pub(crate) const QUEUE: usize = 5;

/// A complete state of the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) nodes: [Node; NODES],
    /// The time at which the last request began. Requests that begin in one epoch have no common order on all nodes.
    pub(crate) epoch: u8,
    /// The number of faults so far.
    pub(crate) faults: u8,
    /// The number of open turns so far.
    pub(crate) open_turns: u8,
    /// True if a key became absent that was not handed over: an open turn, an expiry, a foreign release.
    pub(crate) opened: bool,
    /// True if a plain attempt overtook a waiter before any key became absent.
    pub(crate) barged: bool,
}

/// A client and its last request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// The number of requests so far, up to the current one.
    pub(crate) requests: u8,
    /// The epochs in which the requests began.
    pub(crate) begins: [u8; REQUESTS],
    /// The number of attempts so far, which is the number of the last token.
    pub(crate) attempt: u8,
    /// The number of attempts of the current request.
    pub(crate) tries: u8,
    /// True if the request has no place, so its attempts carry none.
    pub(crate) plain: bool,
    /// The penalty of the current request.
    pub(crate) penalty: u8,
    /// True if the place is, or was, entered on all nodes, and neither a fault nor the end of its reservation has occurred
    /// since.
    pub(crate) entered: bool,
    /// The number of turns of requests that began later, since the place was entered on all nodes.
    pub(crate) overtaken: u8,
}

impl Client {
    /// Notes that the place may be missing on a node.
    pub(crate) fn forget_turns(&mut self) {
        (self.entered, self.overtaken) = (false, 0);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Idle,
    /// An attempt is in progress.
    Trying,
    /// The attempt has failed, and its releases are not yet sent.
    Failed,
    /// The request waits for its next attempt.
    Waiting,
    /// The request has a quorum.
    Held,
    /// The client has ended.
    Dead,
}

/// The place of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The client.
    pub client: usize,
    /// The number of the request, from 0.
    pub request: u8,
}

/// A request to a node, as the node distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The acquire of an attempt, which has this number.
    Acquire(u8),
    /// The release of an attempt, with or without a place.
    Release(u8),
    /// The end of the place of a request, which has this number.
    Leave(u8),
}

/// A node: the key, the waiters, and what is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) key: Key,
    /// The score of each place, plus one. Zero is no entry.
    pub(crate) waiters: [[u8; REQUESTS]; CLIENTS],
    pub(crate) links: [Link; CLIENTS],
    /// The clients whose attempts began before a loss of data and have not ended: until then, the node has no vote.
    pub(crate) lost_by: u8,
}

/// The key on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields
pub enum Key {
    /// There is none.
    #[default]
    Absent,
    /// The lock of an attempt.
    Token { client: usize, attempt: u8 },
    /// The next turn of a place.
    Reserved(Place),
}

/// The requests of a client to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// The requests in flight, in the order in which they are carried out.
    pub(crate) queue: [Option<Message>; QUEUE],
    /// A request in flight without an order: its connection broke, or it is a copy.
    pub(crate) stray: Option<Message>,
    pub(crate) vote: Vote,
    /// The key that denied the last attempt, if it had a place.
    pub(crate) denied_by: Key,
}

/// A request to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    /// The number of the attempt, which identifies its token.
    pub(crate) attempt: u8,
    /// The number of the request, which identifies its place.
    pub(crate) request: u8,
    /// The penalty when the message was sent.
    pub(crate) penalty: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Acquire, with or without a place.
    Acquire { placed: bool },
    /// Release.
    Release { place: Fate, open: bool },
}

impl Kind {
    /// Returns true if it may enter a place.
    pub(crate) fn may_enter(self) -> bool {
        matches!(self, Self::Acquire { placed: true } | Self::Release { place: Fate::Kept | Fate::Next, .. })
    }

    /// Returns whether it names an attempt, a place, and the penalty of the place.
    fn parts(self) -> (bool, bool, bool) {
        match self {
            Self::Acquire { placed } => (true, placed, placed),
            Self::Release { place: Fate::Unnamed, .. } => (true, false, false),
            Self::Release { place: Fate::Kept, .. } => (true, true, true),
            Self::Release { place: Fate::Left, .. } => (false, true, false),
            Self::Release { place: Fate::Next, .. } => (true, true, false),
        }
    }
}

/// The effect of a release on a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It names none.
    Unnamed,
    /// The request waits on.
    Kept,
    /// The request has ended.
    Left,
    /// The next request of the process waits.
    Next,
}

/// The vote in the last attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Vote {
    #[default]
    None,
    Pending,
    Granted,
    /// Granted, and the node has lost the key since.
    GrantedAndLost,
    Denied,
    Failed,
}

/// A packed state without the names of the nodes.
pub(crate) type StateKey = [u64; 2 + NODES * NODE_WORDS];

const NODE_WORDS: usize = 5;

impl State {
    /// Returns the key on a node.
    pub fn key_on(&self, node: usize) -> Key {
        self.nodes[node].key
    }

    /// Returns the score of a place that waits on a node.
    pub fn score_on(&self, node: usize, place: Place) -> Option<u8> {
        let score = self.nodes[node].waiters[place.client][usize::from(place.request)];
        (score > 0).then_some(score)
    }

    /// Returns the request of a client that a node carries out next.
    pub fn next_request(&self, client: usize, node: usize) -> Option<Request> {
        let message = self.nodes[node].links[client].queue[0]?;
        Some(match message.kind {
            Kind::Acquire { .. } => Request::Acquire(message.attempt),
            Kind::Release { place: Fate::Left, .. } => Request::Leave(message.request),
            Kind::Release { .. } => Request::Release(message.attempt),
        })
    }

    /// Returns true if the next request of a client is a release that changes nothing on the node.
    pub fn is_next_void(&self, client: usize, node: usize) -> bool {
        let mut node = self.nodes[node];
        let Some(Message { kind, attempt, request, .. }) = node.links[client].queue[0] else { return false };
        let place = Place { client, request };
        match kind {
            Kind::Release { place: Fate::Unnamed, .. } => node.key != Key::Token { client, attempt },
            Kind::Release { place: Fate::Left, .. } => {
                node.key != Key::Reserved(place) && *node.entry(place) == 0
            }
            _ => false,
        }
    }

    /// Returns the number of the attempt by which a client holds the lock.
    pub fn held_by(&self, client: usize) -> Option<u8> {
        let Client { phase, attempt, .. } = self.clients[client];
        (phase == Phase::Held).then_some(attempt)
    }

    /// Returns the number of the last attempt of a client.
    pub fn attempt_of(&self, client: usize) -> u8 {
        self.clients[client].attempt
    }

    /// Returns true if a client has no request, or has ended.
    pub fn is_idle(&self, client: usize) -> bool {
        matches!(self.clients[client].phase, Phase::Idle | Phase::Dead)
    }

    /// Returns true if the request of a place waits or attempts.
    pub(crate) fn is_living(&self, place: Place) -> bool {
        let client = &self.clients[place.client];
        let waits = match client.phase {
            Phase::Trying | Phase::Failed | Phase::Waiting => !client.plain,
            Phase::Idle | Phase::Held | Phase::Dead => false,
        };
        waits && client.requests == place.request + 1
    }

    /// Returns true if a request is in flight that its connection still orders.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.nodes.iter().flat_map(|node| node.links).any(|link| link.queue[0].is_some())
    }

    /// Returns true if no client relies on the key of an attempt.
    pub(crate) fn has_ended(&self, client: usize, attempt: u8) -> bool {
        let owner = &self.clients[client];
        owner.attempt != attempt || !matches!(owner.phase, Phase::Trying | Phase::Held)
    }

    pub(crate) fn is_awaited(&self, client: usize, message: Message) -> bool {
        let owner = &self.clients[client];
        let is_acquire = matches!(message.kind, Kind::Acquire { .. });
        is_acquire && owner.attempt == message.attempt && owner.phase == Phase::Trying
    }

    /// Returns true if some node granted a failed attempt, and too few have failed to explain the others.
    pub(crate) fn is_granted_in_part(&self, client: usize) -> bool {
        let mut votes = self.nodes.iter().map(|node| node.links[client].vote);
        let failed = votes.clone().filter(|vote| *vote == Vote::Failed).count();
        failed < QUORUM && votes.any(|vote| matches!(vote, Vote::Granted | Vote::GrantedAndLost))
    }

    /// Returns true if a quorum of nodes denied an attempt because of the same key.
    pub(crate) fn is_denied_by_one(&self, client: usize) -> bool {
        let keys = self.nodes.iter().map(|node| node.links[client].denied_by);
        let denied = keys.filter(|key| *key != Key::Absent);
        let same = |key: Key| denied.clone().filter(|other| *other == key).count();
        denied.clone().any(|key| same(key) >= QUORUM)
    }

    /// Returns true if the votes of a failed attempt are split: no other client is known to have a quorum.
    pub(crate) fn is_split(&self, client: usize) -> bool {
        self.is_granted_in_part(client) && !self.is_denied_by_one(client)
    }

    /// Returns the place of the last request of a client.
    pub(crate) fn place(&self, client: usize) -> Place {
        Place { client, request: self.clients[client].requests.saturating_sub(1) }
    }

    /// Returns the same key for states that differ only in the names of the nodes, and for no others.
    pub(crate) fn key(&self) -> StateKey {
        let mut words = Words::<2>::new();
        for client in &self.clients {
            words.push(client.phase as u8, 3);
            words.push(client.requests, 2);
            client.begins.iter().for_each(|begin| words.push(*begin, 3));
            words.push(client.attempt, 3);
            words.push(client.tries, 3);
            words.push(client.penalty, 3);
            words.push(client.overtaken, 3);
            words.push(u8::from(client.plain) << 1 | u8::from(client.entered), 2);
        }
        words.push(self.epoch, 3);
        words.push(self.faults, 2);
        words.push(self.open_turns, 2);
        words.push(u8::from(self.opened) << 1 | u8::from(self.barged), 2);
        key(&words.words(), &mut self.nodes.map(|node| node.packed()))
    }
}

impl Node {
    /// Returns the place with the smallest score.
    pub(crate) fn first(&self) -> Option<(u8, Place)> {
        self.places().min_by_key(|(score, _)| *score)
    }

    /// Returns the place with the greatest score.
    pub(crate) fn last(&self) -> Option<(u8, Place)> {
        let mut places = self.places();
        let first = places.next()?;
        Some(places.fold(first, |last, place| if place.0 > last.0 { place } else { last }))
    }

    /// Returns the places that wait, with their scores.
    fn places(&self) -> impl Iterator<Item = (u8, Place)> {
        let clients = self.waiters.iter().enumerate();
        let places = clients.flat_map(|(client, scores)| {
            (0..).zip(scores).map(move |(request, score)| (*score, Place { client, request }))
        });
        places.filter(|(score, _)| *score > 0)
    }

    /// Returns the entry of a place.
    pub(crate) fn entry(&mut self, place: Place) -> &mut u8 {
        &mut self.waiters[place.client][usize::from(place.request)]
    }

    fn packed(&self) -> [u64; NODE_WORDS] {
        let mut words = Words::<NODE_WORDS>::new();
        self.key.push(&mut words);
        words.push(self.lost_by, 3);
        self.waiters.iter().flatten().for_each(|score| words.push(*score, 6));
        for link in &self.links {
            words.push(link.vote as u8, 3);
            link.denied_by.push(&mut words);
            for message in link.queue.iter().chain([&link.stray]) {
                match message {
                    None => words.push(0_u8, 4),
                    Some(message) => {
                        let kind = match message.kind {
                            Kind::Acquire { placed } => 1 + u8::from(placed),
                            Kind::Release { place, open } => 3 + (place as u8) * 2 + u8::from(open),
                        };
                        let (has_token, has_place, has_score) = message.kind.parts();
                        words.push(kind, 4);
                        words.push(if has_token { message.attempt } else { 0 }, 3);
                        words.push(if has_place { message.request } else { 0 }, 2);
                        words.push(if has_score { message.penalty } else { 0 }, 3);
                    }
                }
            }
        }
        words.words()
    }
}

impl Key {
    fn push<const N: usize>(self, words: &mut Words<N>) {
        let (kind, client, number) = match self {
            Self::Absent => (0_u8, 0, 0),
            Self::Token { client, attempt } => (1, client, attempt),
            Self::Reserved(place) => (2, place.client, place.request),
        };
        words.push(kind, 2);
        words.push(u8::try_from(client).unwrap_or_default(), 2);
        words.push(number, 3);
    }
}

impl Link {
    /// Appends a request.
    pub(crate) fn send(&mut self, message: Message) {
        let free = self.queue.iter_mut().find(|slot| slot.is_none());
        *free.expect("an attempt begins only if there is room for its requests") = Some(message);
    }

    /// Appends the release of an attempt, without its place.
    pub(crate) fn release(&mut self, message: Message) {
        self.send(Message { kind: Kind::Release { place: Fate::Unnamed, open: false }, ..message });
    }

    /// Returns true if three more requests may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.queue[QUEUE - 3].is_none()
    }

    /// Removes the first request.
    pub(crate) fn take(&mut self) -> Option<Message> {
        let first = self.queue[0].take();
        self.queue.rotate_left(1);
        first
    }
}
