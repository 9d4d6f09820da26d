//! A failure is never reported as contention.
//!
//! A client that gets the result "contended" has received replies from a quorum of servers, with any content. With
//! fewer replies it is an outage. A client that confuses the two waits for a lock that no client holds.
//!
//! The other valid reason is that the client itself holds the lock, as other tasks of its process see it. The lock
//! stays in its local queue until a quorum has replied to its release, or cannot reply any more. No server is involved.

use std::collections::{BTreeMap, BTreeSet};

use redlock_core::ErrorKind;
use redlock_core::runtime::Instant;
use redlock_testkit::Operation;

use super::{Invariant, Rules, Violation};
use crate::history::{EventKind, History, Reply, Request, TokenNumber};

/// The latest attempt of a client.
#[derive(Default)]
struct Attempt {
    token: Option<TokenNumber>,
    begun: Option<Instant>,
    /// The servers that have replied, for each token that was first sent at that time. There may be the token of an
    /// attempt that was dropped while it waited for the same connection.
    heard: BTreeMap<TokenNumber, BTreeSet<usize>>,
    /// The locks being released: the start, and the servers that have replied.
    releases: BTreeMap<TokenNumber, (Instant, BTreeSet<usize>)>,
}

impl Attempt {
    /// Returns whether a lock is still being released.
    fn is_releasing(&self, now: Instant, rules: &Rules) -> bool {
        // The clock of the client may be slow.
        let limit = rules.node_timeout + rules.node_timeout / 50;
        let under_way = |(since, answered): &(Instant, BTreeSet<usize>)| {
            answered.len() < rules.quorum() && now <= *since + limit
        };
        self.releases.values().any(under_way)
    }
}

pub(super) fn check(history: &History, rules: &Rules) -> Vec<Violation> {
    let mut attempts: BTreeMap<usize, Attempt> = BTreeMap::new();
    let mut violations = Vec::new();
    for (event, entry) in history.0.iter().enumerate() {
        match entry.kind {
            EventKind::Sent(Request { client, operation: Operation::Acquire, token, .. }) => {
                let attempt = attempts.entry(client).or_default();
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
            }
            EventKind::Releasing { client, token, .. } | EventKind::Keeping { client, token } => {
                attempts.entry(client).or_default().releases.insert(token, (entry.at, BTreeSet::new()));
            }
            EventKind::Received {
                request: Request { client, server, operation: Operation::Release, token, .. },
                reply,
            } if reply != Reply::Failed => {
                let attempt = attempts.entry(client).or_default();
                if let Some((_, answered)) = attempt.releases.get_mut(&token) {
                    answered.insert(server);
                }
            }
            EventKind::NotGranted { client, why: Some(ErrorKind::Contended) } => {
                let attempt = attempts.entry(client).or_default();
                let heard = attempt.heard.values().map(BTreeSet::len).max().unwrap_or(0);
                if heard < rules.quorum() && !attempt.is_releasing(entry.at, rules) {
                    let description =
                        format!("c{client} gets \"contended\" after {heard} replies, fewer than a quorum");
                    let (invariant, tokens) = (Invariant::Honesty, attempt.token.into_iter().collect());
                    violations.push(Violation { invariant, broken: None, description, tokens, event });
                }
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
        let rules = Rules { servers: 3, node_timeout, settled_after: Duration::ZERO, admission: false };
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
    fn contention_requires_replies_of_a_quorum() {
        let sent = || HistoryBuilder::default().sent(0, 0, 0, 0).received(1, 0, 0, 0);
        assert_eq!(0, violations(sent().received(2, 0, 1, 0).contended(3, 0)));
        assert_eq!(1, violations(sent().contended(3, 0)));
        assert_eq!(0, violations(sent().not_granted(3, 0)), "an outage is reported as an outage");
        let again = sent().received(2, 0, 1, 0).sent(3, 0, 0, 1);
        assert_eq!(1, violations(again.contended(4, 0)), "the replies belong to the earlier attempt");
    }
}
