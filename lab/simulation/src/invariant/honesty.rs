//! A failure is never reported as contention.
//!
//! A client that gets the result "contended" has received replies from a quorum of servers, with any content. With
//! fewer replies it is an outage. A client that confuses the two waits for a lock that no client holds.
//!
//! The other valid reason is that the client itself holds the lock, as other tasks of its process see it. The lock
//! stays in its local queue until a quorum has replied to its release, or cannot reply any more. No server is involved. The
//! gate of a writer is such a lock, too, and is released after the lock.
//!
//! A single attempt gets the result "contended" only if another client holds the lock: during the request, some token had
//! keys on a quorum of servers. If several clients have split the votes, no client holds the lock.

use std::collections::{BTreeMap, BTreeSet};

use redlock_core::ErrorKind;
use redlock_core::runtime::Instant;
use redlock_testkit::Operation;

use super::{Invariant, Rules, Violation};
use crate::history::{EventKind, FaultKind, History, Place, Reply, Request, TokenNumber};

/// The times until which servers have, or had, a key with a token.
type Keys = BTreeMap<TokenNumber, BTreeMap<usize, Instant>>;

/// The latest request of a client, and its latest attempt.
#[derive(Default)]
struct Attempt {
    /// The beginning of the request, if it makes a single attempt and repeats it only while the votes are split.
    once: Option<Instant>,
    /// The tokens of the request.
    own: BTreeSet<TokenNumber>,
    token: Option<TokenNumber>,
    begun: Option<Instant>,
    /// The servers that have replied, for each token that was first sent at that time. There may be the token of an
    /// attempt that was dropped while it waited for the same connection.
    heard: BTreeMap<TokenNumber, BTreeSet<usize>>,
    /// The servers that have granted, by token.
    granted: BTreeMap<TokenNumber, BTreeSet<usize>>,
    /// The locks being released: the start, and the servers that have replied.
    releases: BTreeMap<TokenNumber, (Instant, BTreeSet<usize>)>,
    /// The releases that were sent again, or only when the connection was there. The lock that is being released may not
    /// have waited for them: a node without a connection counts as one that cannot reply.
    repeated: BTreeSet<u64>,
    /// The servers and tokens of all releases.
    released: BTreeSet<(TokenNumber, usize)>,
    /// The time when the client was last resumed. Time limits do not pass while it is stopped.
    resumed: Option<Instant>,
}

impl Attempt {
    /// Returns whether a lock is still being released.
    fn is_releasing(&self, now: Instant, rules: &Rules) -> bool {
        // The clock of the client may be slow.
        let limit = rules.node_timeout + rules.node_timeout / 50;
        // A client that is resumed has not read the replies that came while it was stopped.
        let is_just_resumed = self.resumed == Some(now);
        let under_way = |(since, answered): &(Instant, BTreeSet<usize>)| {
            let begin = self.resumed.unwrap_or(*since).max(*since);
            (answered.len() < rules.quorum() || is_just_resumed) && now <= begin + limit
        };
        self.releases.values().any(under_way)
    }

    /// Returns whether another client may have held the lock at any time of a single attempt.
    fn may_be_held(&self, keys: &Keys, restored: &BTreeSet<usize>, rules: &Rules) -> bool {
        let Some(start) = self.once else { return true };
        let may_have = |of: &BTreeMap<usize, Instant>| {
            let had = |server: &usize| of.get(server).is_some_and(|until| *until >= start);
            (0..rules.servers).filter(|server| had(server) || restored.contains(server)).count()
                >= rules.quorum()
        };
        keys.iter().any(|(token, of)| !self.own.contains(token) && may_have(of))
    }
}

/// Records the expiry of a key that a server writes, and its deletion. A lost key may come back from an older copy.
fn record_keys(keys: &mut Keys, kind: &EventKind, now: Instant) {
    match *kind {
        EventKind::CarriedOut { request: Request { server, token, .. }, until: Some(until), .. }
        | EventKind::Moved { server, token, until } => {
            keys.entry(token).or_default().insert(server, until);
        }
        EventKind::CarriedOut {
            request: Request { server, token, operation: Operation::Release, .. },
            reply,
            ..
        } if reply.is_grant() => end_key(keys, token, server, now),
        _ => {}
    }
}

