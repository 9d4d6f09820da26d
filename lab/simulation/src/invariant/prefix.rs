//! The part of a history that shows a violation.
//!
//! The prefix ends with the event that shows the violation, so it is the shortest one. The printed part begins with the
//! first event about the violation's tokens. It contains all events about these tokens. Of other tokens with the same
//! resources, it contains the changes of leases and keys. It also contains the relevant faults.

use std::collections::{BTreeMap, BTreeSet};

use redlock_testkit::Operation;

use super::Violation;
use crate::history::claims::{Claimed, claims};
use crate::history::{Event, EventKind, FaultKind, History, Place, Request, TokenNumber};

impl Violation {
    /// Returns the shortest prefix of the history that shows this violation.
    ///
    /// Unrelated events are left out: those before its tokens, and those about other resources and clients.
    pub fn prefix(&self, history: &History) -> History {
        let end = history.0.len().min(self.event + 1);
        let builder = Involved::new(self, history);
        let begin = builder.begin(&history.0[..end]);
        let (before, after) = history.0[..end].split_at(begin);
        let lasting = builder.lasting(before).into_iter();
        let later = after.iter().filter(|event| builder.is_relevant(&event.kind));
        History(lasting.chain(later).cloned().collect())
    }
}

/// The tokens, clients and resources of a violation.
#[derive(Clone, Debug)]
pub(crate) struct Involved {
    pub(crate) tokens: BTreeSet<TokenNumber>,
    pub(crate) clients: BTreeSet<usize>,
    pub(crate) resources: BTreeSet<usize>,
    /// Other tokens that claim the same resources.
    rivals: BTreeSet<TokenNumber>,
}

impl Involved {
    pub(crate) fn new(violation: &Violation, history: &History) -> Self {
        let claims: BTreeMap<TokenNumber, Claimed> = claims(history);
        let tokens: BTreeSet<_> = violation.tokens.iter().copied().collect();
        let own = || claims.iter().filter(|(token, _)| tokens.contains(token)).map(|(_, claim)| claim);
        let clients = own().map(|claim| claim.client).collect();
        let resources: BTreeSet<_> = own().flat_map(|claim| claim.resources.iter().copied()).collect();
        let rival = |claim: &Claimed| claim.resources.iter().any(|resource| resources.contains(resource));
        let rivals = claims.iter().filter(|(token, claim)| !tokens.contains(token) && rival(claim));
        let rivals = rivals.map(|(token, _)| *token).collect();
        Self { tokens, clients, resources, rivals }
    }

    /// Returns the index of the first event about one of the tokens; 0 if there is none.
    pub(crate) fn begin(&self, events: &[Event]) -> usize {
        let own = |event: &Event| event.kind.token().is_some_and(|token| self.tokens.contains(&token));
        events.iter().position(own).unwrap_or(0)
    }

    /// Returns the earlier faults that still lasted.
    fn lasting<'a>(&self, before: &'a [Event]) -> Vec<&'a Event> {
        let mut lasting: Vec<&Event> = Vec::new();
        for event in before.iter().filter(|event| self.is_relevant(&event.kind)) {
            match event.kind {
                EventKind::FaultBegins(_, fault) if fault.is_momentary() => {}
                EventKind::FaultBegins(..) => lasting.push(event),
                EventKind::FaultEnds(place, fault) => lasting.retain(|begun| {
                    !matches!(begun.kind, EventKind::FaultBegins(at, other) if at == place && other.name() == fault.name())
                }),
                _ => {}
            }
        }
        lasting
    }

    fn is_relevant(&self, kind: &EventKind) -> bool {
        match kind {
            EventKind::FaultBegins(place, fault) | EventKind::FaultEnds(place, fault) => match place {
                Place::Server(_) | Place::Network | Place::Resource(_) => true,
                Place::Client(client) => self.clients.contains(client),
                Place::Between(client, _) => *fault == FaultKind::Partition && self.clients.contains(client),
            },
            EventKind::Calm => true,
            EventKind::Requested { client, .. }
            | EventKind::NotGranted { client, .. }
            | EventKind::Closed { client } => self.clients.contains(client),
            _ => kind.token().is_some_and(|token| {
                self.tokens.contains(&token) || (self.rivals.contains(&token) && matters(kind))
            }),
        }
    }
}

/// Returns whether an event about another token matters: it changes a lease or a key.
fn matters(kind: &EventKind) -> bool {
    match kind {
        EventKind::CarriedOut { request: Request { operation, .. }, reply, until, .. } => {
            until.is_some() || (*operation == Operation::Release && reply.is_grant())
        }
        EventKind::Granted { .. }
        | EventKind::Extended { .. }
        | EventKind::Noticed { .. }
        | EventKind::Releasing { .. }
        | EventKind::Keeping { .. }
        | EventKind::Kept { .. }
        | EventKind::Wrote { .. }
        | EventKind::Moved { .. }
        | EventKind::Lost { .. }
        | EventKind::Left { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Invariant;
    use super::super::history_builder::HistoryBuilder;
    use super::*;

    fn prefix(builder: HistoryBuilder, tokens: &[u32], event: usize) -> Vec<String> {
        let tokens = tokens.iter().copied().map(TokenNumber).collect();
        let violation = Violation {
            invariant: Invariant::Exclusion,
            broken: None,
            description: String::new(),
            tokens,
            event,
        };
        let prefix = violation.prefix(&builder.history());
        prefix.0.iter().map(|event| event.kind.to_string()).collect()
    }

    #[test]
    fn a_prefix_ends_with_the_violation_and_begins_with_its_tokens() {
        let builder =
            HistoryBuilder::default().sent(0, 5, 0, 1).sent(1, 0, 0, 7).sent(2, 0, 1, 7).sent(3, 0, 2, 7);
        assert_eq!(
            vec!["c0-n0 Acquire #7 (0) is sent", "c0-n1 Acquire #7 (0) is sent"],
            prefix(builder, &[7], 2)
        );
    }

    #[test]
    fn a_prefix_contains_the_changes_of_rivals() {
        let builder =
            HistoryBuilder::default().requested(0, 0).requested(0, 1).sent(1, 0, 0, 7).sent(2, 1, 0, 8);
        let builder = builder.carried(3, 1, 0, 8, 10).received(4, 1, 0, 8).deleted(5, 1, 0, 8);
        let shown = prefix(builder, &[7], 99);
        let carried = "c1-n0 Acquire #8 (0) is carried out: granted until    0.010000000, after 1ms";
        let deleted = "c1-n0 Release #8 (0) is carried out: granted, after 1ms";
        assert_eq!(vec!["c0-n0 Acquire #7 (0) is sent", carried, deleted], shown);
    }

    #[test]
    fn a_prefix_contains_the_faults_in_progress() {
        let builder = || HistoryBuilder::default().paused(0, 0).paused(0, 1);
        assert_eq!(
            "c0 ! pause",
            prefix(builder().sent(2, 0, 0, 7), &[7], 99)[0],
            "not that of another client"
        );
        assert_eq!(
            1,
            prefix(builder().resumed(1, 0).sent(2, 0, 0, 7), &[7], 99).len(),
            "the pause has ended"
        );
    }
}
