//! The outcomes of one round, by node, and their count.
//!
//! Nodes that are one server have one vote, which is the strongest of their votes. Among the nodes that granted a fenced
//! claim, only the largest group whose counters are [together](super::fencing) has a vote.

use std::iter;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::decide::admission::{Countable, until_quorum};
use crate::decide::fencing::Bound;
use crate::decide::holder::{self, Contention, HolderReply, contention};
use crate::decide::tally::{Decision, RoundKind, Tally, VoteState, quorum};
use crate::decide::waiters;
use crate::types::denial::Denial;
use crate::types::fencing_token::FencingToken;
use crate::types::identity::ServerId;
use crate::types::instant::Instant;
use crate::types::node_error::{NodeError, NodeErrorKind};
use crate::types::position::Position;
use crate::types::report::{self, NodeReport, Outcome};
use crate::types::token::Token;

/// The outcomes of one round, by node index.
#[derive(Clone, Debug)]
pub(crate) struct Votes {
    pub(crate) start: Instant,
    votes: Vec<Vote>,
    bound: Bound,
    /// The number of nodes whose outcome is known.
    ended: usize,
    /// True if several nodes have turned out to be one server.
    aliases: bool,
}

#[derive(Clone, Debug)]
struct Vote {
    outcome: Outcome,
    latency: Duration,
    /// The server that replied.
    server: Option<ServerId>,
}

impl Votes {
    pub(crate) fn new(start: Instant, nodes: usize, bound: Bound) -> Self {
        let pending = || Vote { outcome: Outcome::Pending, latency: Duration::ZERO, server: None };
        Self {
            start,
            votes: iter::repeat_with(pending).take(nodes).collect(),
            bound,
            ended: 0,
            aliases: false,
        }
    }

    /// Creates the votes of no nodes.
    pub(crate) fn none(start: Instant) -> Self {
        Self { start, votes: Vec::new(), bound: Bound::NONE, ended: 0, aliases: false }
    }

    /// Records the outcome of a node at the time `at`. `server` is the server that replied, if it is known.
    pub(crate) fn put(&mut self, index: usize, outcome: Outcome, server: Option<ServerId>, at: Instant) {
        let server = server.filter(|_| !is_failure(&outcome));
        self.ended += usize::from(self.is_pending(index));
        self.aliases |= server.is_some() && self.votes.iter().any(|other| other.server == server);
        let latency = at.saturating_duration_since(self.start);
        self.votes[index] = Vote { outcome, latency, server };
    }

    pub(crate) fn outcome(&self, index: usize) -> &Outcome {
        &self.votes[index].outcome
    }

    pub(crate) fn is_pending(&self, index: usize) -> bool {
        matches!(self.outcome(index), Outcome::Pending)
    }

    /// Returns whether the node has not replied and no longer can.
    pub(crate) fn has_failed(&self, index: usize) -> bool {
        is_failure(self.outcome(index))
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.votes.len()
    }

    pub(crate) fn quorum(&self) -> usize {
        quorum(self.votes.len())
    }

    pub(crate) fn decide(&self, kind: RoundKind) -> Decision {
        let quorum = self.quorum();
        // So few nodes neither form a quorum nor exclude one.
        if self.ended < quorum.min(self.votes.len() + 1 - quorum) {
            return Decision::Pending;
        }
        self.tally().decide(kind, quorum)
    }

    /// Counts the votes so far.
    pub(crate) fn tally(&self) -> Tally {
        let is_fenced = self.votes.iter().any(|vote| matches!(vote.outcome, Outcome::GrantedFenced(_)));
        let group = if is_fenced { self.together() } else { None };
        let vote = |index: usize| match self.outcome(index) {
            Outcome::GrantedFenced(_) if !self.is_counter_in(group.as_ref(), index) => VoteState::Failed,
            _ => self.votes[index].vote_state(),
        };
        if !self.aliases {
            return Tally::of((0..self.votes.len()).map(vote));
        }
        let voters = (0..self.votes.len()).filter(|index| self.first_of_server(*index) == *index);
        Tally::of(voters.map(|voter| {
            let same = (voter..self.votes.len()).filter(|index| self.first_of_server(*index) == voter);
            same.map(vote).max().unwrap_or(VoteState::Failed)
        }))
    }

