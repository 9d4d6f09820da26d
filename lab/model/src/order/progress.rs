//! Quiet futures of a state: whether a waiter holds the lock after few ends of reservations.

use crate::order::client::{end, send_acquires};
use crate::order::protocol::Turns;
use crate::order::scope::{ATTEMPTS, CLIENTS, MOST_PENALTY, NODES, PENALTY_OF_MANY, Role};
use crate::order::state::{Client, Key, Kind, Phase, Place, State};
use crate::order::variant::Variant;

/// The maximum number of expiries that a quiet future contains.
const MOST_EXPIRIES: usize = 12;

/// Every order of three clients.
const ORDERS: [[usize; CLIENTS]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// A quiet future: what happens by chance in it.
#[derive(Clone, Copy)]
struct Chance {
    /// The order of simultaneous attempts.
    order: [usize; CLIENTS],
    /// The clients whose time a split moves.
    moved: [bool; CLIENTS],
    /// The node that each client reaches first, if delays differ. Every assignment counts, since nodes have no names.
    first: Option<[usize; CLIENTS]>,
}

impl Turns {
    /// Returns true if one of the waiters acquires the lock after no more ends of reservations than there are places of ended
    /// requests, with equal and with different delays. Holders, clients that have ended and foreign clients do nothing more.
    pub(crate) fn has_progress(self, state: &State) -> bool {
        let is_waiter = |client: &usize| self.scope.roles[*client] == Role::Waiter;
        let waits = |client: &usize| {
            matches!(state.clients[*client].phase, Phase::Trying | Phase::Failed | Phase::Waiting)
        };
        if !(0..CLIENTS).any(|client| is_waiter(&client) && waits(&client)) {
            return true;
        }
        let most = state.ghosts();
        let different = ORDERS.iter().copied().map(Some).filter(|_| self.scope.delays > 0);
        [None].into_iter().chain(different).all(|first| {
            let chances = |moved| ORDERS.iter().map(move |order| Chance { order: *order, moved, first });
            self.moves().flat_map(chances).any(|chance| self.quiet_future(*state, chance) <= most)
        })
    }

    /// Returns each choice of the clients whose time a split moves.
    fn moves(self) -> impl Iterator<Item = [bool; CLIENTS]> {
        let all = 0..1_usize << CLIENTS;
        let moves = all.map(|bits| std::array::from_fn(|client| bits >> client & 1 == 1));
        moves.filter(move |moved: &[bool; CLIENTS]| {
            self.variant != Variant::SplitsMoveNothing || *moved == [false; CLIENTS]
        })
    }

    fn quiet_future(self, mut state: State, chance: Chance) -> usize {
        let state = &mut state;
        for client in 0..CLIENTS {
            let phase = state.clients[client].phase;
            let is_foreign = self.scope.roles[client] == Role::Foreign;
            if phase == Phase::Held || is_foreign && phase != Phase::Idle {
                end(state, client, Phase::Dead);
            }
        }
        if self.deliver(state, chance) {
            return 0;
        }
        let mut expiries = 0;
        while expiries < MOST_EXPIRIES {
            if self.all_attempt(state, chance) {
                return expiries;
            }
            // The TTL of a lock is longer than that of a reservation, so the reservations expire in the meantime.
            let locked = state.nodes.iter().any(|node| matches!(node.key, Key::Token { .. }));
            expiries += usize::from(!locked);
            for node in &mut state.nodes {
                let stays =
                    matches!(node.key, Key::Reserved(_)) && self.variant == Variant::ReservationsDoNotExpire;
                if !stays {
                    node.key = Key::Absent;
                }
            }
            if self.variant == Variant::ReservationsDoNotExpire && !locked {
                return MOST_EXPIRIES;
            }
        }
        MOST_EXPIRIES
    }

    /// Lets every client attempt that is ready. Returns true if one acquires the lock.
    fn all_attempt(self, state: &mut State, chance: Chance) -> bool {
        let mut attempted = 0;
        while attempted < 8 {
            let next = chance.order.into_iter().find(|client| {
                let place = state.place(*client);
                let Client { phase, tries, plain, .. } = state.clients[*client];
                // A request without a place, and the next task of a process, do not wait for nodes.
                let is_early = attempted < 3 && (plain || tries == 0);
                phase == Phase::Waiting && (is_early || self.is_ready(state, place))
            });
            let Some(client) = next else { return false };
            state.clients[client].attempt = state.clients[client].attempt % ATTEMPTS + 1;
            state.clients[client].tries = 1;
            state.clients[client].phase = Phase::Trying;
            send_acquires(state, client);
            if self.deliver(state, chance) {
                return true;
            }
            attempted += 1;
        }
        false
    }

    /// Carries out all requests. Returns true if a client acquires the lock.
    fn deliver(self, state: &mut State, chance: Chance) -> bool {
        loop {
            let mut carried = false;
            for node in 0..NODES {
                for client in 0..CLIENTS {
                    let delay = u8::from(chance.first.is_some_and(|first| first[client] != node));
                    let stray = state.nodes[node].links[client].stray.take();
                    if let Some(message) = stray {
                        self.carry_out(state, node, client, message, delay);
                    }
                    while let Some(message) = state.nodes[node].links[client].take() {
                        let granted = self.carry_out(state, node, client, message, delay);
                        self.reply(state, node, client, message, granted);
                        carried = true;
                    }
                }
            }
            self.decide(state);
            for client in 0..CLIENTS {
                match state.clients[client].phase {
                    Phase::Held => return true,
                    Phase::Failed => {
                        let is_moved = chance.moved[client] && state.is_split(client);
                        let left = PENALTY_OF_MANY - state.clients[client].penalty;
                        let added = if is_moved { MOST_PENALTY.min(left) } else { 0 };
                        self.give_back(state, client, added, false);
                        carried = true;
                    }
                    _ => {}
                }
            }
            if !carried {
                return false;
            }
        }
    }
}

impl State {
    /// Returns the number of places whose requests have ended, and that a node or a message still contains.
    pub(crate) fn ghosts(&self) -> usize {
        let mut ghosts = 0;
        for client in 0..CLIENTS {
            for request in 0..self.clients[client].requests {
                let place = Place { client, request };
                let known = self.nodes.iter().any(|node| {
                    let mut copy = *node;
                    let link = &node.links[client];
                    let mut messages = link.queue.iter().chain([&link.stray]).flatten();
                    let sent = messages.any(|message| {
                        message.request == request
                            && matches!(message.kind, Kind::Acquire { .. } | Kind::Release { .. })
                    });
                    node.key == Key::Reserved(place) || *copy.entry(place) > 0 || sent
                });
                ghosts += usize::from(known && !self.is_living(place));
            }
        }
        ghosts
    }
}
