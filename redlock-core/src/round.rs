//! One request to all nodes at once, and the count of their votes.

use std::fmt;
use std::future::poll_fn;
use std::iter;
use std::ops::RangeInclusive;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::broken::{Variant, broken};
use crate::calls::{Call, Calls, Ending};
use crate::clock::Instant;
use crate::decide::sight::{self, Sight};
use crate::decide::tally::{Decision, Question, Standing, Tally};
use crate::error::{Error, ErrorKind};
use crate::fencing::FencingToken;
use crate::node::{Holding, LockNode, NodeError, NodeErrorKind, ServerId, Vote};
use crate::observe::{self, Operation};
use crate::report::{self, NodeReport, NodeReports, Outcome};
use crate::shared::Shared;
use crate::token::Token;
use crate::ttl::Ttl;

pub(crate) struct Round<'a> {
    shared: &'a Shared,
    question: Question,
    /// How many must agree.
    pub(crate) quorum: usize,
    operation: Operation,
    calls: Calls<'a>,
    pub(crate) ballots: Ballots,
}

/// What each node has said in one round, by its index.
#[derive(Clone, Debug)]
pub(crate) struct Ballots {
    pub(crate) start: Instant,
    ballots: Vec<Ballot>,
    /// Whether nodes have turned out to be one server.
    aliases: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Ballot {
    outcome: Outcome,
    latency: Duration,
    /// Which server answered.
    server: Option<ServerId>,
}

impl<'a> Round<'a> {
    /// Prepares the request to every node; they are sent when the round is first polled. The clock starts here.
    pub(crate) fn new(
        shared: &'a Shared,
        question: Question,
        operation: Operation,
        limit: Duration,
        request: impl Fn(usize, &'a dyn LockNode) -> Call<'a>,
    ) -> Self {
        Self::since(shared.now(), shared, question, operation, limit, request)
    }

    /// The same; the clock has started already, at `start`.
    pub(crate) fn since(
        start: Instant,
        shared: &'a Shared,
        question: Question,
        operation: Operation,
        limit: Duration,
        request: impl Fn(usize, &'a dyn LockNode) -> Call<'a>,
    ) -> Self {
        let calls = shared.members.iter().enumerate().map(|(index, member)| request(index, &*member.node));
        let calls = Calls::new(&*shared.runtime, start, limit, calls);
        Self {
            shared,
            question,
            quorum: shared.quorum(),
            operation,
            calls,
            ballots: Ballots::new(start, shared.members.len()),
        }
    }

    /// The next node whose outcome is known; `None` when all are. Safe to drop and ask again.
    pub(crate) async fn next(&mut self) -> Option<usize> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The calls that have not ended, and the votes so far: for whoever keeps the votes from now on.
    pub(crate) fn into_parts(self) -> (Calls<'a>, Ballots) {
        (self.calls, self.ballots)
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let Some((index, ending)) = ready!(self.calls.poll_next(cx)) else { return Poll::Ready(None) };
        self.ballots.cast(index, ending.into(), self.operation, self.calls.seen(), self.shared);
        Poll::Ready(Some(index))
    }

    /// When the last vote was seen.
    pub(crate) fn seen(&self) -> Instant {
        self.calls.seen()
    }

    pub(crate) fn decision(&self) -> Decision {
        if broken(Variant::WaitsForAll) && self.ballots.is_open() {
            return Decision::Open;
        }
        self.ballots.tally(self.shared).decide(self.question, self.quorum)
    }

    /// Until when a lease is valid that this round has granted.
    pub(crate) fn deadline(&self, ttl: Ttl) -> Instant {
        let start = match () {
            () if broken(Variant::ElapsedIgnored) => self.shared.now(),
            () if broken(Variant::ValidityFromReply) => self.ballots.first_reply(),
            () => self.ballots.start,
        };
        self.shared.settings.drift.deadline(start, ttl)
    }
}

impl From<Ending> for Outcome {
    fn from(ending: Ending) -> Self {
        outcome(ending, |vote| match vote {
            Vote::Granted => Self::Granted,
            Vote::Refused(refusal) => Self::Refused(refusal),
            Vote::Counted(counter) => Self::Counted(counter),
            Vote::Superseded(counter) => Self::Superseded(counter),
        })
    }
}

impl From<Ending<Option<Holding>>> for Outcome {
    fn from(ending: Ending<Option<Holding>>) -> Self {
        outcome(ending, |found| found.map_or(Self::Free, Self::Held))
    }
}

fn outcome<T>(ending: Ending<T>, of: impl FnOnce(T) -> Outcome) -> Outcome {
    match ending {
        Ending::Answered(answer) => of(answer),
        Ending::Failed(error) => Outcome::Failed(error),
        Ending::TimedOut => Outcome::TimedOut,
    }
}

impl Ballots {
    pub(crate) fn new(start: Instant, nodes: usize) -> Self {
        let pending = || Ballot { outcome: Outcome::Pending, latency: Duration::ZERO, server: None };
        Self { start, ballots: iter::repeat_with(pending).take(nodes).collect(), aliases: false }
    }

    pub(crate) fn outcome(&self, index: usize) -> &Outcome {
        &self.ballots[index].outcome
    }

    pub(crate) fn is_pending(&self, index: usize) -> bool {
        matches!(self.outcome(index), Outcome::Pending)
    }

    pub(crate) fn ballot(&self, index: usize) -> &Ballot {
        &self.ballots[index]
    }

    /// Whether there was no answer, and will be none.
    pub(crate) fn has_failed(&self, index: usize) -> bool {
        matches!(self.outcome(index), Outcome::Failed(_) | Outcome::TimedOut)
    }

    fn is_open(&self) -> bool {
        (0..self.ballots.len()).any(|index| self.is_pending(index))
    }

    fn first_reply(&self) -> Instant {
        let replied = (0..self.ballots.len()).filter(|index| !self.is_pending(*index));
        self.start + replied.map(|index| self.ballots[index].latency).min().unwrap_or_default()
    }

    /// When the outcome of a node was seen.
    pub(crate) fn seen(&self, index: usize) -> Instant {
        self.start + self.ballots[index].latency
    }

    pub(crate) fn cast(
        &mut self,
        index: usize,
        outcome: Outcome,
        operation: Operation,
        seen: Instant,
        shared: &Shared,
    ) {
        self.put(
            index,
            Ballot::cast(outcome, operation, seen.saturating_duration_since(self.start), index, shared),
        );
    }

    pub(crate) fn put(&mut self, index: usize, ballot: Ballot) {
        let server = ballot.server;
        self.aliases |= server.is_some() && self.ballots.iter().any(|other| other.server == server);
        self.ballots[index] = ballot;
    }

    /// The votes so far. Nodes that are one server have one vote: the strongest of theirs. Of those that granted a fenced
    /// claim, only the largest group whose counters are together has a vote.
    pub(crate) fn tally(&self, shared: &Shared) -> Tally {
        let group = self.together(shared);
        let standing = |index: usize| match self.outcome(index) {
            Outcome::Counted(_) if !self.is_counter_in(group.as_ref(), index) => Standing::Failed,
            _ => self.ballots[index].standing(),
        };
        if !self.aliases {
            return Tally::of((0..self.ballots.len()).map(standing));
        }
        let voters = (0..self.ballots.len()).filter(|index| self.first_of_server(*index) == *index);
        Tally::of(voters.map(|voter| {
            let same = (voter..self.ballots.len()).filter(|index| self.first_of_server(*index) == voter);
            same.map(standing).max().unwrap_or(Standing::Failed)
        }))
    }

    /// The counters that were answered. Nodes that are one server have one, the greatest of theirs: one of them may only
    /// state that it is this server.
    pub(crate) fn counters(&self) -> impl Iterator<Item = FencingToken> + Clone {
        (0..self.ballots.len()).filter_map(|index| self.counter(index))
    }

    /// The counter that a node answered; `None` also where another node, which is the same server, answered a greater one.
    fn counter(&self, index: usize) -> Option<FencingToken> {
        let answered = |index: usize| match self.outcome(index) {
            Outcome::Counted(counter) => Some(*counter),
            _ => None,
        };
        // Of equal ones the first counts.
        let rank = |index: usize| answered(index).map(|counter| (counter, usize::MAX - index));
        let same = |other: &usize| self.first_of_server(*other) == self.first_of_server(index);
        let beaten =
            self.aliases && (0..self.ballots.len()).filter(same).any(|other| rank(other) > rank(index));
        answered(index).filter(|_| !beaten)
    }

    /// The largest group of counters that are together.
    fn together(&self, shared: &Shared) -> Option<RangeInclusive<FencingToken>> {
        shared.counter_bound.together(&self.counters())
    }

    fn is_counter_in(&self, group: Option<&RangeInclusive<FencingToken>>, index: usize) -> bool {
        self.counter(index).zip(group).is_some_and(|(counter, group)| group.contains(&counter))
    }

    /// By how much the counter of a node is away from the group that has votes, in words.
    fn astray(&self, group: Option<&RangeInclusive<FencingToken>>, index: usize) -> Option<String> {
        let (counter, group) = self.counter(index).zip(group)?;
        let seconds = |micros: u64| micros / 1_000_000;
        let (counter, least, most) = (counter.as_u64(), group.start().as_u64(), group.end().as_u64());
        match () {
            () if counter > most => Some(format!("{}s ahead of", seconds(counter - most))),
            () if counter < least => Some(format!("{}s behind", seconds(least - counter))),
            () => None,
        }
    }

    /// The answer of a node turned out to be none.
    pub(crate) fn discard(&mut self, index: usize, error: NodeError) {
        self.ballots[index].outcome = Outcome::Failed(error);
    }

    /// What each voter sees of a resource. Nodes that are one server have one sight, unless they
    /// [disagree](sight::of_server).
    pub(crate) fn sights(&self) -> Vec<Sight<'_>> {
        let all = || 0..self.ballots.len();
        let voters = all().filter(|index| self.first_of_server(*index) == *index);
        voters
            .flat_map(|voter| {
                let same = all().filter(move |index| self.first_of_server(*index) == voter);
                sight::of_server(same.map(|index| self.ballots[index].sight()))
            })
            .collect()
    }

    /// What every node said, for people.
    pub(crate) fn reports(&self, shared: &Shared) -> Vec<NodeReport> {
        let so_far = shared.now().saturating_duration_since(self.start);
        let label = |index: usize| shared.members[index].node.label().to_owned();
        let group = self.together(shared);
        let outcome = |index: usize| match self.astray(group.as_ref(), index) {
            None => self.outcome(index).clone(),
            Some(how_far) => Outcome::Failed(NodeError::unknown(format!(
                "granted, without a vote: its fencing counter is {how_far} those of other nodes"
            ))),
        };
        let report = |(index, ballot): (usize, &Ballot)| NodeReport {
            index,
            label: label(index),
            outcome: outcome(index),
            latency: if matches!(ballot.outcome, Outcome::Pending) { so_far } else { ballot.latency },
            same_server_as: Some(self.first_of_server(index))
                .filter(|first| *first != index)
                .map(|i| (i, label(i))),
        };
        self.ballots.iter().enumerate().map(report).collect()
    }

    /// An error about `what` with every node's report.
    pub(crate) fn error(&self, kind: ErrorKind, message: String, shared: &Shared) -> Error {
        Error::new(kind, message, NodeReports(self.reports(shared)))
    }

    /// Who holds what was refused, where a node named somebody.
    pub(crate) fn holder(&self) -> Option<&Token> {
        report::holder(self.ballots.iter().map(|ballot| &ballot.outcome))
    }

    /// Why there is no quorum of grants: `2 of 5 nodes extended, 3 required: 2 denied, 1 failed`.
    pub(crate) fn too_few(&self, granted: &str, shared: &Shared) -> String {
        let (tally, nodes, quorum) = (self.tally(shared), self.ballots.len(), shared.quorum());
        format!("{} of {nodes} nodes {granted}, {quorum} required: {}", tally.granted(), tally.others())
    }

    /// How many nodes deny: `3 of 5 nodes`.
    pub(crate) fn denied(&self, shared: &Shared) -> String {
        format!("{} of {} nodes", self.tally(shared).denied(), self.ballots.len())
    }

    /// Why there is no quorum of replies: `only 1 of 3 nodes available, 2 required`.
    pub(crate) fn too_few_available(&self, shared: &Shared) -> String {
        let (available, nodes, quorum) =
            (self.tally(shared).may_answer(), self.ballots.len(), shared.quorum());
        format!("only {available} of {nodes} nodes available, {quorum} required")
    }

    /// Why `what`, such as `lock "a"`, failed for want of replies: nodes failed, or hold something other than a lock.
    pub(crate) fn no_quorum(&self, what: fmt::Arguments<'_>, shared: &Shared) -> (ErrorKind, String) {
        let (nodes, wrong) = (self.ballots.len(), self.wrong_type());
        if nodes - wrong < shared.quorum() {
            let message = format!(
                "cannot {what}: the key holds a non-lock value on {wrong} of {nodes} nodes; \
                 another program uses the name"
            );
            return (ErrorKind::WrongType, message);
        }
        let (too_few, outliers) = (self.too_few_available(shared), self.outliers(shared));
        (ErrorKind::NoQuorum, format!("cannot {what}: {too_few}{outliers}"))
    }

    /// Which nodes have granted and have no vote, in words; nothing where there are none.
    fn outliers(&self, shared: &Shared) -> String {
        let group = self.together(shared);
        let outlier = |index: usize| {
            let how_far = self.astray(group.as_ref(), index)?;
            let label = shared.members[index].node.label();
            Some(format!("; the fencing counter of node {index} ({label}) is {how_far} those of other nodes"))
        };
        (0..self.ballots.len()).filter_map(outlier).collect()
    }

    /// How many nodes have something other than a lock under the key.
    fn wrong_type(&self) -> usize {
        let wrong = |ballot: &&Ballot| match &ballot.outcome {
            Outcome::Failed(error) => error.kind() == NodeErrorKind::WrongType,
            _ => false,
        };
        self.ballots.iter().filter(wrong).count()
    }

    /// The first node that is known to be the same server as this one; itself, if none is.
    fn first_of_server(&self, index: usize) -> usize {
        let server = &self.ballots[index].server;
        let first = || self.ballots.iter().position(|ballot| ballot.server == *server);
        server.as_ref().and_then(|_| first()).unwrap_or(index)
    }
}

impl Ballot {
    /// What a node has said after `latency`, and who it turns out to be.
    pub(crate) fn cast(
        outcome: Outcome,
        operation: Operation,
        latency: Duration,
        index: usize,
        shared: &Shared,
    ) -> Self {
        let node = &shared.members[index].node;
        observe::voted(operation, node.label(), &outcome, latency);
        let server = match outcome {
            Outcome::Failed(_) | Outcome::TimedOut | Outcome::Pending => None,
            _ => node.server(),
        };
        Self { outcome, latency, server }
    }

