//! I9: no client waits for a minority.
//!
//! A client that has grants from a quorum gets its result at that moment. Code takes no simulated time, so any delay is a
//! wait for a server. Regardless of the servers, one round ends within the node timeout. A client that is stopped
//! meanwhile is exempt.
//!
//! A fenced lock takes a second round if the counters of the first one differ. The client then gets its result at the
//! latest when a quorum has confirmed its fencing token.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redlock_core::FencingToken;
use redlock_core::runtime::Instant;
use redlock_testkit::Operation;

use super::{Invariant, Rules, Violation};
use crate::history::{EventKind, FaultKind, History, Place, Reply, Request, TokenNumber};

/// The greatest number of attempts of a request for a single attempt, which is repeated while the votes are split.
const MAX_ATTEMPTS: u32 = 13;

#[derive(Default)]
struct Client {
    /// The start and the time limit of the round that it waits for; `None` for several rounds.
    round: Option<(Instant, Duration)>,
    /// The token of the latest attempt. A single attempt is repeated with another token if the votes were split.
    latest: Option<TokenNumber>,
    /// The number of attempts of the request.
    attempts: u32,
    /// The calls since the beginning of the current extension round that have no grant, each with its server.
    extending: BTreeMap<u64, usize>,
    yes: BTreeMap<(TokenNumber, bool), BTreeSet<usize>>,
    /// The time when a quorum was reached; `true` for an extension.
    won: BTreeMap<(TokenNumber, bool), Instant>,
    /// The counters in the replies to its fenced claims.
    counters: BTreeMap<TokenNumber, BTreeMap<usize, FencingToken>>,
    /// The servers that have confirmed the tokens of claims that are not granted yet.
    confirmed: BTreeMap<TokenNumber, BTreeSet<usize>>,
    /// The start and the token of the extension.
    extends: Option<(Instant, TokenNumber)>,
    /// The granted tokens.
    granted: BTreeSet<TokenNumber>,
    /// The time when it was last stopped or resumed.
    stopped: Option<Instant>,
    is_stopped: bool,
}

pub(super) fn check(history: &History, rules: &Rules) -> Vec<Violation> {
    let mut clients: BTreeMap<usize, Client> = BTreeMap::new();
    let mut violations = Vec::new();
    for (event, entry) in history.0.iter().enumerate() {
        let Some(number) = client_of(&entry.kind) else { continue };
        let client = clients.entry(number).or_default();
        let Some((description, token)) = client.apply(&entry.kind, entry.at, rules) else { continue };
        let (description, tokens) = (format!("c{number} {description}"), token.into_iter().collect());
        violations.push(Violation {
            invariant: Invariant::Minority,
            broken: None,
            description,
            tokens,
            event,
        });
    }
    violations
}

fn client_of(kind: &EventKind) -> Option<usize> {
    match *kind {
        EventKind::Requested { client, .. }
        | EventKind::Granted { client, .. }
        | EventKind::NotGranted { client, .. }
        | EventKind::Extending { client, .. }
        | EventKind::Extended { client, .. }
        | EventKind::NotExtended { client, .. }
        | EventKind::Releasing { client, .. }
        | EventKind::Released { client, .. }
        | EventKind::Sent(Request { client, .. })
        | EventKind::Received { request: Request { client, .. }, .. }
        | EventKind::FaultBegins(Place::Client(client), _)
        | EventKind::FaultEnds(Place::Client(client), _) => Some(client),
        _ => None,
    }
}

