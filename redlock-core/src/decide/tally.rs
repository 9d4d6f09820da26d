//! Who has won a round: the count of votes.
//!
//! A round is decided as soon as nothing that can still arrive changes the decision. *Won*: a quorum granted. *Lost*: the
//! voters that granted and those that still may are fewer than a quorum.
//!
//! Why a round was lost must not depend on the order in which votes arrive, so it is a statement about its end, when
//! every voter has answered or failed, and is made as soon as the pending votes cannot change it. What it is depends on
//! the question. A claim that was lost is blamed on failures only if they alone exclude a quorum; otherwise someone else
//! stands in the way. A lease is said to be gone only if refusals alone exclude a quorum of nodes that have it; as long
//! as those that failed may have it, it is not known. A node that has it, and a newer fencing token, *supersedes* it: such
//! a lease is not gone, but where they exclude a quorum of nodes that count for it, it can never be extended again.

use std::fmt;

use crate::broken::{Variant, broken};

/// How many of `nodes` must agree, so that any two such sets share a node.
pub(crate) fn quorum(nodes: usize) -> usize {
    nodes / 2 + usize::from(!broken(Variant::HalfQuorum))
}

/// What one voter has said so far. In ascending order of precedence among nodes that are one server and so one voter:
/// a grant stands, and an answer that may still come outweighs a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It did not answer and no longer can: an error, a timeout.
    Failed,
    Refused,
    /// It has the claim, and does not count for it.
    Superseded,
    Pending,
    Granted,
}

/// The count of votes of one round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    granted: usize,
    refused: usize,
    superseded: usize,
    failed: usize,
    pending: usize,
}

/// What a round asks all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// May this claim have the resources?
    Claim,
    /// Does this claim have them still?
    Hold,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The votes that may still arrive decide.
    Open,
    /// A quorum granted.
    Won,
    /// A quorum has become impossible; the cause, once it is certain.
    Lost(Option<Cause>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The nodes say no.
    Refused,
    /// The nodes have it, and count for a newer one.
    Superseded,
    /// The nodes do not say.
    NoQuorum,
}

impl Tally {
    pub(crate) fn of(voters: impl IntoIterator<Item = Standing>) -> Self {
        let mut tally = Self::default();
        for standing in voters {
            match standing {
                Standing::Failed => tally.failed += 1,
                Standing::Refused => tally.refused += 1,
                Standing::Superseded => tally.superseded += 1,
                Standing::Pending => tally.pending += 1,
                Standing::Granted => tally.granted += 1,
            }
        }
        tally
    }

    pub(crate) fn decide(self, question: Question, quorum: usize) -> Decision {
        let Self { granted, refused, superseded, failed, pending } = self;
        if granted >= quorum {
            return Decision::Won;
        }
        if granted + pending >= quorum {
            return Decision::Open;
        }
        // The cause by the votes at the end.
        let cause = |refused: usize, superseded: usize, failed: usize| match question {
            Question::Claim if granted + refused + superseded >= quorum => Cause::Refused,
            Question::Hold if granted + superseded + failed < quorum => Cause::Refused,
            Question::Hold if granted + failed < quorum => Cause::Superseded,
            _ => Cause::NoQuorum,
        };
        // If all pending votes turned out the same: the extremes. A mixture, also with grants, lies between them.
        let if_refused = cause(refused + pending, superseded, failed);
        let if_superseded = cause(refused, superseded + pending, failed);
        let if_failed = cause(refused, superseded, failed + pending);
        let certain = if_refused == if_failed && if_superseded == if_failed;
        Decision::Lost(certain.then_some(if_failed))
    }

    /// How many voters have answered.
    pub(crate) fn answered(self) -> usize {
        self.granted + self.refused + self.superseded
    }

    /// How many voters have granted.
    pub(crate) fn granted(self) -> usize {
        self.granted
    }

    /// How many voters have denied.
    pub(crate) fn denied(self) -> usize {
        self.refused
    }

    /// The voters that have not granted, for messages: `2 denied, 1 failed`. Empty if all have granted.
    pub(crate) fn others(self) -> Others {
        Others(self)
    }

