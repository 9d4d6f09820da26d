//! One request to all nodes at once, and the count of their votes.

use std::fmt;
use std::future::poll_fn;
use std::iter;
use std::ops::RangeInclusive;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::decide::holder::{self, HolderReply};
use crate::decide::tally::{Decision, RoundKind, Tally, VoteState};
use crate::inner::Inner;
use crate::node::{LockEntry, LockNode, NodeError, NodeErrorKind, ServerId, Vote};
use crate::protocol::fan_out::{Call, Calls, Ending};
use crate::telemetry::{self, Operation};
use crate::types::error::{Error, ErrorKind};
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::report::{self, NodeReport, NodeReports, Outcome};
use crate::types::token::Token;
use crate::types::ttl::Ttl;

pub(crate) struct Round<'a> {
    shared: &'a Inner,
    question: RoundKind,
    operation: Operation,
    calls: Calls<'a>,
    pub(crate) responses: Responses,
}

/// The replies of all nodes in one round, by node index.
#[derive(Clone, Debug)]
pub(crate) struct Responses {
    pub(crate) start: Instant,
    responses: Vec<Response>,
    /// True if several nodes have turned out to be one server.
    aliases: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Response {
    outcome: Outcome,
    latency: Duration,
    /// The server that replied.
    server: Option<ServerId>,
}

impl<'a> Round<'a> {
    /// Prepares the request to every node, and starts the clock. The requests are sent at the first poll of the round.
    pub(crate) fn new(
        shared: &'a Inner,
        question: RoundKind,
        operation: Operation,
        limit: Duration,
        request: impl Fn(usize, &'a dyn LockNode) -> Call<'a>,
    ) -> Self {
        Self::since(shared.now(), shared, question, operation, limit, request)
    }

    /// Same as [`new`](Round::new), with a clock that started at `start`.
    pub(crate) fn since(
        start: Instant,
        shared: &'a Inner,
        question: RoundKind,
        operation: Operation,
        limit: Duration,
        request: impl Fn(usize, &'a dyn LockNode) -> Call<'a>,
    ) -> Self {
        let calls = shared.peers.iter().enumerate().map(|(index, peer)| request(index, &*peer.node));
        let calls = Calls::new(&*shared.runtime, start, limit, calls);
        Self { shared, question, operation, calls, responses: Responses::new(start, shared.peers.len()) }
    }

    /// Returns the next node whose outcome is known; `None` when all are.
    ///
    /// This future may be dropped: no outcome is lost.
    pub(crate) async fn next(&mut self) -> Option<usize> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Returns the calls that have not ended, and the votes so far. The caller keeps the votes from now on.
    pub(crate) fn into_parts(self) -> (Calls<'a>, Responses) {
        (self.calls, self.responses)
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let Some((index, ending)) = ready!(self.calls.poll_next(cx)) else { return Poll::Ready(None) };
        self.responses.record(index, ending.into(), self.operation, self.calls.completed_at(), self.shared);
        Poll::Ready(Some(index))
    }

    /// Returns when the last vote was seen.
    pub(crate) fn completed_at(&self) -> Instant {
        self.calls.completed_at()
    }

    pub(crate) fn decision(&self) -> Decision {
        self.responses.tally(self.shared).decide(self.question, self.shared.quorum())
    }

    /// Returns the end of the validity of a lease that this round has granted.
    pub(crate) fn deadline(&self, ttl: Ttl) -> Instant {
        self.shared.settings.drift.deadline(self.responses.start, ttl)
    }
}

impl From<Ending> for Outcome {
    fn from(ending: Ending) -> Self {
        outcome(ending, |vote| match vote {
            Vote::Granted => Self::Granted,
            Vote::Denied(refusal) => Self::Denied(refusal),
            Vote::Counted(counter) => Self::Counted(counter),
            Vote::Superseded(counter) => Self::Superseded(counter),
        })
    }
}

impl From<Ending<Option<LockEntry>>> for Outcome {
    fn from(ending: Ending<Option<LockEntry>>) -> Self {
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

impl Responses {
    pub(crate) fn new(start: Instant, nodes: usize) -> Self {
        let pending = || Response { outcome: Outcome::Pending, latency: Duration::ZERO, server: None };
        Self { start, responses: iter::repeat_with(pending).take(nodes).collect(), aliases: false }
    }

    pub(crate) fn outcome(&self, index: usize) -> &Outcome {
        &self.responses[index].outcome
    }

    pub(crate) fn is_pending(&self, index: usize) -> bool {
        matches!(self.outcome(index), Outcome::Pending)
    }

    pub(crate) fn response(&self, index: usize) -> &Response {
        &self.responses[index]
    }

    /// Returns whether the node has not replied and no longer can.
    pub(crate) fn has_failed(&self, index: usize) -> bool {
        matches!(self.outcome(index), Outcome::Failed(_) | Outcome::TimedOut)
    }

    /// Returns when the outcome of a node was seen.
    pub(crate) fn completed_at(&self, index: usize) -> Instant {
        self.start + self.responses[index].latency
    }

    pub(crate) fn record(
        &mut self,
        index: usize,
        outcome: Outcome,
        operation: Operation,
        seen: Instant,
        shared: &Inner,
    ) {
        self.put(
            index,
            Response::cast(outcome, operation, seen.saturating_duration_since(self.start), index, shared),
        );
    }

    pub(crate) fn put(&mut self, index: usize, response: Response) {
        let server = response.server;
        self.aliases |= server.is_some() && self.responses.iter().any(|other| other.server == server);
        self.responses[index] = response;
    }

    /// Counts the votes so far.
    ///
    /// Nodes that are one server have one vote, the strongest of theirs. Of the nodes that granted a fenced claim, only
    /// the largest group whose counters are [together](crate::decide::fencing) has a vote.
    pub(crate) fn tally(&self, shared: &Inner) -> Tally {
        let group = self.together(shared);
        let standing = |index: usize| match self.outcome(index) {
            Outcome::Counted(_) if !self.is_counter_in(group.as_ref(), index) => VoteState::Failed,
            _ => self.responses[index].vote_state(),
        };
        if !self.aliases {
            return Tally::of((0..self.responses.len()).map(standing));
        }
        let voters = (0..self.responses.len()).filter(|index| self.first_of_server(*index) == *index);
        Tally::of(voters.map(|voter| {
            let same = (voter..self.responses.len()).filter(|index| self.first_of_server(*index) == voter);
            same.map(standing).max().unwrap_or(VoteState::Failed)
        }))
    }

    /// Returns the counters that nodes reported.
    ///
    /// Nodes that are one server have one counter, the greatest of theirs, because one of them may wrongly claim to be
    /// this server.
    pub(crate) fn counters(&self) -> impl Iterator<Item = FencingToken> + Clone {
        (0..self.responses.len()).filter_map(|index| self.counter(index))
    }

    /// Returns the counter that a node reported.
    ///
    /// `None` if it has none, or if another node is the same server and reported a greater one.
    fn counter(&self, index: usize) -> Option<FencingToken> {
        let answered = |index: usize| match self.outcome(index) {
            Outcome::Counted(counter) => Some(*counter),
            _ => None,
        };
        // Of equal counters, the first one counts.
        let rank = |index: usize| answered(index).map(|counter| (counter, usize::MAX - index));
        let same = |other: &usize| self.first_of_server(*other) == self.first_of_server(index);
        let beaten =
            self.aliases && (0..self.responses.len()).filter(same).any(|other| rank(other) > rank(index));
        answered(index).filter(|_| !beaten)
    }

    /// Returns the largest group of counters that are together.
    fn together(&self, shared: &Inner) -> Option<RangeInclusive<FencingToken>> {
        shared.counter_bound.together(&self.counters())
    }

    fn is_counter_in(&self, group: Option<&RangeInclusive<FencingToken>>, index: usize) -> bool {
        self.counter(index).zip(group).is_some_and(|(counter, group)| group.contains(&counter))
    }

    /// Describes the distance of a counter from the group that has votes.
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

    /// Replaces an invalid reply of a node with an error.
    pub(crate) fn discard(&mut self, index: usize, error: NodeError) {
        self.responses[index].outcome = Outcome::Failed(error);
    }

    /// Returns what each voter sees of a resource.
    ///
    /// Nodes that are one server have one view, unless they [disagree](holder::of_server).
    pub(crate) fn holder_replies(&self) -> Vec<HolderReply<'_>> {
        let all = || 0..self.responses.len();
        let voters = all().filter(|index| self.first_of_server(*index) == *index);
        voters
            .flat_map(|voter| {
                let same = all().filter(move |index| self.first_of_server(*index) == voter);
                holder::of_server(same.map(|index| self.responses[index].reply()))
            })
            .collect()
    }

    /// Returns a human-readable report for every node.
    pub(crate) fn reports(&self, shared: &Inner) -> Vec<NodeReport> {
        let so_far = shared.now().saturating_duration_since(self.start);
        let label = |index: usize| shared.peers[index].node.label().to_owned();
        let group = self.together(shared);
        let outcome = |index: usize| match self.astray(group.as_ref(), index) {
            None => self.outcome(index).clone(),
            Some(how_far) => Outcome::Failed(NodeError::unknown(format!(
                "grant not counted: the fencing counter is {how_far} those of other nodes"
            ))),
        };
        let report = |(index, response): (usize, &Response)| NodeReport {
            index,
            label: label(index),
            outcome: outcome(index),
            latency: if matches!(response.outcome, Outcome::Pending) { so_far } else { response.latency },
            same_server_as: Some(self.first_of_server(index))
                .filter(|first| *first != index)
                .map(|i| (i, label(i))),
        };
        self.responses.iter().enumerate().map(report).collect()
    }

    /// Creates an error with the report of every node.
    pub(crate) fn error(&self, kind: ErrorKind, message: String, shared: &Inner) -> Error {
        Error::new(kind, message, NodeReports(self.reports(shared)))
    }

    /// Returns the holder that caused a denial, if a node reported it.
    pub(crate) fn holder(&self) -> Option<&Token> {
        report::holder(self.responses.iter().map(|response| &response.outcome))
    }

    /// Returns why there is no quorum of grants. Example: `2 of 5 nodes extended, 3 required: 2 denied, 1 failed`.
    pub(crate) fn too_few(&self, granted: &str, shared: &Inner) -> String {
        let (tally, nodes, quorum) = (self.tally(shared), self.responses.len(), shared.quorum());
        format!("{} of {nodes} nodes {granted}, {quorum} required: {}", tally.granted(), tally.others())
    }

    /// Returns how many nodes deny, for example `3 of 5 nodes`.
    pub(crate) fn denied(&self, shared: &Inner) -> String {
        format!("{} of {} nodes", self.tally(shared).denied(), self.responses.len())
    }

    /// Returns why there is no quorum of replies. Example: `only 1 of 3 nodes available, 2 required`.
    pub(crate) fn too_few_available(&self, shared: &Inner) -> String {
        let (available, nodes, quorum) =
            (self.tally(shared).possible_answers(), self.responses.len(), shared.quorum());
        format!("only {available} of {nodes} nodes available, {quorum} required")
    }

    /// Returns why `what`, such as `lock "a"`, failed for lack of replies.
    ///
    /// Nodes failed, or their keys hold a non-lock value.
    pub(crate) fn no_quorum(&self, what: fmt::Arguments<'_>, shared: &Inner) -> (ErrorKind, String) {
        let (nodes, wrong) = (self.responses.len(), self.wrong_type());
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

    /// Describes the nodes that granted without a vote; empty if there are none.
    fn outliers(&self, shared: &Inner) -> String {
        let group = self.together(shared);
        let outlier = |index: usize| {
            let how_far = self.astray(group.as_ref(), index)?;
            let label = shared.peers[index].node.label();
            Some(format!("; the fencing counter of node {index} ({label}) is {how_far} those of other nodes"))
        };
        (0..self.responses.len()).filter_map(outlier).collect()
    }

    /// Returns the number of nodes whose key holds a non-lock value.
    fn wrong_type(&self) -> usize {
        let wrong = |response: &&Response| match &response.outcome {
            Outcome::Failed(error) => error.kind() == NodeErrorKind::WrongType,
            _ => false,
        };
        self.responses.iter().filter(wrong).count()
    }

    /// Returns the first node known to be the same server; itself, if none is.
    fn first_of_server(&self, index: usize) -> usize {
        let server = &self.responses[index].server;
        let first = || self.responses.iter().position(|response| response.server == *server);
        server.as_ref().and_then(|_| first()).unwrap_or(index)
    }
}

impl Response {
    /// Records the reply of a node after `latency`, and the server that replied.
    pub(crate) fn cast(
        outcome: Outcome,
        operation: Operation,
        latency: Duration,
        index: usize,
        shared: &Inner,
    ) -> Self {
        let node = &shared.peers[index].node;
        telemetry::voted(operation, node.label(), &outcome, latency);
        let server = match outcome {
            Outcome::Failed(_) | Outcome::TimedOut | Outcome::Pending => None,
            _ => node.server(),
        };
        Self { outcome, latency, server }
    }

    /// Adds the name of the failed operation to an error.
    pub(crate) fn of(self, what: &str) -> Self {
        match self.outcome {
            Outcome::Failed(error) => Self { outcome: Outcome::Failed(error.of(what)), ..self },
            _ => self,
        }
    }

    fn reply(&self) -> HolderReply<'_> {
        match &self.outcome {
            Outcome::Free => HolderReply::Free,
            Outcome::Held(holding) => HolderReply::Held(holding),
            Outcome::Pending => HolderReply::Pending,
            _ => HolderReply::Failed,
        }
    }

    fn vote_state(&self) -> VoteState {
        match self.outcome {
            Outcome::Granted | Outcome::Counted(_) => VoteState::Granted,
            Outcome::Superseded(_) => VoteState::Superseded,
            // An inspection reply grants nothing.
            Outcome::Denied(_) | Outcome::Free | Outcome::Held(_) => VoteState::Refused,
            Outcome::Failed(_) | Outcome::TimedOut => VoteState::Failed,
            Outcome::Pending => VoteState::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn responses(votes: &[(Outcome, Option<&str>)]) -> Responses {
        let mut responses = Responses::new(Instant::ORIGIN, votes.len());
        for (index, (outcome, server)) in votes.iter().enumerate() {
            let (outcome, server) = (outcome.clone(), server.map(ServerId::new));
            responses.put(index, Response { outcome, latency: Duration::ZERO, server });
        }
        responses
    }

    #[test]
    fn of_one_server_the_greatest_counter_counts() {
        let counted = |number| Outcome::Counted(FencingToken::new(number).unwrap());
        let counters = |votes: &[(Outcome, Option<&str>)]| -> Vec<_> {
            responses(votes).counters().map(FencingToken::as_u64).collect()
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
