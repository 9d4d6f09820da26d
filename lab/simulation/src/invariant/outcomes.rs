//! No lease is reported as lost while a quorum has its keys, or as expired long before its deadline.
//!
//! "Lost" requires that so many servers have denied an extension, or the first release, that the others are no quorum.
//! A client without these replies cannot know of a loss.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redlock_core::runtime::Instant;
use redlock_core::{ErrorKind, ReleaseOutcome};
use redlock_testkit::Operation;

use super::{Invariant, Rules, Violation};
use crate::history::{EventKind, History, Reply, Request, TokenNumber};

/// The longest margin before the deadline in which the core reports a lease as expired: a fiftieth of the longest TTL.
const MARGIN: Duration = Duration::from_millis(250);

#[derive(Default)]
struct Lease {
    /// The latest deadline that the client has reported.
    until: Option<Instant>,
    /// The servers that have denied an extension or the first release.
    denied: BTreeSet<usize>,
    /// The servers that have replied to a release.
    release_replies: BTreeSet<usize>,
    releasing: Option<Instant>,
}

pub(super) fn check(history: &History, rules: &Rules) -> Vec<Violation> {
    let mut leases: BTreeMap<TokenNumber, Lease> = BTreeMap::new();
    let mut violations = Vec::new();
    for (event, entry) in history.0.iter().enumerate() {
        let Some(token) = entry.kind.token() else { continue };
        let lease = leases.entry(token).or_default();
        if let Some(description) = lease.apply(&entry.kind, entry.at, rules) {
            let (invariant, tokens) = (Invariant::Honesty, vec![token]);
            violations.push(Violation { invariant, broken: None, description, tokens, event });
        }
    }
    violations
}

impl Lease {
    /// Returns a description of a violation.
    fn apply(&mut self, kind: &EventKind, at: Instant, rules: &Rules) -> Option<String> {
        match *kind {
            EventKind::Granted { until, .. }
            | EventKind::Extended { until, .. }
            | EventKind::Noticed { until, .. } => self.until = Some(until),
            EventKind::Received { request: Request { server, operation, .. }, reply } => {
                self.reply(server, operation, reply);
            }
            EventKind::Releasing { .. } => self.releasing = Some(at),
            EventKind::NotExtended { client, token, why: Some(ErrorKind::Lost) }
            | EventKind::Released { client, token, outcome: Ok(ReleaseOutcome::AlreadyLost) } => {
                let denials = self.denied.len();
                return (rules.servers - denials.min(rules.servers) >= rules.quorum())
                    .then(|| format!("c{client} gets {token} reported as lost after {denials} denials"));
            }
            EventKind::Released { client, token, outcome: Ok(ReleaseOutcome::AlreadyExpired) } => {
                let left = self.until?.saturating_duration_since(self.releasing?);
                return (left > MARGIN).then(|| {
                    format!("c{client} gets {token} reported as expired, {left:?} before its deadline")
                });
            }
            _ => {}
        }
        None
    }

    fn reply(&mut self, server: usize, operation: Operation, reply: Reply) {
        let counts = match operation {
            Operation::Extend | Operation::Confirm => true,
            Operation::Release => reply != Reply::Failed && self.release_replies.insert(server),
            _ => false,
        };
        if counts && matches!(reply, Reply::Denied | Reply::Superseded(_)) {
            self.denied.insert(server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::history_builder::HistoryBuilder;
    use super::*;

    fn violations(builder: HistoryBuilder) -> usize {
        let rules = Rules {
            servers: 3,
            node_timeout: Duration::ZERO,
            settled_after: Duration::ZERO,
            admission: false,
            watches_clocks: false,
            changes_nodes: false,
        };
        check(&builder.history(), &rules).len()
    }

    fn held() -> HistoryBuilder {
        HistoryBuilder::default().granted(1, 0, 7, 1_000)
    }

    #[test]
    fn a_loss_requires_the_denials_of_a_quorum() {
        for operation in [Operation::Extend, Operation::Confirm, Operation::Release] {
            let denied = |servers: usize| {
                (0..servers).fold(held(), |builder, server| builder.denied(5, 0, server, 7, operation))
            };
            let released = |builder: HistoryBuilder| {
                builder.releasing(4, 0, 7).release_outcome(9, 0, 7, ReleaseOutcome::AlreadyLost)
            };
            assert_eq!((1, 0), (violations(released(denied(1))), violations(released(denied(2)))));
            let not_extended = |builder: HistoryBuilder| builder.not_extended(9, 0, 7, ErrorKind::Lost);
            assert_eq!((1, 0), (violations(not_extended(denied(1))), violations(not_extended(denied(2)))));
        }
        assert_eq!(
            0,
            violations(held().not_extended(9, 0, 7, ErrorKind::NoQuorum)),
            "the reported error is another one"
        );
    }

    #[test]
    fn a_repeated_release_denies_nothing() {
        let repeated = (0..3).fold(held().releasing(4, 0, 7), |builder, server| {
            builder.release_received(5, 0, server, 7).denied(6, 0, server, 7, Operation::Release)
        });
        assert_eq!(1, violations(repeated.release_outcome(9, 0, 7, ReleaseOutcome::AlreadyLost)));
    }

    #[test]
    fn a_lease_expires_near_its_deadline() {
        let released = |builder: HistoryBuilder, when| {
            builder.releasing(when, 0, 7).release_outcome(when + 5, 0, 7, ReleaseOutcome::AlreadyExpired)
        };
        assert_eq!((1, 0), (violations(released(held(), 749)), violations(released(held(), 750))));
        assert_eq!(
            1,
            violations(released(held().extended(500, 0, 7, 2_000), 1_500)),
            "the deadline was extended"
        );
    }
}
