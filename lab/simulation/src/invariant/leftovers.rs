//! I8: completed operations leave no key and no task behind once the servers reply again.
//!
//! At the end all clients release and close. Closing waits for pending cleanup, so it must complete. At a later check, no
//! key may exist and no task may run. The requests of a dead client and kept locks are exempt, because their keys expire.
//! No client can clean up after a request that the network holds for longer than a node timeout, or repeats. The second
//! copy takes effect after the cleanup of the first.

use std::collections::{BTreeMap, BTreeSet};

use redlock_core::runtime::Instant;
use redlock_testkit::Operation;

use super::{Assumption, Invariant, Rules, Violation};
use crate::history::{EventKind, FaultKind, History, Place, Request, TokenNumber};

pub(super) fn check(history: &History, rules: &Rules) -> Vec<Violation> {
    let mut owners: BTreeMap<TokenNumber, usize> = BTreeMap::new();
    let mut held_up: BTreeSet<(usize, TokenNumber)> = BTreeSet::new();
    let (mut older, mut restored) = (BTreeSet::new(), BTreeSet::new());
    let mut sent = BTreeMap::new();
    let mut open: BTreeSet<usize> = BTreeSet::new();
    let mut latest: BTreeMap<usize, TokenNumber> = BTreeMap::new();
    let mut violations = Vec::new();
    let invariant = Invariant::Leftovers;
    for (event, entry) in history.0.iter().enumerate() {
        let is_late = |key: &(usize, TokenNumber), sent: &BTreeMap<(usize, TokenNumber), Instant>| {
            sent.get(key).is_some_and(|sent| entry.at.saturating_duration_since(*sent) > rules.node_timeout)
        };
        match entry.kind {
            EventKind::Requested { client, .. } => drop(open.insert(client)),
            EventKind::Closed { client } => drop(open.remove(&client)),
            EventKind::FaultBegins(Place::Client(dead), FaultKind::Kill) => {
                open.remove(&dead);
                owners.retain(|_, owner| *owner != dead);
            }
            EventKind::Sent(Request { client, server, operation: Operation::Acquire, token, .. }) => {
                sent.insert((server, token), entry.at);
                owners.insert(token, client);
                latest.insert(client, token);
            }
            // Its keys remain on purpose.
            EventKind::Keeping { token, .. } => drop(owners.remove(&token)),
            EventKind::CarriedOut {
                request: Request { server, operation: Operation::Acquire, token, .. },
                until: Some(_),
                travelled,
                again,
                ..
            } if again || travelled > rules.node_timeout => drop(held_up.insert((server, token))),
            EventKind::FaultBegins(Place::Server(server), FaultKind::Rollback) => drop(older.insert(server)),
            // An older copy may contain a lock that was released.
            EventKind::Moved { server, token, .. } if older.contains(&server) => {
                restored.insert((server, token));
            }
            // The key appears without a record of its request, whose connection is lost.
            EventKind::Moved { server, token, .. } if is_late(&(server, token), &sent) => {
                held_up.insert((server, token));
            }
            EventKind::Left { server, token } if restored.contains(&(server, token)) => {}
            EventKind::Left { server, token } => {
                let Some(owner) = owners.get(&token) else { continue };
                let soon = Some(Assumption::RequestsArriveSoon);
                let broken = soon.filter(|_| held_up.contains(&(server, token)));
                let description = format!("n{server} still has {token} after c{owner} was closed");
                violations.push(Violation { invariant, broken, description, tokens: vec![token], event });
            }
            EventKind::Runs { client, tasks } => {
                let description = format!("c{client} still runs {tasks} tasks long after it was closed");
                violations.push(Violation {
                    invariant,
                    broken: None,
                    description,
                    tokens: Vec::new(),
                    event,
                });
            }
            _ => {}
        }
    }
    if history.0.iter().any(|event| event.kind == EventKind::Calm) {
        for client in open {
            let description = format!("c{client} has not ended");
            let tokens = latest.get(&client).copied().into_iter().collect();
            violations.push(Violation {
                invariant,
                broken: None,
                description,
                tokens,
                event: history.0.len() - 1,
            });
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::history_builder::HistoryBuilder;
    use super::*;

    fn broken(builder: HistoryBuilder) -> Vec<Option<Assumption>> {
        let node_timeout = Duration::from_millis(200);
        let rules = Rules {
            servers: 3,
            node_timeout,
            settled_after: Duration::ZERO,
            admission: false,
            watches_clocks: false,
            changes_nodes: false,
        };
        check(&builder.history(), &rules).into_iter().map(|violation| violation.broken).collect()
    }

    #[test]
    fn a_running_client_leaves_no_key() {
        let sent = || HistoryBuilder::default().sent(0, 0, 1, 7);
        assert_eq!(0, broken(sent().calm(9)).len());
        assert_eq!(vec![None], broken(sent().calm(9).left(9, 1, 7)));
        assert_eq!(0, broken(sent().killed(5, 0).left(9, 1, 7)).len(), "the key expires");
        assert_eq!(vec![None], broken(sent().killed(5, 2).left(9, 1, 7)), "another client was killed");
        assert_eq!(
            0,
            broken(sent().granted(2, 0, 7, 9).keeping(5, 0, 7).left(9, 1, 7)).len(),
            "the lock is kept"
        );
        let again = sent().carried_again(5, 0, 1, 7, 99).left(9, 1, 7);
        assert_eq!(vec![Some(Assumption::RequestsArriveSoon)], broken(again));
    }

    #[test]
    fn a_closed_client_runs_no_task() {
        assert_eq!(vec![None], broken(HistoryBuilder::default().calm(9).runs(50, 0, 1)));
    }

    #[test]
    fn every_client_completes() {
        assert_eq!(vec![None], broken(HistoryBuilder::default().requested(1, 0).calm(9)));
        assert_eq!(0, broken(HistoryBuilder::default().requested(1, 0).calm(9).closed(10, 0)).len());
        assert_eq!(0, broken(HistoryBuilder::default().requested(1, 0).killed(2, 0).calm(9)).len());
    }
}
