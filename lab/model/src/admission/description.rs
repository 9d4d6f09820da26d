//! A trace in words: each step, and its consequences.

use crate::admission::clock::Reply;
use crate::admission::protocol::Admission;
use crate::admission::scope::CLIENTS;
use crate::admission::state::{Link, Phase, State, Vote};
use crate::admission::step::Step;
use crate::admission::variant::Variant;
use crate::catalog::name;

impl Admission {
    /// Returns the consequences of a step in words.
    pub(crate) fn outcome(self, before: &State, step: Step, after: &State) -> String {
        let (notices, reply) = (self.notices(before, step, after), self.reply(before, step, after));
        format!("{notices}{reply}{}", changes(before, after))
    }

    /// Returns what a client does about a clock that has jumped.
    fn notices(self, before: &State, step: Step, after: &State) -> &'static str {
        let (Step::Look { client, node } | Step::Read { client, node }) = step else { return "" };
        let Some(clocks) = self.watched() else { return "" };
        let [old, new] = [before, after].map(|state| state.nodes[node].links[client]);
        let is_ahead = |link: Link| link.readings.is_ahead(Reply::default(), clocks.tolerance);
        match (is_ahead(old) && !is_ahead(new), old.finds_outdated && !new.finds_outdated) {
            (true, _) => " and notices the jump",
            (false, true) if self.variant != Variant::StampIsNotRenewed => " and renews the stamp",
            _ => "",
        }
    }

    fn reply(self, before: &State, step: Step, after: &State) -> &'static str {
        let (client, node) = match step {
            Step::Look { client, node } => {
                let admitted = self.is_admitted(after, client, node);
                return if admitted { ": it counts" } else { ": it does not count yet" };
            }
            Step::Acquire { client, node }
            | Step::Prolong { client, node }
            | Step::Receive { client, node } => (client, node),
            _ => return "",
        };
        if after.clients[client].phase != before.clients[client].phase {
            return "";
        }
        let link = after.nodes[node].links[client];
        if link.reply.is_some() {
            return ", and the reply is in flight";
        }
        match (link.vote, after.nodes[node].data.has_key_of(client)) {
            (Vote::Counted, _) => ", which counts",
            (_, false) => ", and does not have the key",
            (_, true) => ", which does not count",
        }
    }
}

fn changes(before: &State, after: &State) -> String {
    let change = |client: usize| {
        let (old, new) = (before.clients[client], after.clients[client]);
        match (old.phase, new.phase) {
            (Phase::Acquiring, Phase::Held) => format!("; {} has the lock", name(client)),
            (Phase::Extending, Phase::Held) if new.lease >= old.lease => {
                format!("; the extension of {} succeeds", name(client))
            }
            _ => String::new(),
        }
    };
    (0..CLIENTS).map(change).collect()
}
