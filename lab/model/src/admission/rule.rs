//! The admission rule: the look at the stamp, the wait, and the votes that count. It contains most broken variants.

use crate::admission::clock::Reply;
use crate::admission::protocol::Admission;
use crate::admission::scope::{MOST_TICKS, Transport};
use crate::admission::state::{Check, Client, Extend, Link, Origin, Phase, Request, Stamp, State};
use crate::admission::variant::Variant;

impl Admission {
    /// Returns true if a node counts for a client now.
    pub fn is_admitted(self, state: &State, client: usize, node: usize) -> bool {
        let (stamp, link) = (state.nodes[node].data.stamp, state.nodes[node].links[client]);
        match (self.variant, link.check) {
            (Variant::NoRule, _) | (_, Check::Unaware) => true,
            (variant, Check::Unchecked) => variant == Variant::UncheckedCounts,
            (Variant::OwnWaitAlone, Check::Checked) => link.own_wait == 0,
            (_, Check::Checked) if self.scope.clocks.is_some() => {
                // The client learns of a stamp that another one has renewed by its next look.
                let waits = link.own_wait > 0 && self.variant != Variant::NoOwnWait;
                link.age >= self.wait(state, client) && !waits
            }
            (_, Check::Checked) => {
                let is_over = stamp.origin == Origin::Present && stamp.age >= self.wait(state, client);
                is_over && link.own_wait == 0
            }
        }
    }

    /// Returns true if the vote of a node counts when its reply is received. If replies are not late, that is right after the
    /// request was carried out.
    pub(crate) fn counts(self, state: &mut State, client: usize, node: usize, reply: Reply) -> bool {
        let extends = state.clients[client].phase == Phase::Extending;
        if extends && matches!(self.variant, Variant::ExtensionsCountAll | Variant::ExtensionsCountUnwritten)
        {
            return true;
        }
        let counts = self.is_admitted(state, client, node);
        if self.scope.clocks.is_some() {
            if counts && self.variant != Variant::NoReadingBehindVotes {
                self.read(state, client, node, reply);
            }
            return counts && self.is_admitted(state, client, node);
        }
        if self.scope.transport == Transport::Pushes {
            return counts;
        }
        self.look(state, client, node);
        counts && self.is_admitted(state, client, node)
    }

    /// Carries out a look, which replaces a stamp that does not describe the server.
    pub(crate) fn look(self, state: &mut State, client: usize, number: usize) {
        let wait = self.wait(state, client);
        let stated = if self.scope.bounds_differ() { self.scope.ttl[client] } else { 0 };
        let node = &mut state.nodes[number];
        let (stamp, link) = (&mut node.data.stamp, &mut node.links[client]);
        let is_over = match self.variant {
            Variant::MissingStampIsFresh => stamp.origin == Origin::Missing,
            Variant::MissingStampIsOver => stamp.origin == Origin::Missing && link.knew,
            _ => false,
        };
        let age = match stamp.origin {
            _ if is_over => self.scope.longest_ttl(),
            Origin::Present => stamp.age,
            Origin::Earlier if self.variant == Variant::StaleTimeIsKept => stamp.age,
            Origin::Missing | Origin::Earlier => 0,
        };
        let begins = stamp.origin != Origin::Present;
        let is_outdated = !begins && link.finds_outdated && self.variant != Variant::StampIsNotRenewed;
        let age = if is_outdated { 0 } else { age };
        let is_vouched = stamp.is_vouched && !begins && !is_outdated;
        *stamp = Stamp { origin: Origin::Present, age, longest: stamp.longest.max(stated), is_vouched };
        match self.variant {
            Variant::OwnWaitAlone => {
                if !link.knew {
                    link.own_wait = wait;
                }
                link.knew = true;
            }
            // The client has noticed that a wait has begun.
            Variant::MissingStampIsOver => link.knew |= age < wait,
            _ if self.scope.remembers => {
                if link.knew && (begins || link.check == Check::Unchecked) {
                    link.own_wait = wait;
                }
                link.knew = true;
            }
            // The client remembers by its watch.
            _ if self.scope.clocks.is_some() => {}
            _ => link.knew |= self.scope.bounds_differ(),
        }
        link.check = Check::Checked;
        self.watch(state, client, number, begins || is_outdated);
        let seen = &mut state.clients[client].seen;
        *seen = (*seen).max(state.nodes[number].data.stamp.longest);
    }

    /// Returns the wait in ticks, as a client knows it.
    pub(crate) fn wait(self, state: &State, client: usize) -> u8 {
        let (stated, seen) = (self.scope.ttl[client], state.clients[client].seen);
        match self.variant {
            Variant::NoWait => 0,
            Variant::WaitTooShort => stated - 1,
            Variant::OwnBoundCounts => stated,
            _ => stated.max(seen),
        }
    }

    /// Returns the TTL of an attempt that begins now.
    pub(crate) fn ttl(self, state: &State, client: usize) -> u8 {
        let (stated, least) = (self.scope.ttl[client], self.scope.ttl[0].min(self.scope.ttl[1]));
        let mut nodes = state.nodes[..self.scope.nodes].iter();
        let careful = self.variant == Variant::BoundOnAllNodes;
        if careful && !nodes.all(|node| node.links[client].knew) { least } else { stated }
    }

    /// Returns true if every node is admitted for a client that starts now, waits, and sees no further loss.
    pub(crate) fn none_is_stuck(self, state: &State) -> bool {
        let mut later = *state;
        for node in &mut later.nodes[..self.scope.nodes] {
            node.links[0] = Link::default();
            node.is_fast = false;
        }
        later.clients[0] = Client::default();
        let look = |later: &mut State| {
            for node in 0..self.scope.nodes {
                self.look(later, 0, node);
            }
        };
        look(&mut later);
        for _ in 0..MOST_TICKS {
            self.tick(&mut later);
        }
        look(&mut later);
        (0..self.scope.nodes).all(|node| self.is_admitted(&later, 0, node))
    }

    /// Returns true if an acquire of a client may be carried out on a node.
    pub(crate) fn may_acquire(self, state: &State, client: usize, number: usize) -> bool {
        let node = &state.nodes[number];
        let arrives = match self.variant {
            Variant::ExtensionsCountUnwritten => Request::Sent,
            _ => Request::Pending,
        };
        // A request that is denied is the same as one that is never carried out.
        node.links[client].acquire == arrives && (node.data.is_free() || node.data.has_key_of(client))
    }

    /// Returns true if a refill of a client may be carried out on a node.
    pub(crate) fn may_refill(self, state: &State, client: usize, number: usize) -> bool {
        let node = &state.nodes[number];
        let written =
            self.variant != Variant::ExtensionsCountUnwritten || self.is_admitted(state, client, number);
        node.links[client].extend == Extend::Refill && node.data.is_free() && written
    }
}