    /// Returns the counters that nodes reported.
    ///
    /// Nodes that are one server have one counter, which is the greatest of their counters. One of these nodes may
    /// wrongly claim to be this server.
    pub(crate) fn counters(&self) -> impl Iterator<Item = FencingToken> + Clone {
        (0..self.votes.len()).filter_map(|index| self.counter(index))
    }

    /// Returns the counter that a node reported.
    ///
    /// `None` if it has none, or if another node is the same server and reported a greater one.
    fn counter(&self, index: usize) -> Option<FencingToken> {
        let counter_of = |index: usize| match self.outcome(index) {
            Outcome::GrantedFenced(counter) => Some(*counter),
            _ => None,
        };
        // If counters are equal, the first one counts.
        let rank = |index: usize| counter_of(index).map(|counter| (counter, usize::MAX - index));
        let same = |other: &usize| self.first_of_server(*other) == self.first_of_server(index);
        let exceeded =
            self.aliases && (0..self.votes.len()).filter(same).any(|other| rank(other) > rank(index));
        counter_of(index).filter(|_| !exceeded)
    }

    /// Returns the largest group of counters that are together.
    fn together(&self) -> Option<RangeInclusive<FencingToken>> {
        self.bound.together(&self.counters())
    }

    fn is_counter_in(&self, group: Option<&RangeInclusive<FencingToken>>, index: usize) -> bool {
        self.counter(index).zip(group).is_some_and(|(counter, group)| group.contains(&counter))
    }

    /// Describes the distance of a counter from the group that has votes.
    fn describe_distance(
        &self,
        group: Option<&RangeInclusive<FencingToken>>,
        index: usize,
    ) -> Option<String> {
        let (counter, group) = self.counter(index).zip(group)?;
        let seconds = |micros: u64| micros / 1_000_000;
        let (counter, least, most) = (counter.as_u64(), group.start().as_u64(), group.end().as_u64());
        match () {
            () if counter > most => Some(format!("{}s ahead of", seconds(counter - most))),
            () if counter < least => Some(format!("{}s behind", seconds(least - counter))),
            () => None,
        }
    }

