//! Who has won a round: the count of votes.
//!
//! A round is decided as soon as nothing that can still arrive changes the decision. *Won*: a quorum granted. *Lost*: the
//! voters that granted and those that still may are fewer than a quorum.
//!
//! Why a round was lost must not depend on the order in which votes arrive. At the end every voter has answered or
//! failed; if failures alone exclude a quorum (fewer than a quorum answered) the cause is *no quorum*, otherwise
//! *contended*. Before the end the cause is certain exactly when the pending votes cannot change it: a quorum has
//! answered already, or not even all the pending ones make a quorum of answers.

/// How many of `nodes` must agree, so that any two such sets share a node.
pub(crate) fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// What one voter has said so far. In ascending order of precedence among nodes that are one server and so one voter:
/// a grant stands, and an answer that may still come outweighs a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It did not answer and no longer can: an error, a timeout.
    Failed,
    Refused,
    Pending,
    Granted,
}

/// The count of votes of one round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    granted: usize,
    refused: usize,
    pending: usize,
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
    /// A quorum answered.
    Contended,
    /// Failures alone exclude a quorum.
    NoQuorum,
}

impl Tally {
    pub(crate) fn of(voters: impl IntoIterator<Item = Standing>) -> Self {
        let mut tally = Self::default();
        for standing in voters {
            match standing {
                Standing::Failed => {}
                Standing::Refused => tally.refused += 1,
                Standing::Pending => tally.pending += 1,
                Standing::Granted => tally.granted += 1,
            }
        }
        tally
    }

    pub(crate) fn decide(self, quorum: usize) -> Decision {
        if self.granted >= quorum {
            Decision::Won
        } else if self.may_grant() >= quorum {
            Decision::Open
        } else if self.answered() >= quorum {
            Decision::Lost(Some(Cause::Contended))
        } else if self.may_answer() < quorum {
            Decision::Lost(Some(Cause::NoQuorum))
        } else {
            Decision::Lost(None)
        }
    }

    /// How many voters said yes or no.
    pub(crate) fn answered(self) -> usize {
        self.granted + self.refused
    }

    /// How many voters have said yes or still may.
    pub(crate) fn may_grant(self) -> usize {
        self.granted + self.pending
    }

    /// How many voters have answered or still may.
    pub(crate) fn may_answer(self) -> usize {
        self.answered() + self.pending
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn final_standing() -> impl Strategy<Value = Standing> {
        prop_oneof![Just(Standing::Granted), Just(Standing::Refused), Just(Standing::Failed)]
    }

    /// The votes of a round, in the order in which they arrive: (voter, vote).
    fn round() -> impl Strategy<Value = Vec<(usize, Standing)>> {
        prop::collection::vec(final_standing(), 1..10)
            .prop_map(|votes| votes.into_iter().enumerate().collect::<Vec<_>>())
            .prop_shuffle()
    }

    /// Every decision on the way, before the first and after each vote.
    fn decisions(arrivals: &[(usize, Standing)]) -> Vec<Decision> {
        let mut voters = vec![Standing::Pending; arrivals.len()];
        let decide = |voters: &[Standing]| Tally::of(voters.iter().copied()).decide(quorum(voters.len()));
        let mut decisions = vec![decide(&voters)];
        for (voter, vote) in arrivals {
            voters[*voter] = *vote;
            decisions.push(decide(&voters));
        }
        decisions
    }

    fn at_the_end(arrivals: &[(usize, Standing)]) -> Decision {
        let count = |wanted| arrivals.iter().filter(|(_, vote)| *vote == wanted).count();
        let (nodes, needed) = (arrivals.len(), arrivals.len() / 2 + 1);
        if count(Standing::Granted) >= needed {
            Decision::Won
        } else if nodes - count(Standing::Failed) < needed {
            Decision::Lost(Some(Cause::NoQuorum))
        } else {
            Decision::Lost(Some(Cause::Contended))
        }
    }

    proptest! {
        #[test]
        fn any_two_quorums_share_a_node(nodes in 1_usize..100) {
            prop_assert!(2 * quorum(nodes) > nodes);
            prop_assert!(2 * (quorum(nodes) - 1) <= nodes, "more than it takes");
        }

        #[test]
        fn the_decision_is_the_same_in_any_order(arrivals in round()) {
            prop_assert_eq!(at_the_end(&arrivals), *decisions(&arrivals).last().unwrap());
        }

        #[test]
        fn what_was_decided_early_stays_decided(arrivals in round()) {
            let end = at_the_end(&arrivals);
            for early in decisions(&arrivals) {
                match early {
                    Decision::Open => {}
                    Decision::Lost(None) => prop_assert!(matches!(end, Decision::Lost(Some(_)))),
                    certain => prop_assert_eq!(end, certain),
                }
            }
        }

        #[test]
        fn a_decision_waits_for_no_vote_that_cannot_matter(arrivals in round(), cut in 0_usize..10) {
            let cut = cut.min(arrivals.len());
            let early = decisions(&arrivals)[cut];
            // The two extreme ways to go on: if even they agree on winning or losing, it must have been decided.
            let ending = |vote| {
                let rest = arrivals[cut..].iter().map(|(voter, _)| (*voter, vote));
                at_the_end(&arrivals[..cut].iter().copied().chain(rest).collect::<Vec<_>>())
            };
            let (best, worst) = (ending(Standing::Granted), ending(Standing::Failed));
            let refused = ending(Standing::Refused);
            match early {
                Decision::Open => prop_assert!(best == Decision::Won && worst != Decision::Won),
                Decision::Lost(None) => prop_assert_ne!(worst, refused),
                Decision::Won | Decision::Lost(Some(_)) => prop_assert!(best == early && worst == early),
            }
        }
    }

    #[test]
    fn one_refusal_and_three_failures_of_five_are_no_quorum() {
        use Standing::{Failed, Granted, Pending, Refused};
        let decide = |votes: [Standing; 5]| Tally::of(votes).decide(3);
        assert_eq!(Decision::Lost(None), decide([Refused, Failed, Failed, Pending, Pending]));
        assert_eq!(Decision::Lost(Some(Cause::NoQuorum)), decide([Refused, Failed, Failed, Failed, Pending]));
        assert_eq!(
            Decision::Lost(Some(Cause::Contended)),
            decide([Refused, Refused, Refused, Pending, Pending])
        );
        assert_eq!(
            Decision::Lost(Some(Cause::Contended)),
            decide([Refused, Failed, Failed, Granted, Refused])
        );
    }

    #[test]
    fn a_grant_outweighs_what_the_same_server_said_elsewhere() {
        use Standing::{Failed, Granted, Pending, Refused};
        assert!(Granted > Pending && Pending > Refused && Refused > Failed);
    }
}