fn end_key(keys: &mut Keys, token: TokenNumber, server: usize, now: Instant) {
    if let Some(until) = keys.entry(token).or_default().get_mut(&server) {
        *until = now.min(*until);
    }
}

pub(super) fn check(history: &History, rules: &Rules) -> Vec<Violation> {
    let mut attempts: BTreeMap<usize, Attempt> = BTreeMap::new();
    let mut keys = Keys::new();
    // The servers that got an older copy of their data, with keys that no event names.
    let mut restored = BTreeSet::new();
    let mut violations = Vec::new();
    // Several readers have keys on different servers, and exclude a writer together.
    let has_readers = history.0.iter().any(|event| matches!(event.kind, EventKind::Reads { .. }));
    for (event, entry) in history.0.iter().enumerate() {
        record_keys(&mut keys, &entry.kind, entry.at);
        match entry.kind {
            EventKind::Requested { client, once, .. } => {
                let attempt = attempts.entry(client).or_default();
                attempt.once = once.then_some(entry.at);
                attempt.own.clear();
            }
            EventKind::Sent(Request { client, operation: Operation::Acquire, token, .. }) => {
                let attempt = attempts.entry(client).or_default();
                attempt.own.insert(token);
                // A refill has the token of an older attempt; only the client's last request matters.
                if attempt.token.is_none_or(|latest| latest < token) {
                    if attempt.begun.replace(entry.at) != Some(entry.at) {
                        attempt.heard.clear();
                    }
                    attempt.token = Some(token);
                    attempt.heard.entry(token).or_default();
                }
            }
            EventKind::Received { request, reply }
                if request.operation == Operation::Acquire
                    && !matches!(reply, Reply::Failed | Reply::Uncounted) =>
            {
                let attempt = attempts.entry(request.client).or_default();
                if let Some(heard) = attempt.heard.get_mut(&request.token) {
                    heard.insert(request.server);
                }
                if has_readers && reply.is_grant() {
                    attempt.granted.entry(request.token).or_default().insert(request.server);
                }
            }
            EventKind::Releasing { client, token, .. } | EventKind::Keeping { client, token } => {
                attempts.entry(client).or_default().releases.insert(token, (entry.at, BTreeSet::new()));
            }
            EventKind::Received {
                request: Request { client, server, operation: Operation::Release, token, call },
                reply,
            } if reply != Reply::Failed => {
                let attempt = attempts.entry(client).or_default();
                if let Some((_, answered)) =
                    attempt.releases.get_mut(&token).filter(|_| !attempt.repeated.contains(&call))
                {
                    answered.insert(server);
                }
            }
            EventKind::Sent(Request { client, server, operation: Operation::Release, token, call }) => {
                let attempt = attempts.entry(client).or_default();
                if attempt.granted.get(&token).is_some_and(|by| by.len() >= rules.quorum()) {
                    // No other event states that the gate of a writer is released.
                    attempt.releases.entry(token).or_insert((entry.at, BTreeSet::new()));
                }
                let is_late = attempt.releases.get(&token).is_some_and(|(since, _)| entry.at > *since);
                if !attempt.released.insert((token, server)) || is_late {
                    attempt.repeated.insert(call);
                }
            }
            EventKind::FaultBegins(Place::Server(server), FaultKind::Rollback) => {
                restored.insert(server);
            }
            EventKind::FaultEnds(Place::Client(client), _) => {
                attempts.entry(client).or_default().resumed = Some(entry.at);
            }
            EventKind::NotGranted { client, why: Some(ErrorKind::Contended) } => {
                let attempt = attempts.entry(client).or_default();
                let heard = attempt.heard.values().map(BTreeSet::len).max().unwrap_or(0);
                let description = match () {
                    () if attempt.is_releasing(entry.at, rules) => continue,
                    () if heard < rules.quorum() => {
                        format!("c{client} gets \"contended\" after {heard} replies, fewer than a quorum")
                    }
                    () if !has_readers && !attempt.may_be_held(&keys, &restored, rules) => {
                        format!("c{client} gets \"contended\", and no other client had keys on a quorum")
                    }
                    () => continue,
                };
                let (invariant, tokens) = (Invariant::Honesty, attempt.token.into_iter().collect());
                violations.push(Violation { invariant, broken: None, description, tokens, event });
            }
            _ => {}
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::history_builder::HistoryBuilder;
    use super::*;

    fn violations(builder: HistoryBuilder) -> usize {
        let node_timeout = Duration::from_millis(200);
        let rules = Rules {
            servers: 3,
            node_timeout,
            settled_after: Duration::ZERO,
            admission: false,
            watches_clocks: false,
            changes_nodes: false,
        };
        check(&builder.history(), &rules).len()
    }

    #[test]
    fn a_released_lock_stays_in_the_local_queue_until_a_quorum_has_replied() {
        let drops = || HistoryBuilder::default().sent(0, 0, 0, 0).granted(1, 0, 0, 99).releasing(10, 0, 0);
        assert_eq!(0, violations(drops().contended(200, 0)));
        assert_eq!(1, violations(drops().contended(215, 0)), "the round must have ended");
        assert_eq!(1, violations(drops().contended(20, 1)), "another client released the lock");
        let one = || drops().release_received(12, 0, 0, 0);
        assert_eq!(0, violations(one().contended(20, 0)));
        assert_eq!(
            1,
            violations(one().release_received(12, 0, 1, 0).contended(20, 0)),
            "the lock has left the queue"
        );
    }

    #[test]
    fn a_gate_stays_in_the_local_queue_until_a_quorum_has_replied() {
        let gate = |servers| {
            let builder = HistoryBuilder::default().reader(1, 1, 7, 9);
            let builder = (0..servers)
                .fold(builder, |builder, server| builder.sent(10, 0, server, 0).received(11, 0, server, 0));
            builder.sent(20, 0, 0, 1).sent_release(30, 0, 0, 0)
        };
        assert_eq!(0, violations(gate(2).contended(230, 0)));
        assert_eq!(1, violations(gate(2).contended(245, 0)), "the round must have ended");
        assert_eq!(
            1,
            violations(gate(1).contended(230, 0)),
            "the release of an attempt that was not granted"
        );
    }

    #[test]
    fn a_single_attempt_is_contended_only_if_another_client_has_a_quorum() {
        // Two of three servers have replied. Client 1 has keys on the servers 0 and 1.
        let keys = |builder: HistoryBuilder| builder.carried(2, 1, 0, 7, 900).carried(3, 1, 1, 7, 900);
        let denied = |builder: HistoryBuilder| {
            let builder =
                builder.requested_once(10, 0, 500).sent(10, 0, 0, 9).sent(10, 0, 1, 9).sent(10, 0, 2, 9);
            let all = (0..3).fold(builder, |builder, server| builder.received(12, 0, server, 9));
            all.contended(13, 0)
        };
        assert_eq!(0, violations(denied(keys(HistoryBuilder::default()))));
        let split = HistoryBuilder::default().carried(2, 1, 0, 7, 900).carried(3, 2, 1, 8, 900);
        assert_eq!(1, violations(denied(split)));
        let released = keys(HistoryBuilder::default()).deleted(5, 1, 0, 7);
        assert_eq!(1, violations(denied(released)), "before the request");
        let released = keys(HistoryBuilder::default()).deleted(11, 1, 0, 7);
        assert_eq!(0, violations(denied(released)), "during the request");
        let own = HistoryBuilder::default().requested_once(1, 0, 500).sent(1, 0, 0, 9);
        let own =
            own.carried(2, 0, 0, 9, 900).carried(3, 0, 1, 9, 900).received(4, 0, 0, 9).received(4, 0, 1, 9);
        assert_eq!(
            1,
            violations(own.contended(13, 0)),
            "an earlier attempt of the request is no other client"
        );
    }

    #[test]
    fn contention_requires_replies_of_a_quorum() {
        let sent = || HistoryBuilder::default().sent(0, 0, 0, 0).received(1, 0, 0, 0);
        assert_eq!(0, violations(sent().received(2, 0, 1, 0).contended(3, 0)));
        assert_eq!(1, violations(sent().contended(3, 0)));
        assert_eq!(0, violations(sent().not_granted(3, 0)), "an outage is reported as an outage");
        let again = sent().received(2, 0, 1, 0).sent(3, 0, 0, 1);
        assert_eq!(1, violations(again.contended(4, 0)), "the replies belong to the earlier attempt");
    }
}
