//! A trace in words: each step, and its consequences.

use crate::catalog::name;
use crate::fence::protocol::Fencing;
use crate::fence::state::{Phase, Round, State};
use crate::fence::step::Step;

impl Fencing {
    /// Returns the consequences of a step in words. With [`Counters::Any`](crate::fence::Counters::Any) the numbers are ranks, in steps of
    /// two, and change as values come and go.
    pub(crate) fn outcome(self, before: &State, step: Step, after: &State) -> String {
        let (attempt, node) = match step {
            Step::Begin { .. } | Step::Extend { .. } => return String::new(),
            Step::Pass { node } | Step::Vanish { node } => (None, node),
            Step::Set { attempt, node, .. }
            | Step::Again { attempt, node, .. }
            | Step::Lie { attempt, node }
            | Step::Confirm { attempt, node }
            | Step::Refill { attempt, node } => (Some(attempt), node),
        };
        let (old, new) = (before.nodes[node], after.nodes[node]);
        let is_in_step = matches!(step, Step::Set { .. } | Step::Again { .. });
        let counter = if old.counter == new.counter || is_in_step {
            String::new()
        } else {
            format!(", counter {} -> {}", old.counter, new.counter)
        };
        let key = match (step, new.key) {
            (Step::Confirm { .. }, Some(_)) if old.key != new.key => ", and sets the key".to_owned(),
            (Step::Confirm { attempt, .. }, Some(owner)) if owner != self.owner(attempt) => {
                format!(", though the key is that of {}", name(owner.into()))
            }
            _ => String::new(),
        };
        let decision = attempt.map(|attempt| decision(before, attempt, after)).unwrap_or_default();
        counter + &key + &decision
    }
}

fn decision(before: &State, attempt: usize, after: &State) -> String {
    let (old, new) = (before.attempts[attempt], after.attempts[attempt]);
    let (client, token) = (name(attempt), new.token);
    match (old.phase, new.phase) {
        (Phase::Acquiring, Phase::Confirming) => format!("; a quorum differs, {client} confirms {token}"),
        (Phase::Acquiring | Phase::Confirming, Phase::Granted) => format!("; {client} is granted {token}"),
        (Phase::Granted, Phase::Granted) if old.token != token => {
            format!("; {client} continues with {token}")
        }
        _ if old.round != Round::None && new.round == Round::None => {
            format!("; the extension of {client} succeeds")
        }
        _ => String::new(),
    }
}