    /// Returns what each voter sees of a resource.
    ///
    /// Nodes that are one server have one view, unless they [disagree](holder::of_server).
    pub(crate) fn holder_replies(&self) -> Vec<HolderReply<'_>> {
        let all = || 0..self.votes.len();
        let voters = all().filter(|index| self.first_of_server(*index) == *index);
        voters
            .flat_map(|voter| {
                let same = all().filter(move |index| self.first_of_server(*index) == voter);
                holder::of_server(same.map(|index| self.votes[index].reply()))
            })
            .collect()
    }

    /// Returns the number of waiters that an inspection has found.
    pub(crate) fn waiters(&self) -> Option<u32> {
        let stated = self.each_server().filter_map(|outcome| match outcome {
            Outcome::Free { waiters } => *waiters,
            Outcome::Held(entry) => entry.waiters.map(|others| with_reserved(others, &entry.token)),
            _ => None,
        });
        waiters::waiters(stated, self.quorum())
    }

    /// Returns the position of the request among the waiters, according to the denials.
    pub(crate) fn position(&self) -> Option<Position> {
        let stated = self.each_server().filter_map(|outcome| match outcome {
            Outcome::Denied(Denial { position: Some(Position { rank, waiters }), holder, .. }) => {
                let with_reserved =
                    |number| holder.as_ref().map_or(number, |holder| with_reserved(number, holder));
                Some(Position { rank: with_reserved(*rank), waiters: with_reserved(*waiters) })
            }
            _ => None,
        });
        waiters::position(&stated, self.quorum())
    }

    /// Returns one outcome of each server.
    fn each_server(&self) -> impl Iterator<Item = &Outcome> + Clone {
        (0..self.votes.len())
            .filter(|index| self.first_of_server(*index) == *index)
            .map(|index| self.outcome(index))
    }

    /// Returns a human-readable report for every node.
    pub(crate) fn reports<'a>(&self, now: Instant, label: impl Fn(usize) -> &'a str) -> Vec<NodeReport> {
        let so_far = now.saturating_duration_since(self.start);
        let group = self.together();
        let outcome = |index: usize| match self.describe_distance(group.as_ref(), index) {
            None => self.outcome(index).clone(),
            Some(how_far) => Outcome::Failed(NodeError::unknown(format!(
                "grant not counted: the fencing counter is {how_far} those of other nodes"
            ))),
        };
        let report = |(index, vote): (usize, &Vote)| NodeReport {
            index,
            label: label(index).to_owned(),
            outcome: outcome(index),
            latency: if matches!(vote.outcome, Outcome::Pending) { so_far } else { vote.latency },
            same_server_as: Some(self.first_of_server(index))
                .filter(|first| *first != index)
                .map(|i| (i, label(i).to_owned())),
        };
        self.votes.iter().enumerate().map(report).collect()
    }

    /// Returns the time until a quorum counts, if [quarantine](crate::decide::admission) is the obstacle.
    pub(crate) fn until_quorum(&self) -> Option<Duration> {
        let group = self.together();
        let countable = |index: usize| match self.outcome(index) {
            Outcome::Quarantined { quarantine, .. } => Countable::Later(quarantine.remaining),
            Outcome::Failed(_) | Outcome::TimedOut | Outcome::Pending => Countable::Unknown,
            _ if self.first_of_server(index) != index => Countable::Unknown,
            _ if self.describe_distance(group.as_ref(), index).is_some() => Countable::Unknown,
            _ => Countable::Now,
        };
        until_quorum((0..self.votes.len()).map(countable), self.quorum())
    }

    /// Returns whether one client has the resources on a quorum of nodes, according to the denials.
    pub(crate) fn contention(&self, is_confirmation: bool) -> Contention {
        contention(&self.denials(is_confirmation), self.tally().pending(), self.quorum())
    }

    /// Returns the holders that denials name; `None` for a denial that may be caused by any client.
    ///
    /// Nodes that are one server have one denial. A denial of a key that is gone is caused by no client. A confirmation is
    /// denied without a holder only if the key is gone.
    fn denials(&self, is_confirmation: bool) -> impl Iterator<Item = Option<&Token>> + Clone {
        let denials = self.votes.iter().enumerate().filter_map(|(index, vote)| {
            let is_same = |other: &Vote| other.server.is_some() && other.server == vote.server;
            let mut earlier = self.votes[..index].iter().filter(|other| is_same(other));
            vote.denial().filter(|_| earlier.all(|other| other.denial().is_none()))
        });
        let has_holder =
            move |denial: &&Denial| denial.holder.is_some() || !(denial.is_gone || is_confirmation);
        denials.filter(has_holder).map(|denial| denial.holder.as_ref())
    }

    /// Returns the holder that caused a denial, if a node reported it.
    pub(crate) fn holder(&self) -> Option<&Token> {
        report::holder(self.votes.iter().map(|vote| &vote.outcome))
    }

    /// Returns whether errors of this kind alone exclude a quorum.
    pub(crate) fn excludes_quorum(&self, kind: NodeErrorKind) -> bool {
        self.votes.len() - self.failures(kind) < self.quorum()
    }

    /// Returns the number of nodes that failed with an error of this kind.
    pub(crate) fn failures(&self, kind: NodeErrorKind) -> usize {
        let failed = |vote: &&Vote| match &vote.outcome {
            Outcome::Failed(error) => error.kind() == kind,
            _ => false,
        };
        self.votes.iter().filter(failed).count()
    }

    /// Returns the first node known to be the same server; itself, if none is.
    fn first_of_server(&self, index: usize) -> usize {
        let server = &self.votes[index].server;
        let first = || self.votes.iter().position(|vote| vote.server == *server);
        server.as_ref().and_then(|_| first()).unwrap_or(index)
    }
}

