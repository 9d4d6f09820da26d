//! I2, I3, I4: fencing tokens are unique and increase in the order of grants, and a newer one ends extensions of older
//! ones.
//!
//! These checks use only the results of clients and their times, not locks or clocks. Two leases may be valid at once,
//! and one of them is still the newer. A grant begins when the first request with its token is sent, which may be long
//! after the client began to wait. An extension must begin before the report of a newer grant to succeed. After that
//! report, no quorum of servers counts for the older claim, even if its client does not know of the newer grant.

use std::collections::{BTreeMap, BTreeSet};

use redlock_core::FencingToken;
use redlock_testkit::Operation;

use super::{Invariant, Rules, Violation, forgotten};
use crate::history::{EventKind, History, Request, TokenNumber};

#[derive(Default)]
struct Claim {
    /// The first event about it.
    begun: Option<usize>,
    /// The fencing token, once it is granted.
    fence: Option<FencingToken>,
    resources: Vec<usize>,
    /// The event that began the latest extension.
    extending: usize,
    /// The first newer claim that was reported, with the event of the report.
    newer: Option<(usize, TokenNumber)>,
    /// The servers that have counted for it since.
    counted: BTreeSet<usize>,
}

/// The reported grants of one resource.
#[derive(Default)]
struct Grants {
    by_fence: BTreeMap<FencingToken, TokenNumber>,
    /// The greatest token at each event at which it grew.
    greatest: Vec<(usize, FencingToken, TokenNumber)>,
}

#[derive(Default)]
struct Checker {
    claims: BTreeMap<TokenNumber, Claim>,
    resources: BTreeMap<usize, Grants>,
}

pub(super) fn check(history: &History, rules: &Rules) -> Vec<Violation> {
    let mut checker = Checker::default();
    let mut violations = Vec::new();
    for (event, entry) in history.0.iter().enumerate() {
        for (invariant, tokens, description) in checker.apply(&entry.kind, event, rules) {
            let broken = forgotten(history, event);
            violations.push(Violation { invariant, broken, description, tokens: tokens.to_vec(), event });
        }
    }
    violations
}

type Found = (Invariant, [TokenNumber; 2], String);

impl Checker {
    fn apply(&mut self, kind: &EventKind, event: usize, rules: &Rules) -> Vec<Found> {
        match kind {
            EventKind::Sent(Request { token, .. }) => {
                self.claims.entry(*token).or_default().begun.get_or_insert(event);
            }
            EventKind::Granted { client, resources, token, fence: Some(fence), .. } => {
                let claim = self.claims.entry(*token).or_default();
                claim.fence = Some(*fence);
                claim.resources.clone_from(resources);
                let begun = *claim.begun.get_or_insert(event);
                return self.granted(*client, *token, *fence, begun, event);
            }
            EventKind::Extending { token, .. } => {
                self.claims.entry(*token).or_default().extending = event;
            }
            EventKind::Extended { client, token, .. } => {
                return self.extended(*client, *token).into_iter().collect();
            }
            EventKind::CarriedOut {
                request: Request { client, server, operation, token, .. },
                until: Some(_),
                reply,
                ..
            } if matches!(operation, Operation::Confirm | Operation::Extend) && reply.is_grant() => {
                return self.counted(*client, *server, *token, rules).into_iter().collect();
            }
            _ => {}
        }
        Vec::new()
    }

    fn granted(
        &mut self,
        client: usize,
        token: TokenNumber,
        fence: FencingToken,
        begun: usize,
        event: usize,
    ) -> Vec<Found> {
        let mut found = Vec::new();
        for resource in self.claims[&token].resources.clone() {
            let grants = self.resources.entry(resource).or_default();
            if let Some(other) = grants.by_fence.insert(fence, token).filter(|other| *other != token) {
                let description = format!(
                    "r{resource} as {token} of c{client} and as {other} has the fencing token {fence}"
                );
                found.push((Invariant::Unique, [other, token], description));
            }
            if let Some((before, other)) = grants.greatest_at(begun).filter(|(before, _)| *before > fence) {
                let description = format!(
                    "c{client} acquires r{resource} as {token} with fencing token {fence}, after {other} with {before}"
                );
                found.push((Invariant::Order, [other, token], description));
            }
            if grants.greatest.last().is_none_or(|(_, greatest, _)| fence > *greatest) {
                grants.greatest.push((event, fence, token));
            }
            for older in self.claims.values_mut().filter(|claim| claim.is_older(resource, fence)) {
                older.newer.get_or_insert((event, token));
            }
            if let Some((_, newest, other)) = grants.greatest.last() {
                if *newest > fence {
                    let newer = (event, *other);
                    self.claims.entry(token).or_default().newer.get_or_insert(newer);
                }
            }
        }
        found
    }

    /// Checks the report of an extension.
    fn extended(&self, client: usize, token: TokenNumber) -> Option<Found> {
        let claim = self.claims.get(&token)?;
        let (since, newer) = claim.newer.filter(|(since, _)| *since < claim.extending)?;
        let description =
            format!("c{client} has extended {token}, begun after {newer} was granted (event {since})");
        Some((Invariant::Supersession, [newer, token], description))
    }

