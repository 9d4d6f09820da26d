//! The outcome of a round: the count of votes.
//!
//! A round is decided as soon as no missing reply can change the decision. *Won*: a quorum granted. *Lost*: the voters
//! that granted and those that still may are fewer than a quorum.
//!
//! The cause of a lost round must not depend on the order in which votes arrive. Thus it is a statement about the end of
//! the round, when every voter has replied or failed. It is made as soon as the pending votes cannot change it.
//!
//! The cause depends on the kind of round. For a claim, failures are the cause only if they alone exclude a quorum;
//! otherwise it is contention. A lease is reported as gone only if denials alone exclude a quorum of nodes that have
//! it. As long as failed nodes may have it, this is not known. A node that has it, and a newer fencing token,
//! *supersedes* it. Such a lease is not gone. But if these nodes exclude a quorum that counts for the lease, it can
//! never be extended again.
//!
//! During a change of the nodes there are two [lists](super::quorums). A round is won if both lists won it, and lost if
//! either lost it. The cause is that of the whole round: failures are the cause if they alone exclude a quorum of either
//! list, and a lease is gone if denials alone do so.

use std::fmt;

/// The vote of one voter so far.
///
/// The order is the precedence among nodes that are one server, and so one voter. A grant is final, and a reply that
/// may still come outweighs a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum VoteState {
    /// The voter did not reply and no longer can: an error, a timeout.
    Failed,
    /// The voter replied, and its vote does not count.
    Quarantined,
    Denied,
    /// The voter has the claim, and does not count for it.
    Superseded,
    Pending,
    Granted,
}

/// The count of the votes of one round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    granted: usize,
    denied: usize,
    superseded: usize,
    failed: usize,
    quarantined: usize,
    pending: usize,
}

/// The kind of a round to all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundKind {
    /// A round that acquires a claim.
    Acquire,
    /// A round that extends a held claim.
    Extend,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The missing votes decide.
    Pending,
    /// A quorum granted.
    Won,
    /// A quorum has become impossible; contains the cause once it is certain.
    Lost(Option<Cause>),
}

/// The order is the precedence for an extension, if the lists differ in their causes. For a claim, it is reversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// The nodes do not reply.
    NoQuorum,
    /// The nodes have the claim, and count for a newer one.
    Superseded,
    /// The nodes deny.
    Denied,
}

/// The possible results of a round, according to the votes of one list or of all lists.
#[derive(Clone, Copy, Debug)]
struct Outlook {
    is_won: bool,
    is_lost: bool,
    /// The causes of a loss if all pending votes were the same: denials, superseded votes, or failures. These are the
    /// extremes: a mixture, even with grants, lies between them. A list that is won has the cause without precedence.
    causes: [Cause; 3],
}

impl Outlook {
    /// Combines the outlooks of two lists.
    fn and(self, other: Self, kind: RoundKind) -> Self {
        let cause = |index: usize| match kind {
            RoundKind::Acquire => self.causes[index].min(other.causes[index]),
            RoundKind::Extend => self.causes[index].max(other.causes[index]),
        };
        Self {
            is_won: self.is_won && other.is_won,
            is_lost: self.is_lost || other.is_lost,
            causes: [cause(0), cause(1), cause(2)],
        }
    }

    fn decision(self) -> Decision {
        match self {
            Self { is_won: true, .. } => Decision::Won,
            Self { is_lost: false, .. } => Decision::Pending,
            Self { causes: [if_denied, if_superseded, if_failed], .. } => {
                let is_certain = if_denied == if_failed && if_superseded == if_failed;
                Decision::Lost(is_certain.then_some(if_failed))
            }
        }
    }
}

impl Tally {
    pub(crate) fn of(voters: impl IntoIterator<Item = VoteState>) -> Self {
        let mut tally = Self::default();
        for vote in voters {
            match vote {
                VoteState::Failed => tally.failed += 1,
                VoteState::Quarantined => tally.quarantined += 1,
                VoteState::Denied => tally.denied += 1,
                VoteState::Superseded => tally.superseded += 1,
                VoteState::Pending => tally.pending += 1,
                VoteState::Granted => tally.granted += 1,
            }
        }
        tally
    }

    /// Returns the decision from the tally of each list and its quorum.
    pub(crate) fn decide(kind: RoundKind, lists: impl IntoIterator<Item = (Self, usize)>) -> Decision {
        let outlooks = lists.into_iter().map(|(tally, quorum)| tally.outlook(kind, quorum));
        let all = outlooks.reduce(|one, other| one.and(other, kind));
        all.map_or(Decision::Pending, Outlook::decision)
    }