impl Vote {
    fn denial(&self) -> Option<&Denial> {
        match &self.outcome {
            Outcome::Denied(denial) => Some(denial),
            _ => None,
        }
    }

    fn reply(&self) -> HolderReply<'_> {
        match &self.outcome {
            Outcome::Free { .. } => HolderReply::Free,
            // Reserved for a waiter: no client holds the lock.
            Outcome::Held(entry) if entry.token.is_place() => HolderReply::Free,
            Outcome::Held(holding) => HolderReply::Held(holding),
            Outcome::Pending => HolderReply::Pending,
            _ => HolderReply::Failed,
        }
    }

    fn vote_state(&self) -> VoteState {
        match self.outcome {
            Outcome::Granted | Outcome::GrantedFenced(_) | Outcome::Released => VoteState::Granted,
            Outcome::Superseded(_) => VoteState::Superseded,
            // An inspection reply grants nothing.
            Outcome::Denied(_) | Outcome::NotHeld | Outcome::Free { .. } | Outcome::Held(_) => {
                VoteState::Denied
            }
            Outcome::Failed(_) | Outcome::TimedOut => VoteState::Failed,
            Outcome::Quarantined { .. } => VoteState::Quarantined,
            Outcome::Pending => VoteState::Pending,
        }
    }
}

/// Adds the waiter for which a node has reserved the resource. It is no longer among the places, and before all of them.
fn with_reserved(number: u32, holder: &Token) -> u32 {
    number.saturating_add(holder.is_place().into())
}

fn is_failure(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(_) | Outcome::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn votes(all: &[(Outcome, Option<&str>)]) -> Votes {
        let mut votes = Votes::new(Instant::ORIGIN, all.len(), Bound::of(Duration::from_secs(1)));
        for (index, (outcome, server)) in all.iter().enumerate() {
            votes.put(index, outcome.clone(), server.map(ServerId::new), Instant::ORIGIN);
        }
        votes
    }

    #[test]
    fn a_denial_of_a_key_that_is_gone_is_caused_by_no_client() {
        let holder = Token::from_bytes("a");
        let denied = |denial: &Denial| Outcome::Denied(denial.clone());
        let (named, unnamed, gone) = (Denial::by(holder.clone()), Denial::default(), Denial::of_gone_key());
        let all = [(denied(&named), None), (denied(&unnamed), None), (denied(&gone), None)];
        let denials = |all: &[(Outcome, Option<&str>)], is_confirmation| -> Vec<_> {
            votes(all).denials(is_confirmation).map(Option::<&Token>::cloned).collect()
        };
        assert_eq!(vec![Some(holder.clone()), None], denials(&all, false));
        assert_eq!(vec![Some(holder.clone())], denials(&all, true));
        let aliases =
            [(denied(&named), Some("s")), (Outcome::TimedOut, Some("s")), (denied(&named), Some("s"))];
        assert_eq!(vec![Some(holder)], denials(&aliases, false), "one server has one denial");
    }

    #[test]
    fn nodes_on_one_server_count_with_the_greatest_counter() {
        let counted = |number| Outcome::GrantedFenced(FencingToken::new(number).unwrap());
        let counters = |all: &[(Outcome, Option<&str>)]| -> Vec<_> {
            votes(all).counters().map(FencingToken::as_u64).collect()
        };
        let different =
            [(counted(7), Some("a")), (counted(9), Some("b")), (counted(8), None), (counted(8), None)];
        assert_eq!(vec![7, 9, 8, 8], counters(&different));
        let states = |first, second| {
            counters(&[
                (counted(first), Some("a")),
                (counted(5), None),
                (counted(second), Some("a")),
                (counted(5), None),
            ])
        };
        assert_eq!(vec![5, 9, 5], states(1, 9), "in either order of the replies");
        assert_eq!(vec![9, 5, 5], states(9, 1));
        assert_eq!(vec![9, 5, 5], states(9, 9));
        assert_eq!(vec![7], counters(&[(Outcome::TimedOut, Some("a")), (counted(7), Some("a"))]));
    }
}
