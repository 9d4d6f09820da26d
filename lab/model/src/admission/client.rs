//! The rounds of clients: their beginning, the votes, the decision, and the end of leases.

use crate::admission::clock::Reply;
use crate::admission::protocol::Admission;
use crate::admission::scope::CLIENTS;
use crate::admission::scope::Transport;
use crate::admission::state::{Check, Client, Extend, Key, Phase, Request, State, Vote};
use crate::admission::variant::Variant;

impl Admission {
    pub(crate) fn begin(self, state: &mut State, client: usize) {
        let ttl = self.ttl(state, client);
        let Client { attempts, seen, .. } = state.clients[client];
        let (phase, attempts, round) = (Phase::Acquiring, attempts + 1, self.validity(ttl));
        state.clients[client] = Client { phase, attempts, ttl, round, seen, ..Client::default() };
        for node in self.nodes(state) {
            node.links[client].acquire = Request::Pending;
        }
    }

    pub(crate) fn extend(self, state: &mut State, client: usize) {
        let is = &mut state.clients[client];
        (is.phase, is.round, is.extensions) = (Phase::Extending, self.validity(is.ttl), is.extensions + 1);
        for node in self.nodes(state) {
            node.links[client].extend = Extend::Pending;
        }
    }

    /// Ends the current attempt. Its keys are not part of the state any more.
    pub(crate) fn end(self, state: &mut State, client: usize) {
        let Client { attempts, seen, .. } = state.clients[client];
        state.clients[client] = Client { attempts, seen, ..Client::default() };
        for node in self.nodes(state) {
            for data in [Some(&mut node.data), node.copy.as_mut()].into_iter().flatten() {
                data.key = data.key.filter(|key| !key.is_of(client));
            }
            node.links[client] = node.links[client].without_requests();
        }
    }

    pub(crate) fn acquire(self, state: &mut State, client: usize, number: usize) {
        write(state, client, number);
        state.nodes[number].links[client].acquire = Request::None;
        if state.clients[client].phase == Phase::Acquiring {
            self.vote(state, client, number);
        }
    }

    pub(crate) fn prolong(self, state: &mut State, client: usize, number: usize) {
        let (phase, node) = (state.clients[client].phase, &mut state.nodes[number]);
        let is_owner = node.data.has_key_of(client);
        node.links[client].extend = match phase {
            _ if is_owner => Extend::None,
            Phase::Extending => Extend::Denied,
            _ => Extend::Refill,
        };
        if is_owner {
            write(state, client, number);
            if phase == Phase::Extending {
                self.vote(state, client, number);
            }
        }
    }

    pub(crate) fn refill(state: &mut State, client: usize, number: usize) {
        write(state, client, number);
        state.nodes[number].links[client].extend = Extend::None;
    }

    /// Returns the part of a TTL that clients rely on.
    fn validity(self, ttl: u8) -> u8 {
        ttl - self.scope.clocks.map_or(0, |clocks| clocks.slack)
    }

    fn vote(self, state: &mut State, client: usize, number: usize) {
        if self.scope.clocks.is_some_and(|clocks| clocks.late_replies) {
            // A vote of a node that is not admitted does not count in any case.
            let is_admitted = self.is_admitted(state, client, number);
            state.nodes[number].links[client].reply = is_admitted.then(Reply::default);
            return;
        }
        self.count(state, client, number, Reply::default());
    }

    /// Counts the vote of a reply that was received.
    pub(crate) fn receive(self, state: &mut State, client: usize, number: usize) {
        if let Some(reply) = state.nodes[number].links[client].reply.take() {
            self.count(state, client, number, reply);
        }
    }

    fn count(self, state: &mut State, client: usize, number: usize, reply: Reply) {
        let counts = self.counts(state, client, number, reply);
        let link = &mut state.nodes[number].links[client];
        let notified = self.scope.transport == Transport::Pushes && self.scope.clocks.is_none();
        let keeps = notified && link.check == Check::Checked;
        link.vote = match counts {
            true => Vote::Counted,
            false if keeps => Vote::Kept,
            false => Vote::None,
        };
    }

    /// Decides the open rounds.
    pub(crate) fn decide(self, state: &mut State) {
        for client in 0..CLIENTS {
            if !matches!(state.clients[client].phase, Phase::Acquiring | Phase::Extending) {
                continue;
            }
            let (mut admitted, mut counted) = (0, 0);
            for number in 0..self.scope.nodes {
                let is_admitted = self.is_admitted(state, client, number);
                let vote = &mut state.nodes[number].links[client].vote;
                if *vote == Vote::Kept && is_admitted {
                    *vote = Vote::Counted;
                }
                admitted += usize::from(is_admitted);
                counted += usize::from(*vote == Vote::Counted && (is_admitted || !self.scope.rechecks));
            }
            let quorum = match self.variant {
                Variant::QuorumOfAdmittedNodes => admitted / 2 + 1,
                _ => self.scope.quorum(),
            };
            if counted >= quorum {
                self.win(state, client);
            }
        }
    }

    fn win(self, state: &mut State, client: usize) {
        let is = &mut state.clients[client];
        (is.phase, is.lease, is.round) = (Phase::Held, is.round, 0);
        for node in self.nodes(state) {
            let link = &mut node.links[client];
            (link.vote, link.reply) = (Vote::None, None);
            link.extend = if link.extend == Extend::Denied { Extend::Refill } else { link.extend };
        }
    }

    /// Lets a tick pass: keys expire, leases and rounds end, and waits continue.
    pub(crate) fn tick(self, state: &mut State) {
        for node in self.nodes(state) {
            for data in [Some(&mut node.data), node.copy.as_mut()].into_iter().flatten() {
                data.key = data.key.filter(|key| key.left > 1).map(|key| Key { left: key.left - 1, ..key });
                data.stamp.age = self.older(data.stamp);
            }
            for link in &mut node.links {
                link.own_wait = link.own_wait.saturating_sub(1);
            }
        }
        for number in 0..self.scope.nodes {
            self.tick_clock(state, number);
        }
        for client in 0..CLIENTS {
            let is = &mut state.clients[client];
            let (round_open, phase) = (is.round > 1, is.phase);
            is.round = is.round.saturating_sub(1);
            is.lease = is.lease.saturating_sub(1);
            let ends = match phase {
                Phase::Idle => false,
                Phase::Acquiring => !round_open,
                Phase::Held | Phase::Extending => is.lease == 0,
            };
            if ends {
                self.end(state, client);
            } else if phase == Phase::Extending && !round_open {
                is.phase = Phase::Held;
                for node in self.nodes(state) {
                    let link = &mut node.links[client];
                    (link.vote, link.reply) = (Vote::None, None);
                }
            }
        }
    }
}

/// Sets the key of a client with its full TTL.
fn write(state: &mut State, client: usize, number: usize) {
    let held = state.nodes[number].data.key.filter(|key| key.is_of(client)).map_or(0, |key| key.left);
    let key = Key::new(client, state.clients[client].ttl.max(held));
    state.nodes[number].data.key = Some(key);
}