    /// The same; an error says what has failed.
    pub(crate) fn of(self, what: &str) -> Self {
        match self.outcome {
            Outcome::Failed(error) => Self { outcome: Outcome::Failed(error.of(what)), ..self },
            _ => self,
        }
    }

    fn sight(&self) -> Sight<'_> {
        match &self.outcome {
            Outcome::Free => Sight::Free,
            Outcome::Held(holding) => Sight::Held(holding),
            Outcome::Pending => Sight::Pending,
            _ => Sight::Failed,
        }
    }

    fn standing(&self) -> Standing {
        match self.outcome {
            Outcome::Granted | Outcome::Counted(_) => Standing::Granted,
            Outcome::Superseded(_) => Standing::Superseded,
            // What an inspection finds is an answer, and grants nothing.
            Outcome::Refused(_) | Outcome::Free | Outcome::Held(_) => Standing::Refused,
            Outcome::TimedOut if broken(Variant::TimeoutsAreRefusals) => Standing::Refused,
            Outcome::Failed(_) | Outcome::TimedOut => Standing::Failed,
            Outcome::Pending => Standing::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballots(votes: &[(Outcome, Option<&str>)]) -> Ballots {
        let mut ballots = Ballots::new(Instant::ORIGIN, votes.len());
        for (index, (outcome, server)) in votes.iter().enumerate() {
            let (outcome, server) = (outcome.clone(), server.map(ServerId::new));
            ballots.put(index, Ballot { outcome, latency: Duration::ZERO, server });
        }
        ballots
    }

    #[test]
    fn of_one_server_the_greatest_counter_counts() {
        let counted = |number| Outcome::Counted(FencingToken::new(number).unwrap());
        let counters = |votes: &[(Outcome, Option<&str>)]| -> Vec<_> {
            ballots(votes).counters().map(FencingToken::as_u64).collect()
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
        assert_eq!(vec![5, 9, 5], states(1, 9), "whichever answers first");
        assert_eq!(vec![9, 5, 5], states(9, 1));
        assert_eq!(vec![9, 5, 5], states(9, 9));
        assert_eq!(vec![7], counters(&[(Outcome::TimedOut, Some("a")), (counted(7), Some("a"))]));
    }
}
