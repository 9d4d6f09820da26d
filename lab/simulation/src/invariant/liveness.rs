//! I7: once faults have ended and TTLs have passed, a lock is granted.
//!
//! The final check is a client that makes its requests when all others have ended and their keys have expired. It has no
//! contention then, so one attempt must succeed. A server whose clock was set back keeps keys for longer than their
//! TTL.

use std::collections::BTreeSet;

use super::{Assumption, Invariant, Rules, Violation};
use crate::history::show::names;
use crate::history::{Event, EventKind, FaultKind, History, TokenNumber};

pub(super) fn check(history: &History, rules: &Rules) -> Vec<Violation> {
    let Some(calm) = history.0.iter().position(|event| event.kind == EventKind::Calm) else {
        return Vec::new();
    };
    let settled = history.0[calm].at + rules.settled_after;
    let late = history.0.partition_point(|event| event.at < settled);
    let set_back =
        |kind: &EventKind| matches!(kind, EventKind::FaultBegins(_, FaultKind::Step(by)) if *by < 0);
    let broken = history.0.iter().any(|event| set_back(&event.kind)).then_some(Assumption::ClocksAreNotSet);
    let mut violations = Vec::new();
    for (index, entry) in history.0.iter().enumerate().skip(late.max(calm)) {
        let EventKind::Requested { client, resources, .. } = &entry.kind else { continue };
        let reply = history.0[index..].iter().position(|event| match event.kind {
            EventKind::Granted { client: other, .. } | EventKind::NotGranted { client: other, .. } => {
                other == *client
            }
            _ => false,
        });
        let event = reply.map_or(history.0.len() - 1, |reply| index + reply);
        if !matches!(history.0[event].kind, EventKind::Granted { .. }) {
            let tokens = sent(&history.0[index..event], *client);
            let description =
                format!("c{client} is not granted {}, long after the last fault", names(resources));
            violations.push(Violation { invariant: Invariant::Liveness, broken, description, tokens, event });
        }
    }
    violations
}

/// Returns the tokens that a client has sent.
fn sent(events: &[Event], client: usize) -> Vec<TokenNumber> {
    let sent = events.iter().filter_map(|event| match event.kind {
        EventKind::Sent(request) if request.client == client => Some(request.token),
        _ => None,
    });
    sent.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::history_builder::HistoryBuilder;
    use super::*;

    fn violations(builder: HistoryBuilder) -> usize {
        let rules = Rules {
            servers: 3,
            node_timeout: Duration::ZERO,
            settled_after: Duration::from_millis(10),
            admission: false,
            watches_clocks: false,
            changes_nodes: false,
        };
        check(&builder.history(), &rules).len()
    }

    #[test]
    fn a_late_request_must_be_granted() {
        let calm = || HistoryBuilder::default().calm(5);
        assert_eq!(0, violations(calm().requested(15, 9).granted(16, 9, 0, 99)));
        assert_eq!(1, violations(calm().requested(15, 9).not_granted(16, 9)));
        assert_eq!(1, violations(calm().requested(15, 9)), "the request has no result");
        assert_eq!(
            0,
            violations(calm().requested(14, 9).not_granted(16, 9)),
            "the request is too early for the check"
        );
        assert_eq!(
            0,
            violations(HistoryBuilder::default().requested(15, 9).not_granted(16, 9)),
            "never calm"
        );
    }
}
