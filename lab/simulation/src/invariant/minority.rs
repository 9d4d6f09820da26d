//! I9: no client waits for a minority.
//!
//! A client that has grants from a quorum gets its result at that moment: in simulated time code takes none, so any
//! delay is a wait for a server. Regardless of the servers, one round ends within the node timeout. A client that is
//! stopped meanwhile is exempt.
//!
//! A fenced lock takes a second round if the counters of the first one differ. The client then gets its result at the
//! latest when a quorum has confirmed its fencing token.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redlock_core::FencingToken;
use redlock_core::runtime::Instant;
use redlock_testkit::Operation;

use super::{Invariant, Rules, Violation};
use crate::history::{Answer, History, Place, Request, TokenNumber, Trouble, What};

#[derive(Default)]
struct Client {
    /// The start and the time limit of the round that it waits for; `None` for several rounds.
    round: Option<(Instant, Duration)>,
    /// The calls of the current extension round.
    extending: BTreeSet<u64>,
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
        let Some(number) = whose(&entry.what) else { continue };
        let client = clients.entry(number).or_default();
        let Some((what, token)) = client.apply(&entry.what, entry.at, rules) else { continue };
        let (what, tokens) = (format!("c{number} {what}"), token.into_iter().collect());
        violations.push(Violation { invariant: Invariant::Minority, broken: None, what, tokens, event });
    }
    violations
}

fn whose(what: &What) -> Option<usize> {
    match *what {
        What::Requested { client, .. }
        | What::Granted { client, .. }
        | What::NotGranted { client, .. }
        | What::Extending { client, .. }
        | What::Extended { client, .. }
        | What::NotExtended { client, .. }
        | What::Releasing { client, .. }
        | What::Released { client, .. }
        | What::Sent(Request { client, .. })
        | What::Received { request: Request { client, .. }, .. }
        | What::Strikes(Place::Client(client), _)
        | What::Passes(Place::Client(client), _) => Some(client),
        _ => None,
    }
}