    fn outlook(self, kind: RoundKind, quorum: usize) -> Outlook {
        let Self { granted, denied, superseded, failed, quarantined, pending } = self;
        // A vote that does not count has the effect of a missing vote.
        let failed = failed + quarantined;
        // The cause according to the votes at the end.
        let cause = |denied: usize, superseded: usize, failed: usize| match kind {
            RoundKind::Acquire if granted + denied + superseded >= quorum => Cause::Denied,
            RoundKind::Extend if granted + superseded + failed < quorum => Cause::Denied,
            RoundKind::Extend if granted + failed < quorum => Cause::Superseded,
            _ => Cause::NoQuorum,
        };
        Outlook {
            is_won: granted >= quorum,
            is_lost: self.is_lost(quorum),
            causes: [
                cause(denied + pending, superseded, failed),
                cause(denied, superseded + pending, failed),
                cause(denied, superseded, failed + pending),
            ],
        }
    }

    /// Returns whether a quorum can no longer grant.
    pub(crate) fn is_lost(self, quorum: usize) -> bool {
        self.granted + self.pending < quorum
    }

    /// Returns how many voters have replied.
    pub(crate) fn replies(self) -> usize {
        self.granted + self.denied + self.superseded
    }

    /// Returns how many voters still may reply.
    pub(crate) fn pending(self) -> usize {
        self.pending
    }

    /// Returns how many voters have granted.
    pub(crate) fn granted(self) -> usize {
        self.granted
    }

    /// Returns how many voters have denied.
    pub(crate) fn denied(self) -> usize {
        self.denied
    }

    /// Returns the voters that have not granted, for messages: `2 denied, 1 failed`.
    ///
    /// The text is empty if all have granted.
    pub(crate) fn others(self) -> Others {
        Others(self)
    }

    /// Returns the voters that neither replied nor still may, of this many nodes, for messages: `3 of 5 nodes failed`.
    pub(crate) fn missing(self, nodes: usize, name: &'static str) -> Missing {
        Missing { tally: self, nodes, name }
    }

    /// Returns how many voters have replied or still may.
    pub(crate) fn possible_replies(self) -> usize {
        self.replies() + self.pending
    }
}

/// The voters of a round that have not granted, for messages.
pub(crate) struct Others(Tally);

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { denied, superseded, failed, quarantined, pending, granted: _ } = self.0;
        let counts = [
            (denied, "denied"),
            (superseded, "superseded"),
            (failed, "failed"),
            (quarantined, "quarantined"),
            (pending, "pending"),
        ];
        let mut separator = "";
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{separator}{count} {what}")?;
            separator = ", ";
        }
        Ok(())
    }
}

/// The nodes without a vote in a round, for messages.
pub(crate) struct Missing {
    tally: Tally,
    nodes: usize,
    /// The word for the nodes in messages.
    name: &'static str,
}