impl Client {
    /// Returns a description of a violation.
    fn apply(
        &mut self,
        kind: &EventKind,
        at: Instant,
        rules: &Rules,
    ) -> Option<(String, Option<TokenNumber>)> {
        match *kind {
            EventKind::Requested { once, ttl, fenced, .. } => {
                let rounds = if fenced { 2 } else { 1 };
                self.round = once.then(|| (at, rounds * rules.node_timeout.min(ttl / 2)));
                self.attempts = 0;
                None
            }
            EventKind::Extending { token, ttl, .. } => {
                self.extending.clear();
                self.extends = Some((at, token));
                self.yes.remove(&(token, true));
                self.won.remove(&(token, true));
                self.round = Some((at, rules.node_timeout.min(ttl / 2)));
                None
            }
            EventKind::Releasing { waits, .. } => {
                self.round = waits.then_some((at, rules.node_timeout));
                None
            }
            EventKind::Sent(Request { operation: Operation::Acquire, token, .. })
                if self.latest < Some(token) =>
            {
                self.latest = Some(token);
                self.attempts += 1;
                let is_bounded = self.attempts <= MAX_ATTEMPTS || self.round.is_none();
                self.round = self.round.map(|(_, limit)| (at, limit));
                (!is_bounded).then(|| ("repeats a single attempt without end".to_owned(), Some(token)))
            }
            EventKind::Sent(Request { operation: Operation::Extend, call, server, .. }) => {
                self.extending.insert(call, server);
                None
            }
            // A late confirmation may be in flight too. The confirmations of an extension are sent at its beginning.
            EventKind::Sent(Request { operation: Operation::Confirm, call, server, token, .. })
                if self.extends == Some((at, token)) && self.granted.contains(&token) =>
            {
                self.extending.insert(call, server);
                None
            }
            EventKind::Received {
                request: Request { server, operation: Operation::Acquire, token, .. },
                reply: Reply::Counted(counter),
            } => {
                let counters = self.counters.entry(token).or_default();
                counters.insert(server, counter);
                let equal = counters.values().all(|other| *other == counter);
                // A stopped client sees the replies that arrive meanwhile at once, in any order.
                if self.is_stopped && !equal {
                    self.won.remove(&(token, false));
                }
                if counters.len() == rules.quorum() && equal {
                    self.won.entry((token, false)).or_insert(at);
                }
                None
            }
            EventKind::Received {
                request: Request { server, operation: Operation::Confirm, token, .. },
                reply: Reply::Granted,
            } if !self.granted.contains(&token) => {
                let confirmed = self.confirmed.entry(token).or_default();
                if confirmed.insert(server) && confirmed.len() == rules.quorum() {
                    self.won.entry((token, false)).or_insert(at);
                }
                None
            }
            // A dropped extension continues; its replies do not count for the next one.
            EventKind::Received {
                request: Request { server, operation, token, call, .. },
                reply: Reply::Granted,
            } if operation == Operation::Acquire || self.extending.remove(&call).is_some() => {
                // Of two calls to one server, one is of an earlier round, and was sent late.
                if self.extending.values().any(|other| *other == server) {
                    return None;
                }
                let round = (token, matches!(operation, Operation::Extend | Operation::Confirm));
                let yes = self.yes.entry(round).or_default();
                if yes.insert(server) && yes.len() == rules.quorum() {
                    self.won.insert(round, at);
                }
                None
            }
            EventKind::Granted { token, .. } => {
                self.granted.insert(token);
                self.result_is_late(at, (token, false)).or(self.ended(at, Some(token)))
            }
            EventKind::Extended { token, .. } => {
                self.result_is_late(at, (token, true)).or(self.ended(at, Some(token)))
            }
            EventKind::NotExtended { token, .. } | EventKind::Released { token, .. } => {
                self.ended(at, Some(token))
            }
            EventKind::NotGranted { .. } => self.ended(at, None),
            EventKind::FaultBegins(_, FaultKind::Kill) => {
                self.round = None;
                None
            }
            EventKind::FaultBegins(..) | EventKind::FaultEnds(..) => {
                self.stopped = Some(at);
                self.is_stopped = matches!(kind, EventKind::FaultBegins(..));
                None
            }
            _ => None,
        }
    }

    /// Checks the delay of a successful result.
    fn result_is_late(
        &self,
        at: Instant,
        round: (TokenNumber, bool),
    ) -> Option<(String, Option<TokenNumber>)> {
        let won = *self.won.get(&round)?;
        let could = self.stopped.map_or(won, |stopped| stopped.max(won));
        let waited = at.saturating_duration_since(could);
        (!waited.is_zero())
            .then(|| (format!("returned no result for {waited:?} after a quorum"), Some(round.0)))
    }

    /// Checks that a round has ended in time. The clock of the client may be slow.
    fn ended(&mut self, at: Instant, token: Option<TokenNumber>) -> Option<(String, Option<TokenNumber>)> {
        let (begun, limit) = self.round.take()?;
        if self.stopped.is_some_and(|stopped| stopped >= begun) {
            return None;
        }
        let took = at.saturating_duration_since(begun);
        let slack = limit / 50 + Duration::from_millis(1);
        (took > limit + slack)
            .then(|| (format!("waited {took:?} for one round, which may take {limit:?}"), token))
    }
}

#[cfg(test)]
mod tests {
    use super::super::history_builder::HistoryBuilder;
    use super::*;

    fn violations(builder: HistoryBuilder) -> usize {
        let node_timeout = Duration::from_millis(200);
        check(
            &builder.history(),
            &Rules {
                servers: 3,
                node_timeout,
                settled_after: Duration::ZERO,
                admission: false,
                watches_clocks: false,
                changes_nodes: false,
            },
        )
        .len()
    }

