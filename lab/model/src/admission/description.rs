//! A trace in words: each step, and its consequences.

use crate::admission::protocol::Admission;
use crate::admission::state::{Phase, State, Vote};
use crate::admission::step::{Step, name};
use crate::explore::Model;
use crate::scope::CLIENTS;

impl Admission {
    /// Returns a trace in words.
    pub fn describe(&self, trace: &[Step]) -> Vec<String> {
        let mut before = self.first();
        let line = |step: &Step| {
            let after = self.next(&before, *step);
            let text = format!("{step}{}{}", self.reply(&before, *step, &after), changes(&before, &after));
            before = after;
            text
        };
        trace.iter().map(line).collect()
    }

    fn reply(self, before: &State, step: Step, after: &State) -> &'static str {
        let (client, node) = match step {
            Step::Look { client, node } => {
                let admitted = self.is_admitted(after, client, node);
                return if admitted { ": it counts" } else { ": it does not count yet" };
            }
            Step::Acquire { client, node } | Step::Prolong { client, node } => (client, node),
            _ => return "",
        };
        if after.clients[client].phase != before.clients[client].phase {
            return "";
        }
        match (after.nodes[node].links[client].vote, after.nodes[node].data.has_key_of(client)) {
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