impl Client {
    /// Returns a description of a violation.
    fn apply(&mut self, what: &What, at: Instant, rules: &Rules) -> Option<(String, Option<TokenNumber>)> {
        match *what {
            What::Requested { once, ttl, fenced, .. } => {
                let rounds = if fenced { 2 } else { 1 };
                self.round = once.then(|| (at, rounds * rules.node_timeout.min(ttl / 2)));
                None
            }
            What::Extending { token, ttl, .. } => {
                self.extending.clear();
                self.extends = Some((at, token));
                self.yes.remove(&(token, true));
                self.won.remove(&(token, true));
                self.round = Some((at, rules.node_timeout.min(ttl / 2)));
                None
            }
            What::Releasing { waits, .. } => {
                self.round = waits.then_some((at, rules.node_timeout));
                None
            }
            What::Sent(Request { operation: Operation::Extend, call, .. }) => {
                self.extending.insert(call);
                None
            }
            // A late confirmation may be in flight too; those of an extension are sent at its beginning.
            What::Sent(Request { operation: Operation::Confirm, call, token, .. })
                if self.extends == Some((at, token)) && self.granted.contains(&token) =>
            {
                self.extending.insert(call);
                None
            }
            What::Received {
                request: Request { server, operation: Operation::Acquire, token, .. },
                said: Answer::Counted(counter),
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
            What::Received {
                request: Request { server, operation: Operation::Confirm, token, .. },
                said: Answer::Granted,
            } if !self.granted.contains(&token) => {
                let confirmed = self.confirmed.entry(token).or_default();
                if confirmed.insert(server) && confirmed.len() == rules.quorum() {
                    self.won.entry((token, false)).or_insert(at);
                }
                None
            }
            // A dropped extension continues; its replies do not count for the next one.
            What::Received {
                request: Request { server, operation, token, call, .. },
                said: Answer::Granted,
            } if operation == Operation::Acquire || self.extending.contains(&call) => {
                let round = (token, matches!(operation, Operation::Extend | Operation::Confirm));
                let yes = self.yes.entry(round).or_default();
                if yes.insert(server) && yes.len() == rules.quorum() {
                    self.won.insert(round, at);
                }
                None
            }
            What::Granted { token, .. } => {
                self.granted.insert(token);
                self.told(at, (token, false)).or(self.ended(at, Some(token)))
            }
            What::Extended { token, .. } => self.told(at, (token, true)).or(self.ended(at, Some(token))),
            What::NotExtended { token, .. } | What::Released { token, .. } => self.ended(at, Some(token)),
            What::NotGranted { .. } => self.ended(at, None),
            What::Strikes(_, Trouble::Kill) => {
                self.round = None;
                None
            }
            What::Strikes(..) | What::Passes(..) => {
                self.stopped = Some(at);
                self.is_stopped = matches!(what, What::Strikes(..));
                None
            }
            _ => None,
        }
    }

    /// Checks the delay of a successful result.
    fn told(&self, at: Instant, round: (TokenNumber, bool)) -> Option<(String, Option<TokenNumber>)> {
        let won = *self.won.get(&round)?;
        let could = self.stopped.map_or(won, |stopped| stopped.max(won));
        let waited = at.saturating_duration_since(could);
        (!waited.is_zero()).then(|| (format!("had a quorum for {waited:?} and was not told"), Some(round.0)))
    }

    /// Checks that a round has ended in time, by a clock that may be slow.
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
    use super::super::story::Story;
    use super::*;

    fn violations(story: Story) -> usize {
        let node_timeout = Duration::from_millis(200);
        check(&story.history(), &Rules { servers: 3, node_timeout, settled_after: Duration::ZERO }).len()
    }

    #[test]
    fn who_has_a_quorum_is_told_at_once() {
        let won = || Story::default().received(5, 0, 0, 0).received(7, 0, 1, 0);
        assert_eq!(0, violations(won().granted(7, 0, 0, 99)));
        assert_eq!(1, violations(won().granted(8, 0, 0, 99)));
        assert_eq!(1, violations(won().received(8, 0, 2, 0).granted(8, 0, 0, 99)), "waited for the third");
        let stopped = |place| Story::default().paused(6, place).received(7, 0, 1, 0).resumed(50, place);
        assert_eq!(0, violations(stopped(0).received(5, 0, 0, 0).granted(50, 0, 0, 99)));
    }

    #[test]
    fn a_fenced_claim_is_told_when_its_token_is_settled() {
        let equal = || Story::default().hears_counter(5, 0, 0, 0, 9).hears_counter(7, 0, 1, 0, 9);
        assert_eq!(0, violations(equal().fenced(7, 0, 0, 9)));
        assert_eq!(1, violations(equal().fenced(8, 0, 0, 9)));
        let differ = || Story::default().hears_counter(5, 0, 0, 0, 9).hears_counter(7, 0, 1, 0, 8);
        let confirmed = || differ().hears_confirmed(9, 0, 0, 0).hears_confirmed(10, 0, 2, 0);
        assert_eq!(0, violations(confirmed().fenced(10, 0, 0, 9)));
        assert_eq!(1, violations(confirmed().fenced(11, 0, 0, 9)));
        let third = |story: Story| story.hears_counter(8, 0, 2, 0, 10).hears_confirmed(60, 0, 0, 0);
        let confirmed = |story| third(story).hears_confirmed(60, 0, 1, 0).fenced(60, 0, 0, 10);
        assert_eq!(1, violations(confirmed(equal())), "the third came too late to matter");
        let stopped = equal().paused(6, 0).resumed(50, 0);
        assert_eq!(0, violations(confirmed(stopped)), "it has seen all three at once");
        let tries = || Story::default().tries_fenced(0, 0, 1_000);
        assert_eq!(
            (0, 1),
            (violations(tries().not_granted(400, 0)), violations(tries().not_granted(420, 0)))
        );
    }

    #[test]
    fn every_extension_has_a_quorum_of_its_own() {
        let asked = || {
            Story::default().extending(1, 0, 0).sent_extension(1, 0, 0, 0, 7).sent_extension(1, 0, 1, 0, 8)
        };
        let won = || asked().extended_yes_to(5, 0, 0, 0, 7).extended_yes_to(6, 0, 1, 0, 8);
        assert_eq!(0, violations(won().extended(6, 0, 0, 99)));
        assert_eq!(1, violations(won().extended(7, 0, 0, 99)));
        let again = asked().extended_yes_to(5, 0, 0, 0, 7).extending(5, 0, 0).sent_extension(5, 0, 1, 0, 9);
        let later = again.extended_yes_to(6, 0, 1, 0, 8).extended_yes_to(9, 0, 1, 0, 9);
        assert_eq!(0, violations(later.extended(9, 0, 0, 99)), "8 was given up");
    }

    #[test]
    fn one_round_ends_in_time() {
        let tries = || Story::default().tries(0, 0, 1_000);
        assert_eq!(0, violations(tries().not_granted(200, 0)));
        assert_eq!(1, violations(tries().not_granted(206, 0)));
        assert_eq!(
            1,
            violations(Story::default().tries(0, 0, 100).not_granted(60, 0)),
            "half of a short TTL"
        );
        assert_eq!(0, violations(Story::default().asked(0, 0).not_granted(900, 0)), "several rounds");
        assert_eq!(0, violations(tries().paused(5, 0).resumed(500, 0).not_granted(600, 0)));
        assert_eq!(1, violations(Story::default().releasing(0, 0, 0).released(300, 0, 0)));
    }
}
