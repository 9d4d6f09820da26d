//! I6: the validity ends before the key expires, on every server that was counted.
//!
//! This is the reason for exclusion, so it fails earlier and more often than exclusion. For example, a lease whose key
//! is missing on one counted server of three does no harm yet. A lease without a counted quorum is a violation too.
//!
//! A server counts if it granted before the deadline was set or moved, and keeps the key until the deadline. The
//! counted servers must be a quorum. From then on, until the lease is over, every change or removal of their keys is
//! checked.
//!
//! An expired lease is not revived: an extension that a holder learns of after its deadline has no effect. No client
//! gets a lease without remaining validity.
//!
//! A lock that is kept is checked in the same way, until the promised end. No client relies on it, so it does not end with
//! its client.

use std::collections::{BTreeMap, BTreeSet};

use redlock_core::runtime::Instant;
use redlock_testkit::Operation;

use super::{Invariant, Rules, Violation, excuse};
use crate::history::{Event, EventKind, FaultKind, History, Place, Reply, Request, TokenNumber};

#[derive(Default)]
struct Lease {
    client: usize,
    /// The deadline; `None` while it is not granted, and when it is over.
    deadline: Option<Instant>,
    counted: BTreeSet<usize>,
    /// If `true`, the lease is renewed, or an extension was dropped. Its deadline may move without an event.
    given_up: bool,
    /// If `true`, the lock is kept for a time, even if the client ends.
    kept: bool,
    /// The servers that have ever granted.
    yes: BTreeSet<usize>,
    /// The expiry of the key on each server.
    keys: BTreeMap<usize, Instant>,
}

impl Lease {
    fn keeps(&self, server: usize, deadline: Instant) -> bool {
        self.keys.get(&server).is_some_and(|until| *until >= deadline)
    }
}

pub(super) fn check(history: &History, rules: &Rules) -> Vec<Violation> {
    let mut leases: BTreeMap<TokenNumber, Lease> = BTreeMap::new();
    let mut violations = Vec::new();
    for (event, entry) in history.0.iter().enumerate() {
        violations.extend(spent(entry, event));
        violations.extend(revived(entry, event, &leases));
        let Some(token) = apply(&entry.kind, entry.at, &mut leases) else { continue };
        let Some(lease) = leases.get_mut(&token) else { continue };
        let Some(deadline) = lease.deadline.filter(|deadline| entry.at < *deadline) else { continue };
        let description = if lease.counted.len() < rules.quorum() {
            format!("the lease {token} of c{} has no quorum, only {}", lease.client, votes(&lease.counted))
        } else {
            let early = |server: &&usize| !lease.keeps(**server, deadline);
            let Some(server) = lease.counted.iter().find(early) else { continue };
            format!("the lease {token} of c{} outlives its key on n{server}", lease.client)
        };
        // Each lease is reported once.
        lease.deadline = None;
        let broken = excuse(history, token, event);
        violations.push(Violation {
            invariant: Invariant::Validity,
            broken,
            description,
            tokens: vec![token],
            event,
        });
    }
    violations
}

/// Lists the servers whose votes count.
fn votes(counted: &BTreeSet<usize>) -> String {
    let names: Vec<_> = counted.iter().map(|server| format!("n{server}")).collect();
    match names.as_slice() {
        [] => "no vote".into(),
        [name] => format!("the vote of {name}"),
        _ => format!("the votes of {}", names.join(" and ")),
    }
}

fn spent(entry: &Event, event: usize) -> Option<Violation> {
    let (EventKind::Granted { client, token, until, .. } | EventKind::Extended { client, token, until }) =
        entry.kind
    else {
        return None;
    };
    let description = format!("c{client} gets the lease {token} with no validity left");
    let (invariant, tokens) = (Invariant::Validity, vec![token]);
    (until <= entry.at).then_some(Violation { invariant, broken: None, description, tokens, event })
}

