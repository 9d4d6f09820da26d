//! The operations of a node, and the quorums of a client.

use crate::change::protocol::Changing;
use crate::change::scope::{List, Lists, Program};
use crate::change::state::{Key, State};
use crate::change::step::{Request, RequestKind};
use crate::change::variant::Variant;
use crate::decision::{Decision, Vote};

/// Carries a request out. Returns true if it was granted.
pub(super) fn carry_out(state: &mut State, request: Request) -> bool {
    let Request { client, node, kind } = request;
    let round = state.clients[client].round;
    let key = &mut state.nodes[node].key;
    let own = key.filter(|key| key.client == client);
    *key = match kind {
        RequestKind::Acquire | RequestKind::Late => key.or(Some(Key { client, round: 0 })),
        RequestKind::Extend => own.map(|own| Key { round: own.round.max(round), ..own }).or(*key),
    };
    key.is_some_and(|key| key.client == client)
}

impl Changing {
    /// Decides the open round of a client: a majority of each of its lists grants.
    pub(crate) fn decision(self, state: &State, client: usize) -> Decision {
        let of_list = |list: List| {
            let count = |wanted: Vote| {
                list.nodes().filter(|node| state.nodes[*node].links[client].vote == wanted).count()
            };
            Decision::of(count(Vote::Granted), count(Vote::Pending), list.quorum())
        };
        let Lists { old, new } = self.scope.lists;
        match self.scope.programs[client] {
            Program::Absent => Decision::Open,
            Program::Old => of_list(old),
            Program::New => of_list(new),
            Program::Both => match self.variant {
                Variant::OnlyTheNewListDecides => of_list(new),
                Variant::OnlyTheOldListDecides => of_list(old),
                Variant::ListsAreCountedAsOne => of_list(old.and(new)),
                Variant::OnlyTheNewListExtends if state.clients[client].extending => of_list(new),
                Variant::OnlyTheOldListExtends if state.clients[client].extending => of_list(old),
                _ => of_list(old).and(of_list(new)),
            },
        }
    }
}