    /// How many voters have answered or still may.
    pub(crate) fn may_answer(self) -> usize {
        self.answered() + self.pending
    }
}

/// The voters of a round that have not granted, for messages.
pub(crate) struct Others(Tally);

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { refused, superseded, failed, pending, .. } = self.0;
        let counts =
            [(refused, "denied"), (superseded, "superseded"), (failed, "failed"), (pending, "pending")];
        let mut separator = "";
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{separator}{count} {what}")?;
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn final_standing() -> impl Strategy<Value = Standing> {
        prop_oneof![
            Just(Standing::Granted),
            Just(Standing::Refused),
            Just(Standing::Superseded),
            Just(Standing::Failed),
        ]
    }

    /// The votes of a round, in the order in which they arrive: (voter, vote).
    fn round() -> impl Strategy<Value = Vec<(usize, Standing)>> {
        prop::collection::vec(final_standing(), 1..10)
            .prop_map(|votes| votes.into_iter().enumerate().collect::<Vec<_>>())
            .prop_shuffle()
    }

    fn question() -> impl Strategy<Value = Question> {
        prop_oneof![Just(Question::Claim), Just(Question::Hold)]
    }

    /// Every decision on the way, before the first and after each vote.
    fn decisions(question: Question, arrivals: &[(usize, Standing)]) -> Vec<Decision> {
        let mut voters = vec![Standing::Pending; arrivals.len()];
        let decide =
            |voters: &[Standing]| Tally::of(voters.iter().copied()).decide(question, quorum(voters.len()));
        let mut decisions = vec![decide(&voters)];
        for (voter, vote) in arrivals {
            voters[*voter] = *vote;
            decisions.push(decide(&voters));
        }
        decisions
    }

    /// The rule, said of the votes at the end and in other words than the code's.
    fn at_the_end(question: Question, arrivals: &[(usize, Standing)]) -> Decision {
        let count = |wanted| arrivals.iter().filter(|(_, vote)| *vote == wanted).count();
        let (nodes, needed) = (arrivals.len(), arrivals.len() / 2 + 1);
        let excludes = |votes: usize| nodes - votes < needed;
        let (refused, superseded) = (count(Standing::Refused), count(Standing::Superseded));
        let cause = match question {
            Question::Claim if excludes(count(Standing::Failed)) => Cause::NoQuorum,
            Question::Claim => Cause::Refused,
            Question::Hold if excludes(refused) => Cause::Refused,
            Question::Hold if excludes(refused + superseded) => Cause::Superseded,
            Question::Hold => Cause::NoQuorum,
        };
        if count(Standing::Granted) >= needed { Decision::Won } else { Decision::Lost(Some(cause)) }
    }

    proptest! {
        #[test]
        fn any_two_quorums_share_a_node(nodes in 1_usize..100) {
            prop_assert!(2 * quorum(nodes) > nodes);
            prop_assert!(2 * (quorum(nodes) - 1) <= nodes, "more than it takes");
        }

        #[test]
        fn the_decision_is_the_same_in_any_order(question in question(), arrivals in round()) {
            prop_assert_eq!(at_the_end(question, &arrivals), *decisions(question, &arrivals).last().unwrap());
        }

        #[test]
        fn what_was_decided_early_stays_decided(question in question(), arrivals in round()) {
            let end = at_the_end(question, &arrivals);
            for early in decisions(question, &arrivals) {
                match early {
                    Decision::Open => {}
                    Decision::Lost(None) => prop_assert!(matches!(end, Decision::Lost(Some(_)))),
                    certain => prop_assert_eq!(end, certain),
                }
            }
        }

        #[test]
        fn a_decision_waits_for_no_vote_that_cannot_matter(
            question in question(), arrivals in round(), cut in 0_usize..10,
        ) {
            let cut = cut.min(arrivals.len());
            let early = decisions(question, &arrivals)[cut];
            let ending = |vote| {
                let rest = arrivals[cut..].iter().map(|(voter, _)| (*voter, vote));
                at_the_end(question, &arrivals[..cut].iter().copied().chain(rest).collect::<Vec<_>>())
            };
            let endings =
                [Standing::Granted, Standing::Refused, Standing::Superseded, Standing::Failed].map(ending);
            match early {
                Decision::Open => prop_assert!(endings[0] == Decision::Won && endings[3] != Decision::Won),
                Decision::Lost(None) => {
                    prop_assert!(endings[1] != endings[3] || endings[2] != endings[3]);
                }
                certain => prop_assert_eq!([certain; 4], endings),
            }
        }
    }

    #[test]
    fn what_was_said_and_what_still_may_be() {
        use Standing::{Failed, Granted, Pending, Refused};
        let tally = Tally::of([Granted, Granted, Granted, Refused, Pending, Pending, Failed]);
        assert_eq!((3, 1), (tally.granted(), tally.denied()));
        assert_eq!((4, 6), (tally.answered(), tally.may_answer()));
    }

    #[test]
    fn messages_count_what_there_is() {
        use Standing::{Failed, Granted, Pending, Refused, Superseded};
        let all = [Granted, Refused, Refused, Superseded, Failed, Pending, Pending, Pending];
        assert_eq!("2 denied, 1 superseded, 1 failed, 3 pending", Tally::of(all).others().to_string());
        assert_eq!("1 failed", Tally::of([Granted, Failed]).others().to_string());
        assert_eq!("", Tally::of([Granted]).others().to_string());
    }

    #[test]
    fn a_claim_is_no_quorum_only_by_failures_alone() {
        use Standing::{Failed, Granted, Pending, Refused};
        let decide = |votes: [Standing; 5]| Tally::of(votes).decide(Question::Claim, 3);
        assert_eq!(Decision::Lost(None), decide([Refused, Failed, Failed, Pending, Pending]));
        assert_eq!(Decision::Lost(Some(Cause::NoQuorum)), decide([Refused, Failed, Failed, Failed, Pending]));
        assert_eq!(
            Decision::Lost(Some(Cause::Refused)),
            decide([Refused, Refused, Refused, Pending, Pending])
        );
        assert_eq!(Decision::Lost(Some(Cause::Refused)), decide([Refused, Failed, Failed, Granted, Refused]));
    }

    #[test]
    fn a_lease_is_gone_only_by_refusals_alone() {
        use Standing::{Failed, Granted, Pending, Refused};
        let decide = |votes: [Standing; 5]| Tally::of(votes).decide(Question::Hold, 3);
        assert_eq!(
            Decision::Lost(Some(Cause::NoQuorum)),
            decide([Granted, Granted, Failed, Refused, Refused])
        );
        assert_eq!(Decision::Lost(None), decide([Granted, Failed, Refused, Refused, Pending]));
        assert_eq!(
            Decision::Lost(Some(Cause::Refused)),
            decide([Granted, Pending, Refused, Refused, Refused])
        );
    }

    #[test]
    fn a_lease_is_superseded_when_nodes_that_have_it_do_not_count() {
        use Standing::{Failed, Granted, Pending, Refused, Superseded};
        let decide = |votes: [Standing; 5]| Tally::of(votes).decide(Question::Hold, 3);
        assert_eq!(
            Decision::Lost(Some(Cause::Superseded)),
            decide([Granted, Granted, Superseded, Superseded, Refused])
        );
        assert_eq!(Decision::Lost(None), decide([Granted, Failed, Superseded, Superseded, Pending]));
        assert_eq!(
            Decision::Lost(Some(Cause::NoQuorum)),
            decide([Granted, Failed, Failed, Superseded, Superseded])
        );
        assert_eq!(Decision::Open, decide([Granted, Pending, Pending, Superseded, Superseded]));
    }

    #[test]
    fn a_grant_outweighs_what_the_same_server_said_elsewhere() {
        use Standing::{Failed, Granted, Pending, Refused, Superseded};
        assert!(Granted > Pending && Pending > Superseded && Superseded > Refused && Refused > Failed);
    }
}