    #[test]
    fn a_quorum_ends_a_round_at_once() {
        let won = || HistoryBuilder::default().received(5, 0, 0, 0).received(7, 0, 1, 0);
        assert_eq!(0, violations(won().granted(7, 0, 0, 99)));
        assert_eq!(1, violations(won().granted(8, 0, 0, 99)));
        assert_eq!(
            1,
            violations(won().received(8, 0, 2, 0).granted(8, 0, 0, 99)),
            "the client waited for the third reply"
        );
        let stopped =
            |place| HistoryBuilder::default().paused(6, place).received(7, 0, 1, 0).resumed(50, place);
        assert_eq!(0, violations(stopped(0).received(5, 0, 0, 0).granted(50, 0, 0, 99)));
    }

    #[test]
    fn a_fenced_round_ends_when_its_token_is_certain() {
        let equal =
            || HistoryBuilder::default().counter_received(5, 0, 0, 0, 9).counter_received(7, 0, 1, 0, 9);
        assert_eq!(0, violations(equal().fenced(7, 0, 0, 9)));
        assert_eq!(1, violations(equal().fenced(8, 0, 0, 9)));
        let differ =
            || HistoryBuilder::default().counter_received(5, 0, 0, 0, 9).counter_received(7, 0, 1, 0, 8);
        let confirmed = || differ().confirmation_received(9, 0, 0, 0).confirmation_received(10, 0, 2, 0);
        assert_eq!(0, violations(confirmed().fenced(10, 0, 0, 9)));
        assert_eq!(1, violations(confirmed().fenced(11, 0, 0, 9)));
        let third = |builder: HistoryBuilder| {
            builder.counter_received(8, 0, 2, 0, 10).confirmation_received(60, 0, 0, 0)
        };
        let confirmed = |builder| third(builder).confirmation_received(60, 0, 1, 0).fenced(60, 0, 0, 10);
        assert_eq!(1, violations(confirmed(equal())), "the third reply was not needed");
        let stopped = equal().paused(6, 0).resumed(50, 0);
        assert_eq!(0, violations(confirmed(stopped)), "the client received all three replies at once");
        let requested_once = || HistoryBuilder::default().requested_fenced(0, 0, 1_000);
        assert_eq!(
            (0, 1),
            (
                violations(requested_once().not_granted(400, 0)),
                violations(requested_once().not_granted(420, 0))
            )
        );
    }

    #[test]
    fn every_extension_needs_a_separate_quorum() {
        let extending = || {
            HistoryBuilder::default()
                .extending(1, 0, 0)
                .sent_extension(1, 0, 0, 0, 7)
                .sent_extension(1, 0, 1, 0, 8)
        };
        let won = || extending().extension_granted_to(5, 0, 0, 0, 7).extension_granted_to(6, 0, 1, 0, 8);
        assert_eq!(0, violations(won().extended(6, 0, 0, 99)));
        assert_eq!(1, violations(won().extended(7, 0, 0, 99)));
        let again =
            extending().extension_granted_to(5, 0, 0, 0, 7).extending(5, 0, 0).sent_extension(5, 0, 1, 0, 9);
        let later = again.extension_granted_to(6, 0, 1, 0, 8).extension_granted_to(9, 0, 1, 0, 9);
        assert_eq!(0, violations(later.extended(9, 0, 0, 99)), "8 was given up");
    }

    #[test]
    fn a_call_of_an_earlier_extension_that_was_sent_late_does_not_count() {
        let both = || {
            let sent = HistoryBuilder::default().extending(1, 0, 0).sent_extension(1, 0, 0, 0, 7);
            sent.sent_extension(3, 0, 1, 0, 8).sent_extension(3, 0, 1, 0, 9)
        };
        let one = || both().extension_granted_to(5, 0, 0, 0, 7).extension_granted_to(6, 0, 1, 0, 8);
        assert_eq!(0, violations(one().extension_granted_to(7, 0, 1, 0, 9).extended(7, 0, 0, 99)));
        assert_eq!(1, violations(one().extension_granted_to(7, 0, 1, 0, 9).extended(8, 0, 0, 99)));
    }

    #[test]
    fn one_round_ends_in_time() {
        let requested_once = || HistoryBuilder::default().requested_once(0, 0, 1_000);
        assert_eq!(0, violations(requested_once().not_granted(200, 0)));
        assert_eq!(1, violations(requested_once().not_granted(206, 0)));
        assert_eq!(
            1,
            violations(HistoryBuilder::default().requested_once(0, 0, 100).not_granted(60, 0)),
            "half of a short TTL"
        );
        assert_eq!(
            0,
            violations(HistoryBuilder::default().requested(0, 0).not_granted(900, 0)),
            "several rounds"
        );
        assert_eq!(0, violations(requested_once().paused(5, 0).resumed(500, 0).not_granted(600, 0)));
        assert_eq!(1, violations(HistoryBuilder::default().releasing(0, 0, 0).released(300, 0, 0)));
    }
}
