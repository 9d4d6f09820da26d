//! The operations of a node.

use crate::share::protocol::Sharing;
use crate::share::scope::{CLIENTS, Role};
use crate::share::state::{Link, State};
use crate::share::step::{Request, RequestKind};
use crate::share::variant::Variant;

impl Sharing {
    /// Carries a request out. Returns true if it was granted.
    pub(crate) fn carry_out(self, state: &mut State, request: Request) -> bool {
        let Request { client, node, kind } = request;
        match kind {
            RequestKind::Acquire | RequestKind::Refill => self.acquire(state, client, node),
            RequestKind::Extend => {
                let round = state.clients[client].round;
                self.extend(state, client, node, round)
            }
        }
    }

    fn acquire(self, state: &mut State, client: usize, node: usize) -> bool {
        let links = &mut state.nodes[node];
        if links[client].entry.is_some() {
            return true;
        }
        let has = |wanted: Role| {
            (0..CLIENTS).any(|other| self.scope.roles[other] == wanted && links[other].entry.is_some())
        };
        let (readers, writer) = (has(Role::Reader), has(Role::Writer));
        let is_granted = match self.scope.roles[client] {
            Role::Writer if readers && self.variant == Variant::WriterReplacesReaders => {
                state.trespassed = true;
                for link in links.iter_mut() {
                    link.entry = None;
                }
                true
            }
            Role::Writer => !readers && !writer,
            _ => !writer || self.variant == Variant::ReaderJoinsAWriter,
        };
        if is_granted {
            set(links, client, 0);
        }
        is_granted
    }

    fn extend(self, state: &mut State, client: usize, node: usize, round: u8) -> bool {
        let links = &mut state.nodes[node];
        match links[client].entry {
            Some(before) => {
                set(links, client, before.max(round));
                true
            }
            None if self.variant == Variant::AnyReaderIsExtended => {
                let reads = |other: usize| self.scope.roles[other] == Role::Reader;
                reads(client) && (0..CLIENTS).any(|other| reads(other) && links[other].entry.is_some())
            }
            None => false,
        }
    }

    /// Carries the release of a client out.
    pub(crate) fn remove(self, state: &mut State, client: usize, node: usize) {
        let links = &mut state.nodes[node];
        let had = links[client].entry.take().is_some();
        links[client].is_last = false;
        let mut others = (0..CLIENTS).filter(|other| {
            let both_read = [client, *other].iter().all(|one| self.scope.roles[*one] == Role::Reader);
            *other != client && both_read && links[*other].entry.is_some()
        });
        let removed: Vec<usize> = match self.variant {
            Variant::ReleaseDeletesTheKey if had => others.collect(),
            Variant::OneTokenForAllReaders => others.collect(),
            // The number of readers decreases by one, even if the caller is not one of them.
            Variant::ReadersAreCounted if !had => others.next().into_iter().collect(),
            _ => return,
        };
        state.trespassed |= !removed.is_empty();
        for other in removed {
            links[other].entry = None;
        }
    }

    /// Removes an expired entry.
    pub(crate) fn expire(self, state: &mut State, client: usize, node: usize) {
        let links = &mut state.nodes[node];
        if self.variant == Variant::LastReaderSetsTheExpiry && links[client].is_last {
            for link in links.iter_mut() {
                link.entry = None;
            }
        }
        (links[client].entry, links[client].is_last) = (None, false);
    }
}

fn set(links: &mut [Link; CLIENTS], client: usize, round: u8) {
    for link in links.iter_mut() {
        link.is_last = false;
    }
    (links[client].entry, links[client].is_last) = (Some(round), true);
}
