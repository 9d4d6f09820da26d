//! A trace in words: each step, and its consequences.

use crate::explore::Model;
use crate::fence::protocol::Fencing;
use crate::fence::state::{Phase, Round, State};
use crate::fence::step::{Step, name};

impl Fencing {
    /// Returns a trace in words. With [`Counters::Any`](crate::fence::Counters::Any) the numbers are ranks, in steps of
    /// two, and change as values come and go.
    pub fn story(&self, trace: &[Step]) -> Vec<String> {
        let mut before = self.first();
        let describe = |step: &Step| {
            let after = self.next(&before, *step);
            let line = format!("{step}{}", self.outcome(&before, *step, &after));
            before = after;
            line
        };
        trace.iter().map(describe).collect()
    }

    fn outcome(self, before: &State, step: Step, after: &State) -> String {
        let (attempt, node) = match step {
            Step::Begin { .. } | Step::Extend { .. } => return String::new(),
            Step::Pass { node } | Step::Vanish { node } => (None, node),
            Step::Set { attempt, node, .. }
            | Step::Again { attempt, node, .. }
            | Step::Lie { attempt, node }
            | Step::Confirm { attempt, node }
            | Step::Refill { attempt, node } => (Some(attempt), node),
        };
        let (was, is) = (before.nodes[node], after.nodes[node]);
        let said = matches!(step, Step::Set { .. } | Step::Again { .. });
        let counter = if was.counter == is.counter || said {
            String::new()
        } else {
            format!(", counter {} -> {}", was.counter, is.counter)
        };
        let key = match (step, is.key) {
            (Step::Confirm { .. }, Some(_)) if was.key != is.key => ", and sets the key".to_owned(),
            (Step::Confirm { attempt, .. }, Some(owner)) if owner != self.owner(attempt) => {
                format!(", though the key is that of {}", name(owner.into()))
            }
            _ => String::new(),
        };
        let follows = attempt.map(|attempt| follows(before, attempt, after)).unwrap_or_default();
        counter + &key + &follows
    }
}

fn follows(before: &State, attempt: usize, after: &State) -> String {
    let (had, has) = (before.attempts[attempt], after.attempts[attempt]);
    let (who, token) = (name(attempt), has.token);
    match (had.phase, has.phase) {
        (Phase::Acquiring, Phase::Confirming) => format!("; a quorum differs, {who} confirms {token}"),
        (Phase::Acquiring | Phase::Confirming, Phase::Granted) => format!("; {who} is granted {token}"),
        (Phase::Granted, Phase::Granted) if had.token != token => format!("; {who} continues with {token}"),
        _ if had.round != Round::None && has.round == Round::None => {
            format!("; the extension of {who} succeeds")
        }
        _ => String::new(),
    }
}