fn revived(entry: &Event, event: usize, leases: &BTreeMap<TokenNumber, Lease>) -> Option<Violation> {
    let EventKind::Extended { client, token, until } = entry.kind else { return None };
    let lease = leases.get(&token)?;
    let passed = lease.deadline? <= entry.at && entry.at < until;
    let description = format!("the lease {token} of c{client} had expired and was extended");
    let (invariant, tokens) = (Invariant::Validity, vec![token]);
    (passed && !lease.given_up).then_some(Violation { invariant, broken: None, description, tokens, event })
}

/// Applies an event. Returns the token whose lease must be checked.
fn apply(kind: &EventKind, now: Instant, leases: &mut BTreeMap<TokenNumber, Lease>) -> Option<TokenNumber> {
    match *kind {
        EventKind::Received {
            request:
                Request {
                    server,
                    operation: Operation::Acquire | Operation::Extend | Operation::Confirm | Operation::Keep,
                    token,
                    ..
                },
            reply,
        } if reply.is_grant() => {
            leases.entry(token).or_default().yes.insert(server);
            None
        }
        EventKind::Granted { client, token, until, .. }
        | EventKind::Extended { client, token, until }
        | EventKind::Noticed { client, token, until }
        | EventKind::Kept { client, token, until } => {
            let lease = leases.entry(token).or_default();
            lease.client = client;
            lease.kept = matches!(kind, EventKind::Kept { .. });
            if lease.deadline.is_none_or(|deadline| until > deadline) {
                let yes = lease.yes.iter().copied();
                lease.counted = yes.filter(|server| lease.keeps(*server, until)).collect();
                lease.deadline = Some(until);
            }
            Some(token)
        }
        EventKind::KeepsAlive { token, .. } | EventKind::NotExtended { token, why: None, .. } => {
            leases.get_mut(&token)?.given_up = true;
            None
        }
        EventKind::Releasing { token, .. } | EventKind::Keeping { token, .. } => {
            leases.get_mut(&token)?.deadline = None;
            None
        }
        EventKind::FaultBegins(Place::Client(dead), FaultKind::Kill) => {
            let ends = |lease: &&mut Lease| lease.client == dead && !lease.kept;
            leases.values_mut().filter(ends).for_each(|lease| lease.deadline = None);
            None
        }
        EventKind::CarriedOut { request: Request { server, token, .. }, until: Some(until), .. }
        | EventKind::Moved { server, token, until } => {
            leases.entry(token).or_default().keys.insert(server, until);
            Some(token)
        }
        EventKind::CarriedOut {
            request: Request { server, operation: Operation::Release, token, .. },
            reply: Reply::Granted,
            ..
        }
        | EventKind::Lost { server, token } => {
            leases.get_mut(&token)?.keys.insert(server, now);
            Some(token)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Assumption;
    use super::super::history_builder::HistoryBuilder;
    use super::*;

    /// A lease until 10 that counts servers 0 and 1, whose keys exist until 11.
    fn held() -> HistoryBuilder {
        let builder =
            HistoryBuilder::default().sent(0, 0, 0, 0).carried(1, 0, 0, 0, 11).carried(1, 0, 1, 0, 11);
        builder.received(2, 0, 0, 0).received(2, 0, 1, 0).granted(2, 0, 0, 10)
    }

    fn broken(builder: HistoryBuilder) -> Vec<Option<Assumption>> {
        let rules = Rules {
            servers: 3,
            node_timeout: Duration::ZERO,
            settled_after: Duration::ZERO,
            admission: false,
            watches_clocks: false,
            changes_nodes: false,
        };
        check(&builder.history(), &rules).into_iter().map(|violation| violation.broken).collect()
    }

    #[test]
    fn keys_outlive_the_lease() {
        assert_eq!(0, broken(held()).len());
        let yes =
            || HistoryBuilder::default().carried(1, 0, 0, 0, 11).received(2, 0, 0, 0).received(2, 0, 1, 0);
        assert_eq!(vec![None], broken(yes().carried(2, 0, 1, 0, 9).granted(2, 0, 0, 10)));
        let never = yes().granted(2, 0, 0, 10);
        assert_eq!(vec![None], broken(never), "a grant without a key");
    }

    #[test]
    fn a_granted_lease_has_validity_left() {
        let sent =
            || HistoryBuilder::default().sent(0, 0, 0, 0).carried(1, 0, 0, 0, 11).carried(1, 0, 1, 0, 11);
        let yes = || sent().received(2, 0, 0, 0).received(2, 0, 1, 0);
        assert_eq!(0, broken(yes().granted(9, 0, 0, 10)).len());
        assert_eq!(vec![None], broken(yes().granted(10, 0, 0, 10)));
        assert_eq!(vec![None], broken(held().canceled_extension(3, 0, 0).extended(10, 0, 0, 10)));
    }

    #[test]
    fn a_key_lost_during_the_validity_is_a_violation() {
        assert_eq!(vec![Some(Assumption::DataIsKept)], broken(held().lost(5, 0, 0)));
        assert_eq!(0, broken(held().lost(5, 2, 0)).len(), "this server is not counted");
        assert_eq!(0, broken(held().releasing(4, 0, 0).lost(5, 0, 0)).len(), "the lease has ended");
        assert_eq!(0, broken(held().lost(10, 0, 0)).len(), "the lease has ended");
        assert_eq!(vec![None], broken(held().deleted(5, 0, 1, 0)), "the key of a holder was deleted");
        assert_eq!(vec![None], broken(held().carried(5, 0, 1, 0, 9)), "shortened");
    }

    #[test]
    fn an_extension_counts_the_servers_that_granted_it() {
        let extending = || held().extending(4, 0, 0).carried(5, 0, 0, 0, 21).extension_granted(6, 0, 0, 0);
        let extended =
            || extending().carried(5, 0, 2, 0, 21).extension_granted(6, 0, 2, 0).extended(6, 0, 0, 20);
        assert_eq!(0, broken(extended()).len());
        assert_eq!(0, broken(extended().lost(7, 1, 0)).len(), "1 had not reply yes again");
        assert_eq!(vec![None], broken(extending().extended(6, 0, 0, 20)), "one grant is no quorum");
        let both = extending().extension_granted(6, 0, 2, 0).extended(6, 0, 0, 20);
        assert_eq!(vec![None], broken(both), "a grant that did not move the expiry");
    }

    #[test]
    fn keys_outlive_the_time_for_which_a_lock_is_kept() {
        let keeping = || held().keeping(4, 0, 0).carried(5, 0, 0, 0, 31).keep_granted(6, 0, 0, 0);
        // Server 2 has replied to no earlier request.
        let kept = || keeping().carried(5, 0, 2, 0, 31).keep_granted(6, 0, 2, 0).kept(6, 0, 0, 30);
        assert_eq!(0, broken(kept()).len());
        assert_eq!(0, broken(kept().lost(30, 0, 0)).len());
        assert_eq!(vec![None], broken(keeping().kept(6, 0, 0, 30)), "one server is no quorum");
        assert_eq!(vec![None], broken(kept().killed(7, 0).carried(8, 0, 0, 0, 20)), "shortened");
        assert_eq!(vec![None], broken(kept().deleted(29, 0, 2, 0)), "released");
    }

    #[test]
    fn an_expired_lease_is_not_revived() {
        let extending = || held().extending(9, 0, 0).carried(9, 0, 0, 0, 21).carried(9, 0, 1, 0, 21);
        assert_eq!(0, broken(extending().extended(9, 0, 0, 20)).len());
        assert_eq!(vec![None], broken(extending().extended(10, 0, 0, 20)));
        assert_eq!(
            0,
            broken(held().canceled_extension(5, 0, 0).extended(10, 0, 0, 11)).len(),
            "the outcome is unknown"
        );
    }
}
