//! The responses of all nodes to one round.

use std::fmt;
use std::iter;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::decide::admission::{Countable, until_quorum};
use crate::decide::holder::{self, Contention, HolderReply, contention};
use crate::decide::tally::{Tally, VoteState};
use crate::inner::Inner;
use crate::node::{Denial, NodeError, NodeErrorKind, ServerId};
use crate::sync::locked;
use crate::telemetry;
use crate::types::error::{Error, ErrorKind};
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::report::{self, NodeReport, NodeReports, Outcome};
use crate::types::token::Token;

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

    pub(crate) fn record(
        &mut self,
        index: usize,
        outcome: Outcome,
        operation: &'static str,
        seen: Instant,
        inner: &Inner,
    ) {
        self.put(
            index,
            Response::record(outcome, operation, seen.saturating_duration_since(self.start), index, inner),
        );
    }

    pub(crate) fn put(&mut self, index: usize, response: Response) {
        let server = response.server;
        self.aliases |= server.is_some() && self.responses.iter().any(|other| other.server == server);
        self.responses[index] = response;
    }

    /// Counts the votes so far.
    ///
    /// Nodes that are one server have one vote, which is the strongest of their votes. Among the nodes that granted a
    /// fenced claim, only the largest group whose counters are [together](crate::decide::fencing) has a vote.
    pub(crate) fn tally(&self, inner: &Inner) -> Tally {
        let group = self.together(inner);
        let vote = |index: usize| match self.outcome(index) {
            Outcome::GrantedFenced(_) if !self.is_counter_in(group.as_ref(), index) => VoteState::Failed,
            _ => self.responses[index].vote_state(),
        };
        if !self.aliases {
            return Tally::of((0..self.responses.len()).map(vote));
        }
        let voters = (0..self.responses.len()).filter(|index| self.first_of_server(*index) == *index);
        Tally::of(voters.map(|voter| {
            let same = (voter..self.responses.len()).filter(|index| self.first_of_server(*index) == voter);
            same.map(vote).max().unwrap_or(VoteState::Failed)
        }))
    }

    /// Returns the counters that nodes reported.
    ///
    /// Nodes that are one server have one counter, which is the greatest of their counters. One of these nodes may
    /// wrongly claim to be this server.
    pub(crate) fn counters(&self) -> impl Iterator<Item = FencingToken> + Clone {
        (0..self.responses.len()).filter_map(|index| self.counter(index))
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
            self.aliases && (0..self.responses.len()).filter(same).any(|other| rank(other) > rank(index));
        counter_of(index).filter(|_| !exceeded)
    }

    /// Returns the largest group of counters that are together.
    fn together(&self, inner: &Inner) -> Option<RangeInclusive<FencingToken>> {
        inner.counter_bound.together(&self.counters())
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
    pub(crate) fn reports(&self, inner: &Inner) -> Vec<NodeReport> {
        let so_far = inner.now().saturating_duration_since(self.start);
        let label = |index: usize| inner.peers[index].node.label().to_owned();
        let group = self.together(inner);
        let outcome = |index: usize| match self.describe_distance(group.as_ref(), index) {
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
    pub(crate) fn error(&self, kind: ErrorKind, message: String, inner: &Inner) -> Error {
        let nodes = NodeReports(self.reports(inner));
        let quarantine = until_quorum(nodes.iter().map(countable), inner.quorum());
        Error::new(kind, message).with_nodes(nodes, quarantine)
    }

    /// Returns whether one client has the resources on a quorum of nodes, according to the denials.
    ///
    pub(crate) fn contention(&self, inner: &Inner, is_confirmation: bool) -> Contention {
        contention(&self.denials(is_confirmation), self.tally(inner).pending(), inner.quorum())
    }

    /// Returns the holders that denials name; `None` for a denial that may be caused by any client.
    ///
    /// Nodes that are one server have one denial. A denial of a key that is gone is caused by no client. A confirmation is
    /// denied without a holder only if the key is gone.
    fn denials(&self, is_confirmation: bool) -> impl Iterator<Item = Option<&Token>> + Clone {
        let denials = self.responses.iter().enumerate().filter_map(|(index, response)| {
            let is_same = |other: &Response| other.server.is_some() && other.server == response.server;
            let mut earlier = self.responses[..index].iter().filter(|other| is_same(other));
            response.denial().filter(|_| earlier.all(|other| other.denial().is_none()))
        });
        let has_holder =
            move |denial: &&Denial| denial.holder.is_some() || !(denial.is_gone || is_confirmation);
        denials.filter(has_holder).map(|denial| denial.holder.as_ref())
    }

    /// Returns the holder that caused a denial, if a node reported it.
    pub(crate) fn holder(&self) -> Option<&Token> {
        report::holder(self.responses.iter().map(|response| &response.outcome))
    }

    /// Returns why there is no quorum of grants. Example: `2 of 5 nodes extended, 3 required: 2 denied, 1 failed`.
    pub(crate) fn too_few(&self, granted: &str, inner: &Inner) -> String {
        let (tally, nodes, quorum) = (self.tally(inner), self.responses.len(), inner.quorum());
        format!("{} of {nodes} nodes {granted}, {quorum} required: {}", tally.granted(), tally.others())
    }

    /// Returns how many nodes deny, for example `3 of 5 nodes`.
    pub(crate) fn denied(&self, inner: &Inner) -> String {
        format!("{} of {} nodes", self.tally(inner).denied(), self.responses.len())
    }

    /// Returns why there is no quorum of replies. Example: `2 of 3 nodes failed, so no quorum of 2`.
    ///
    /// The round ends as soon as these nodes exclude a quorum. Nothing is known then about nodes that have not replied,
    /// so the text does not mention them.
    pub(crate) fn too_few_replies(&self, inner: &Inner) -> String {
        let missing = self.tally(inner).missing(self.responses.len());
        format!("{missing}, so no quorum of {}", inner.quorum())
    }

    /// Returns why `what`, such as `lock "a"`, failed for lack of replies.
    pub(crate) fn no_quorum(&self, what: fmt::Arguments<'_>, inner: &Inner) -> String {
        format!("cannot {what}: {}", self.too_few_replies(inner))
    }

    /// Returns why `what`, such as `lock "a"`, failed because of values that are not locks.
    pub(crate) fn wrong_type(&self, what: fmt::Arguments<'_>) -> String {
        let (nodes, wrong) = (self.responses.len(), self.failures(NodeErrorKind::WrongType));
        format!(
            "cannot {what}: the key holds a non-lock value on {wrong} of {nodes} nodes; another program uses the name"
        )
    }

    /// Returns why `what`, such as `lock "a"`, failed because of damaged fencing counters.
    pub(crate) fn damaged_counter(&self, what: fmt::Arguments<'_>) -> String {
        let (nodes, damaged) = (self.responses.len(), self.failures(NodeErrorKind::DamagedCounter));
        format!("cannot {what}: the fencing counter is damaged on {damaged} of {nodes} nodes")
    }

    /// Returns whether errors of this kind alone exclude a quorum.
    pub(crate) fn excludes_quorum(&self, kind: NodeErrorKind, inner: &Inner) -> bool {
        self.responses.len() - self.failures(kind) < inner.quorum()
    }

    /// Returns the number of nodes that failed with an error of this kind.
    fn failures(&self, kind: NodeErrorKind) -> usize {
        let failed = |response: &&Response| match &response.outcome {
            Outcome::Failed(error) => error.kind() == kind,
            _ => false,
        };
        self.responses.iter().filter(failed).count()
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
    pub(crate) fn record(
        outcome: Outcome,
        operation: &'static str,
        latency: Duration,
        index: usize,
        inner: &Inner,
    ) -> Self {
        let peer = &inner.peers[index];
        telemetry::voted(operation, peer.node.label(), &outcome, latency);
        let server = match outcome {
            Outcome::Failed(_) | Outcome::TimedOut | Outcome::Pending => None,
            _ => *locked(&peer.server),
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

    fn denial(&self) -> Option<&Denial> {
        match &self.outcome {
            Outcome::Denied(denial) => Some(denial),
            _ => None,
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
            Outcome::Granted | Outcome::GrantedFenced(_) | Outcome::Released => VoteState::Granted,
            Outcome::Superseded(_) => VoteState::Superseded,
            // An inspection reply grants nothing.
            Outcome::Denied(_) | Outcome::NotHeld | Outcome::Free | Outcome::Held(_) => VoteState::Denied,
            Outcome::Failed(_) | Outcome::TimedOut => VoteState::Failed,
            Outcome::Quarantined { .. } => VoteState::Quarantined,
            Outcome::Pending => VoteState::Pending,
        }
    }
}

/// Returns when the next vote of a node can count.
fn countable(node: &NodeReport) -> Countable {
    match &node.outcome {
        Outcome::Quarantined { quarantine, .. } => Countable::Later(quarantine.remaining),
        Outcome::Failed(_) | Outcome::TimedOut | Outcome::Pending => Countable::Unknown,
        _ if node.same_server_as.is_some() => Countable::Unknown,
        _ => Countable::Now,
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
    fn a_denial_of_a_key_that_is_gone_is_caused_by_no_client() {
        let holder = Token::from_bytes("a");
        let denied = |denial: &Denial| Outcome::Denied(denial.clone());
        let (named, unnamed, gone) = (Denial::by(holder.clone()), Denial::default(), Denial::of_gone_key());
        let all = [(denied(&named), None), (denied(&unnamed), None), (denied(&gone), None)];
        let denials = |votes: &[(Outcome, Option<&str>)], is_confirmation| -> Vec<_> {
            responses(votes).denials(is_confirmation).map(Option::<&Token>::cloned).collect()
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
        assert_eq!(vec![5, 9, 5], states(1, 9), "in either order of the replies");
        assert_eq!(vec![9, 5, 5], states(9, 1));
        assert_eq!(vec![9, 5, 5], states(9, 9));
        assert_eq!(vec![7], counters(&[(Outcome::TimedOut, Some("a")), (counted(7), Some("a"))]));
    }
}