    /// Checks a confirmation or extension on a server.
    fn counted(&mut self, client: usize, server: usize, token: TokenNumber, rules: &Rules) -> Option<Found> {
        let claim = self.claims.get_mut(&token)?;
        let (_, newer) = claim.newer?;
        if !claim.counted.insert(server) || claim.counted.len() != rules.quorum() {
            return None;
        }
        let description = format!("a quorum has counted for {token} of c{client} since {newer} was granted");
        Some((Invariant::Supersession, [newer, token], description))
    }
}

impl Claim {
    fn is_older(&self, resource: usize, fence: FencingToken) -> bool {
        self.fence.is_some_and(|own| own < fence) && self.resources.contains(&resource)
    }
}

impl Grants {
    /// Returns the greatest fencing token that was reported before an event.
    fn greatest_at(&self, event: usize) -> Option<(FencingToken, TokenNumber)> {
        let before = self.greatest.partition_point(|(at, ..)| *at < event);
        self.greatest[..before].last().map(|(_, fence, token)| (*fence, *token))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Assumption;
    use super::super::history_builder::HistoryBuilder;
    use super::*;

    fn violations(builder: HistoryBuilder) -> Vec<(Invariant, Option<Assumption>)> {
        let rules = Rules {
            servers: 3,
            node_timeout: Duration::ZERO,
            settled_after: Duration::ZERO,
            admission: false,
            watches_clocks: false,
            changes_nodes: false,
        };
        let found = check(&builder.history(), &rules);
        found.into_iter().map(|violation| (violation.invariant, violation.broken)).collect()
    }

    /// Client 0 holds it as token 0 with the fencing token 5, until it expires.
    fn first() -> HistoryBuilder {
        HistoryBuilder::default().sent(0, 0, 0, 0).fenced(1, 0, 0, 5)
    }

    #[test]
    fn tokens_are_unique_and_increase() {
        assert_eq!(0, violations(first().sent(2, 1, 0, 1).fenced(3, 1, 1, 6)).len());
        let duplicate = first().sent(0, 1, 0, 1).fenced(3, 1, 1, 5);
        assert_eq!(vec![(Invariant::Unique, None)], violations(duplicate));
        assert_eq!(vec![(Invariant::Order, None)], violations(first().sent(2, 1, 0, 1).fenced(3, 1, 1, 4)));
        let at_once = first().sent(0, 1, 0, 1).fenced(3, 1, 1, 4);
        assert_eq!(0, violations(at_once).len(), "the request began before the other grant");
        let plain = first().sent(2, 1, 0, 1).granted(3, 1, 1, 9);
        assert_eq!(0, violations(plain).len(), "a plain lock has no fencing token");
    }

    #[test]
    fn tokens_of_different_resources_are_not_compared() {
        let both = HistoryBuilder::default().sent(0, 0, 0, 0).fenced_several(1, 0, &[0, 1], 0, 5);
        let other = |resource: usize| both_and(resource);
        assert_eq!(0, violations(both.sent(2, 1, 0, 1).fenced_several(3, 1, &[2], 1, 4)).len());
        assert_eq!(vec![(Invariant::Order, None)], violations(other(1)));
    }

    fn both_and(resource: usize) -> HistoryBuilder {
        let both = HistoryBuilder::default().sent(0, 0, 0, 0).fenced_several(1, 0, &[0, 1], 0, 5);
        both.sent(2, 1, 0, 1).fenced_several(3, 1, &[resource], 1, 4)
    }

    #[test]
    fn no_extension_succeeds_after_a_newer_grant() {
        let newer = || first().sent(2, 1, 0, 1).fenced(3, 1, 1, 6);
        let late = newer().extending(4, 0, 0).extended(5, 0, 0, 99);
        assert_eq!(vec![(Invariant::Supersession, None)], violations(late));
        let before = newer().extending(2, 0, 0).extended(5, 0, 0, 99);
        assert_eq!(0, violations(before).len(), "the extension began before");
        assert_eq!(0, violations(newer().extending(4, 1, 1).extended(5, 1, 1, 99)).len(), "the newer lease");
        let one = || newer().confirmed(4, 0, 0, 0, 99);
        assert_eq!(0, violations(one()).len());
        assert_eq!(0, violations(one().confirmed(5, 0, 0, 0, 99)).len(), "the same server again");
        assert_eq!(vec![(Invariant::Supersession, None)], violations(one().confirmed(5, 0, 1, 0, 99)));
    }

    #[test]
    fn an_older_claim_that_is_granted_late_is_never_extended() {
        let late =
            HistoryBuilder::default().sent(0, 0, 0, 0).sent(0, 1, 0, 1).fenced(3, 1, 1, 6).fenced(4, 0, 0, 5);
        let extended = late.extending(5, 0, 0).extended(6, 0, 0, 99);
        assert_eq!(vec![(Invariant::Supersession, None)], violations(extended));
    }

    #[test]
    fn an_early_restart_without_counters_is_the_reason() {
        let again = |away| first().forgot(2, 0, away).sent(3, 1, 0, 1).fenced(4, 1, 1, 5);
        let kept = Some(Assumption::CountersAreKept);
        assert_eq!(vec![(Invariant::Unique, kept)], violations(again(5_999)));
        assert_eq!(vec![(Invariant::Unique, None)], violations(again(6_000)));
        let older = first().rolled_back(2, 0).sent(3, 1, 0, 1).fenced(4, 1, 1, 5);
        assert_eq!(vec![(Invariant::Unique, kept)], violations(older), "an older copy has older counters");
    }
}