impl Missing {
    /// Returns each reason with its number of nodes. Nodes that are one server have one vote.
    fn counts(&self) -> [(usize, &'static str); 3] {
        let Tally { failed, quarantined, pending, .. } = self.tally;
        let voters = self.tally.replies() + failed + quarantined + pending;
        [
            (failed, "failed"),
            (quarantined, "quarantined"),
            (self.nodes.saturating_sub(voters), "listed twice"),
        ]
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts().into_iter().filter(|(count, _)| *count > 0);
        for (position, (count, what)) in counts.enumerate() {
            match position {
                0 => write!(f, "{count} of {} {} {what}", self.nodes, self.name)?,
                _ => write!(f, ", {count} {what}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decide::quorums::{Members, Quorums, quorum};

    fn final_state() -> impl Strategy<Value = VoteState> {
        prop_oneof![
            Just(VoteState::Granted),
            Just(VoteState::Denied),
            Just(VoteState::Superseded),
            Just(VoteState::Failed),
            Just(VoteState::Quarantined),
        ]
    }

    /// Returns the votes of a round in their order of arrival: (voter, vote).
    fn round() -> impl Strategy<Value = Vec<(usize, VoteState)>> {
        prop::collection::vec(final_state(), 1..10)
            .prop_map(|votes| votes.into_iter().enumerate().collect::<Vec<_>>())
            .prop_shuffle()
    }

    fn kind() -> impl Strategy<Value = RoundKind> {
        prop_oneof![Just(RoundKind::Acquire), Just(RoundKind::Extend)]
    }

    /// Returns every decision: before the first vote, and after each vote.
    fn decisions(kind: RoundKind, arrivals: &[(usize, VoteState)]) -> Vec<Decision> {
        let mut voters = vec![VoteState::Pending; arrivals.len()];
        let decide = |voters: &[VoteState]| {
            Tally::decide(kind, [(Tally::of(voters.iter().copied()), quorum(voters.len()))])
        };
        let mut decisions = vec![decide(&voters)];
        for (voter, vote) in arrivals {
            voters[*voter] = *vote;
            decisions.push(decide(&voters));
        }
        decisions
    }

    /// Returns the decision from all votes, by another formulation of the rule.
    fn at_the_end(kind: RoundKind, arrivals: &[(usize, VoteState)]) -> Decision {
        let count = |wanted| arrivals.iter().filter(|(_, vote)| *vote == wanted).count();
        let (nodes, needed) = (arrivals.len(), arrivals.len() / 2 + 1);
        let excludes = |votes: usize| nodes - votes < needed;
        let (denied, superseded) = (count(VoteState::Denied), count(VoteState::Superseded));
        let missing = count(VoteState::Failed) + count(VoteState::Quarantined);
        let cause = match kind {
            RoundKind::Acquire if excludes(missing) => Cause::NoQuorum,
            RoundKind::Acquire => Cause::Denied,
            RoundKind::Extend if excludes(denied) => Cause::Denied,
            RoundKind::Extend if excludes(denied + superseded) => Cause::Superseded,
            RoundKind::Extend => Cause::NoQuorum,
        };
        if count(VoteState::Granted) >= needed { Decision::Won } else { Decision::Lost(Some(cause)) }
    }

    proptest! {
        #[test]
        fn the_decision_is_the_same_in_any_order(kind in kind(), arrivals in round()) {
            prop_assert_eq!(at_the_end(kind, &arrivals), *decisions(kind, &arrivals).last().unwrap());
        }

        #[test]
        fn an_early_decision_is_final(kind in kind(), arrivals in round()) {
            let end = at_the_end(kind, &arrivals);
            for early in decisions(kind, &arrivals) {
                match early {
                    Decision::Pending => {}
                    Decision::Lost(None) => prop_assert!(matches!(end, Decision::Lost(Some(_)))),
                    certain => prop_assert_eq!(end, certain),
                }
            }
        }

        #[test]
        fn the_missing_nodes_alone_exclude_a_quorum_if_they_are_the_cause(
            arrivals in round(), twins in 0_usize..3, cut in 0_usize..10,
        ) {
            let nodes = arrivals.len() + twins;
            let mut voters = vec![VoteState::Pending; arrivals.len()];
            for (voter, vote) in &arrivals[..cut.min(arrivals.len())] {
                voters[*voter] = *vote;
            }
            let tally = Tally::of(voters);
            let missing: usize = tally.missing(nodes, "nodes").counts().iter().map(|(count, _)| count).sum();
            let decision = Tally::decide(RoundKind::Acquire, [(tally, quorum(nodes))]);
            if decision == Decision::Lost(Some(Cause::NoQuorum)) {
                prop_assert!(nodes - missing < quorum(nodes), "{}", tally.missing(nodes, "nodes"));
            }
            prop_assert_eq!(nodes - missing, tally.possible_replies());
        }

        #[test]
        fn a_pending_decision_depends_on_the_missing_votes(
            kind in kind(), arrivals in round(), cut in 0_usize..10,
        ) {
            let cut = cut.min(arrivals.len());
            let early = decisions(kind, &arrivals)[cut];
            let ending = |vote| {
                let rest = arrivals[cut..].iter().map(|(voter, _)| (*voter, vote));
                at_the_end(kind, &arrivals[..cut].iter().copied().chain(rest).collect::<Vec<_>>())
            };
            let endings =
                [VoteState::Granted, VoteState::Denied, VoteState::Superseded, VoteState::Failed].map(ending);
            match early {
                Decision::Pending => prop_assert!(endings[0] == Decision::Won && endings[3] != Decision::Won),
                Decision::Lost(None) => {
                    prop_assert!(endings[1] != endings[3] || endings[2] != endings[3]);
                }
                certain => prop_assert_eq!([certain; 4], endings),
            }
        }
    }

    /// Returns the rule of two lists, and the votes of all nodes in their order of arrival.
    fn change() -> impl Strategy<Value = (Quorums, Vec<(usize, VoteState)>)> {
        let lists = (1_usize..5, 0_usize..5, 0_usize..5).prop_filter_map("no previous node", |lists| {
            let (current, common, others) = (lists.0, lists.1.min(lists.0), lists.2);
            let previous: Vec<_> = (current - common..current + others).collect();
            (!previous.is_empty()).then(|| Quorums::of_change(current, &previous))
        });
        lists.prop_flat_map(|rule| {
            let votes = prop::collection::vec(final_state(), rule.nodes());
            let votes = votes.prop_map(|votes| votes.into_iter().enumerate().collect::<Vec<_>>());
            (Just(rule), votes.prop_shuffle())
        })
    }

    /// Returns the decision of a change after the first `count` votes.
    fn after(kind: RoundKind, rule: Quorums, arrivals: &[(usize, VoteState)], count: usize) -> Decision {
        let mut voters = vec![VoteState::Pending; rule.nodes()];
        arrivals[..count].iter().for_each(|(voter, vote)| voters[*voter] = *vote);
        let tally = |list: Members| (Tally::of(list.nodes().map(|node| voters[node])), list.quorum());
        Tally::decide(kind, rule.lists().map(tally))
    }

    /// Returns the decision of a change from all votes, by the decision of each list.
    fn at_the_end_of(kind: RoundKind, rule: Quorums, arrivals: &[(usize, VoteState)]) -> Decision {
        let of = |list: Members| {
            let votes: Vec<_> = arrivals.iter().filter(|(node, _)| list.contains(*node)).copied().collect();
            at_the_end(kind, &votes)
        };
        let decisions: Vec<_> = rule.lists().map(of).collect();
        let is = |cause| decisions.contains(&Decision::Lost(Some(cause)));
        let order = match kind {
            RoundKind::Acquire => [Cause::NoQuorum, Cause::Denied, Cause::Superseded],
            RoundKind::Extend => [Cause::Denied, Cause::Superseded, Cause::NoQuorum],
        };
        let cause = order.into_iter().find(|cause| is(*cause));
        cause.map_or(Decision::Won, |cause| Decision::Lost(Some(cause)))
    }

    proptest! {
        #[test]
        fn a_change_is_decided_by_both_lists_in_any_order(kind in kind(), (rule, arrivals) in change()) {
            let end = at_the_end_of(kind, rule, &arrivals);
            prop_assert_eq!(end, after(kind, rule, &arrivals, arrivals.len()));
            for count in 0..arrivals.len() {
                match after(kind, rule, &arrivals, count) {
                    Decision::Pending => {}
                    Decision::Lost(None) => prop_assert!(matches!(end, Decision::Lost(Some(_)))),
                    certain => prop_assert_eq!(end, certain),
                }
            }
        }

        #[test]
        fn a_pending_change_depends_on_the_missing_votes(
            kind in kind(), (rule, arrivals) in change(), cut in 0_usize..10,
        ) {
            let cut = cut.min(arrivals.len());
            let ending = |vote| {
                let rest = arrivals[cut..].iter().map(|(voter, _)| (*voter, vote));
                at_the_end_of(kind, rule, &arrivals[..cut].iter().copied().chain(rest).collect::<Vec<_>>())
            };
            let endings =
                [VoteState::Granted, VoteState::Denied, VoteState::Superseded, VoteState::Failed].map(ending);
            match after(kind, rule, &arrivals, cut) {
                Decision::Pending => prop_assert!(endings[0] == Decision::Won && endings[3] != Decision::Won),
                Decision::Lost(None) => {
                    prop_assert!(endings[1] != endings[3] || endings[2] != endings[3]);
                }
                certain => prop_assert_eq!([certain; 4], endings),
            }
        }
    }

    #[test]
    fn failures_of_one_list_are_the_cause_even_if_the_other_list_denies() {
        use VoteState::{Denied, Failed, Granted, Pending};
        let decide = |current: [VoteState; 3], previous: [VoteState; 3]| {
            let lists = [current, previous].map(|votes| (Tally::of(votes), 2));
            Tally::decide(RoundKind::Acquire, lists)
        };
        assert_eq!(Decision::Won, decide([Granted, Granted, Failed], [Granted, Granted, Denied]));
        assert_eq!(Decision::Pending, decide([Granted, Granted, Failed], [Granted, Pending, Denied]));
        assert_eq!(
            Decision::Lost(Some(Cause::NoQuorum)),
            decide([Failed, Failed, Pending], [Denied, Denied, Denied])
        );
        assert_eq!(Decision::Lost(None), decide([Pending, Pending, Failed], [Denied, Denied, Denied]));
        assert_eq!(
            Decision::Lost(Some(Cause::Denied)),
            decide([Granted, Granted, Failed], [Denied, Denied, Pending])
        );
    }

    #[test]
    fn a_tally_counts_replies_and_possible_replies() {
        use VoteState::{Denied, Failed, Granted, Pending};
        let tally = Tally::of([Granted, Granted, Granted, Denied, Pending, Pending, Failed]);
        assert_eq!((3, 1), (tally.granted(), tally.denied()));
        assert_eq!((4, 6), (tally.replies(), tally.possible_replies()));
    }

    #[test]
    fn messages_list_only_counts_above_zero() {
        use VoteState::{Denied, Failed, Granted, Pending, Quarantined, Superseded};
        let all = [Granted, Denied, Denied, Superseded, Failed, Quarantined, Pending, Pending, Pending];
        let text = "2 denied, 1 superseded, 1 failed, 1 quarantined, 3 pending";
        assert_eq!(text, Tally::of(all).others().to_string());
        assert_eq!("1 failed", Tally::of([Granted, Failed]).others().to_string());
        assert_eq!("", Tally::of([Granted]).others().to_string());
    }

    #[test]
    fn messages_name_the_nodes_without_a_vote_by_their_reason() {
        use VoteState::{Denied, Failed, Granted, Pending, Quarantined};
        let missing =
            |votes: &[VoteState], nodes| Tally::of(votes.iter().copied()).missing(nodes, "nodes").to_string();
        assert_eq!("3 of 5 nodes failed", missing(&[Failed, Failed, Failed, Pending, Pending], 5));
        assert_eq!("2 of 3 nodes quarantined", missing(&[Quarantined, Quarantined, Granted], 3));
        assert_eq!("1 of 3 nodes failed, 1 quarantined", missing(&[Quarantined, Failed, Denied], 3));
        assert_eq!("1 of 3 nodes failed, 1 listed twice", missing(&[Granted, Failed], 3));
        assert_eq!("1 of 3 nodes listed twice", missing(&[Granted, Pending], 3));
    }

    #[test]
    fn an_attempt_fails_without_a_quorum_only_if_failures_alone_exclude_it() {
        use VoteState::{Denied, Failed, Granted, Pending};
        let decide = |votes: [VoteState; 5]| Tally::decide(RoundKind::Acquire, [(Tally::of(votes), 3)]);
        assert_eq!(Decision::Lost(None), decide([Denied, Failed, Failed, Pending, Pending]));
        assert_eq!(Decision::Lost(Some(Cause::NoQuorum)), decide([Denied, Failed, Failed, Failed, Pending]));
        assert_eq!(Decision::Lost(Some(Cause::Denied)), decide([Denied, Denied, Denied, Pending, Pending]));
        assert_eq!(Decision::Lost(Some(Cause::Denied)), decide([Denied, Failed, Failed, Granted, Denied]));
    }

    #[test]
    fn a_lease_is_lost_only_if_denials_alone_exclude_a_quorum() {
        use VoteState::{Denied, Failed, Granted, Pending};
        let decide = |votes: [VoteState; 5]| Tally::decide(RoundKind::Extend, [(Tally::of(votes), 3)]);
        assert_eq!(Decision::Lost(Some(Cause::NoQuorum)), decide([Granted, Granted, Failed, Denied, Denied]));
        assert_eq!(Decision::Lost(None), decide([Granted, Failed, Denied, Denied, Pending]));
        assert_eq!(Decision::Lost(Some(Cause::Denied)), decide([Granted, Pending, Denied, Denied, Denied]));
    }

    #[test]
    fn a_lease_is_superseded_if_newer_counters_exclude_a_quorum() {
        use VoteState::{Denied, Failed, Granted, Pending, Superseded};
        let decide = |votes: [VoteState; 5]| Tally::decide(RoundKind::Extend, [(Tally::of(votes), 3)]);
        assert_eq!(
            Decision::Lost(Some(Cause::Superseded)),
            decide([Granted, Granted, Superseded, Superseded, Denied])
        );
        assert_eq!(Decision::Lost(None), decide([Granted, Failed, Superseded, Superseded, Pending]));
        assert_eq!(
            Decision::Lost(Some(Cause::NoQuorum)),
            decide([Granted, Failed, Failed, Superseded, Superseded])
        );
        assert_eq!(Decision::Pending, decide([Granted, Pending, Pending, Superseded, Superseded]));
    }

    #[test]
    fn a_grant_outweighs_other_replies_of_the_same_server() {
        use VoteState::{Denied, Failed, Granted, Pending, Superseded};
        assert!(Granted > Pending && Pending > Superseded && Superseded > Denied && Denied > Failed);
    }
}
