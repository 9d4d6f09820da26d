//! A request that arrives twice counts once.
//!
//! An acquire that finds its own token under all its resources changes no counter and returns it. If it counted again,
//! the counter would be above the fencing token of the lease, and the server would no longer count for it.

use std::collections::BTreeMap;

use redlock_core::FencingToken;
use redlock_core::runtime::Instant;
use redlock_testkit::Operation;

use super::{Invariant, Violation};
use crate::history::{EventKind, FaultKind, History, Place, Reply, Request, TokenNumber};

pub(super) fn check(history: &History) -> Vec<Violation> {
    // The counter and the expiry of each token's live keys on each server.
    let mut latest: BTreeMap<(usize, TokenNumber), (FencingToken, Instant)> = BTreeMap::new();
    let mut violations = Vec::new();
    for (event, entry) in history.0.iter().enumerate() {
        match entry.kind {
            EventKind::CarriedOut {
                request: Request { client, server, operation: Operation::Acquire, token, .. },
                reply: Reply::Counted(counter),
                until: Some(until),
                ..
            } => {
                let before = latest.insert((server, token), (counter, until));
                let Some((before, _)) = before.filter(|(was, until)| *was != counter && entry.at < *until)
                else {
                    continue;
                };
                let description = format!(
                    "n{server} has raised the counter to {before} and {counter} for {token} of c{client}"
                );
                let (invariant, tokens) = (Invariant::Counting, vec![token]);
                violations.push(Violation { invariant, broken: None, description, tokens, event });
            }
            // After any other change of the keys, the counter differs or is unknown.
            EventKind::CarriedOut { request: Request { server, token, .. }, reply, .. }
                if reply.is_grant() =>
            {
                latest.remove(&(server, token));
            }
            EventKind::Moved { server, token, .. } | EventKind::Lost { server, token } => {
                latest.remove(&(server, token));
            }
            EventKind::FaultBegins(Place::Server(forgot), FaultKind::Amnesia(_)) => {
                latest.retain(|(server, _), _| *server != forgot);
            }
            _ => {}
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::history_builder::HistoryBuilder;
    use super::*;

    fn violations(builder: HistoryBuilder) -> usize {
        check(&builder.history()).len()
    }

    #[test]
    fn a_second_copy_raises_no_counter_while_the_key_exists() {
        let once = || HistoryBuilder::default().counted(1, 0, 0, 7, 5, 10);
        assert_eq!(0, violations(once().counted(2, 0, 0, 7, 5, 10)));
        assert_eq!(1, violations(once().counted(2, 0, 0, 7, 6, 10)));
        assert_eq!(0, violations(once().counted(10, 0, 0, 7, 6, 20)), "the key had expired");
        assert_eq!(0, violations(once().lost(2, 0, 7).counted(3, 0, 0, 7, 6, 20)));
        assert_eq!(0, violations(once().deleted(2, 0, 0, 7).counted(3, 0, 0, 7, 6, 20)));
        assert_eq!(
            0,
            violations(once().confirmed(2, 0, 0, 7, 10).counted(3, 0, 0, 7, 6, 20)),
            "the counter was raised"
        );
        assert_eq!(0, violations(once().forgot(2, 0, 0).counted(3, 0, 0, 7, 6, 20)), "the counter was lost");
        assert_eq!(0, violations(once().counted(2, 0, 1, 7, 6, 10)), "the counter is on another server");
    }
}
