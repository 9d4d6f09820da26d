//! Release: compare-and-delete on every node, including those that are not known to have the claim.
//!
//! Once the releases are sent, the next task of this process may send its attempt behind them. A node carries out the
//! requests of one connection in the order in which they were sent, so it finds the key deleted. This requires that the
//! outcome of every write on the node is known. The turn passes if a quorum of nodes fulfills this: the attempt needs no
//! more, and no task waits for a minority. The nodes decide about the attempt as always.

use std::mem;
use std::sync::Arc;

use crate::decide::quorums::Counts;
use crate::decide::tally::{Cause as Lost, Decision, RoundKind};
use crate::decide::votes::Votes;
use crate::lease::record::{Ending, Record};
use crate::node::{ConnectionId, Request};
use crate::round::engine::{Run, run};
use crate::round::failure::{Aim, Failure};
use crate::round::nodes::Nodes;
use crate::round::{Heard, Io, Round, Rules};
use crate::telemetry;
use crate::types::claim::Claim;
use crate::types::instant::Instant;
use crate::types::report::ReleaseOutcome;

/// The releases of a lease that has ended.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Release {
    rules: Rules,
    pub(super) record: Arc<Record>,
    /// The claim of the releases.
    claim: Claim,
    /// True if the next task has its turn only once the releases are confirmed.
    is_open_turn: bool,
    /// The outcome, as far as it was known before the nodes replied.
    pub(super) before: ReleaseOutcome,
    pub(super) votes: Votes,
    /// The numbers of nodes that carry out the release before what is sent to them next; `None` if no task waits for the
    /// turn.
    in_order: Option<Counts>,
    /// True from the first release on.
    is_sent: bool,
    /// True if an event and a metric show the outcome.
    is_recorded: bool,
}

/// Ends a lease, and prepares its releases.
pub(crate) fn begin(nodes: &Arc<Nodes>, record: &Arc<Record>) -> Run<Release> {
    let now = nodes.now();
    carry_out(nodes, Release::new(nodes.rules, Arc::clone(record), now), now)
}

/// Releases a lost lease whose guard still exists, in the background.
///
/// No event `lease released` and no `redlock_releases_total` shows it, because the release by the owner is counted.
pub(crate) fn begin_of_lost(nodes: &Arc<Nodes>, record: &Arc<Record>, ending: Ending) {
    let now = nodes.now();
    let round = Release { is_recorded: false, ..Release::of(nodes.rules, Arc::clone(record), ending, now) };
    carry_out(nodes, round, now).in_background();
}

fn carry_out(nodes: &Arc<Nodes>, round: Release, now: Instant) -> Run<Release> {
    let span = telemetry::release(&round.record.claim);
    run(nodes, round, now, nodes.rules.node_timeout, span)
}

impl Release {
    /// Ends the lease. What may have been written is read here, before the first release is sent: a write that becomes
    /// known later may have been carried out after it.
    pub(super) fn new(rules: Rules, record: Arc<Record>, now: Instant) -> Self {
        let ending = record.end(now);
        Self::of(rules, record, ending, now)
    }

    fn of(rules: Rules, record: Arc<Record>, ending: Ending, now: Instant) -> Self {
        let Ending { outcome: before, claim, is_open_turn } = ending;
        Self {
            rules,
            record,
            claim,
            is_open_turn,
            before,
            votes: rules.votes(now),
            in_order: None,
            is_sent: false,
            is_recorded: true,
        }
    }

    fn outcome(&self) -> Option<Result<ReleaseOutcome, Failure>> {
        let mut is_open = false;
        for (list, tally) in self.votes.tallies() {
            if tally.possible_replies() < list.quorum() {
                return Some(Err(Failure::no_quorum(Aim::Release, self.votes.clone())));
            }
            is_open |= tally.replies() < list.quorum();
        }
        if is_open {
            return None;
        }
        Some(Ok(match (self.before, self.votes.decide(RoundKind::Extend)) {
            (ReleaseOutcome::Released, Decision::Lost(Some(Lost::Denied))) => ReleaseOutcome::AlreadyLost,
            (before, _) => before,
        }))
    }
}

impl Round for Release {
    type Tag = ();
    type Output = Result<ReleaseOutcome, Failure>;

    fn start(&mut self, io: &mut Io<()>) {
        io.send_to_all(self.rules.nodes(), ());
    }

    fn request(&self, _node: usize, (): ()) -> Option<Request> {
        Some(Request::Release(self.claim.clone()))
    }

    /// Wakes the next task before the first release is sent. If the runtime has one thread, that task then runs before
    /// the tasks that drive the connections. Thus each connection sends the release and the attempt in one write. A task
    /// that runs earlier than that, on another thread, finds that it still waits.
    ///
    /// A release in the background is sent later than it is prepared. The next task may have come in between.
    fn sent(&mut self, node: usize, (): (), connection: Option<ConnectionId>) {
        if !mem::replace(&mut self.is_sent, true) {
            self.in_order = (!self.is_open_turn && self.record.wake_next()).then(Counts::default);
        }
        if let Some(in_order) = &mut self.in_order {
            let is_settled = self.record.with(|state| !state.peers[node].writes.has_unsettled());
            if connection.is_some() && is_settled {
                self.rules.quorums.add(node, in_order);
            }
        }
    }

    fn all_sent(&mut self) {
        if self.in_order.is_some_and(|counts| self.rules.quorums.are_met_by_counts(counts)) {
            self.record.hand_over();
        }
    }

    fn heard(&mut self, heard: Heard<()>, io: &mut Io<()>) {
        io.follow_up(&self.record, &heard, self.rules.node_timeout);
        self.votes.put(heard.node, heard.outcome, heard.server, heard.at);
    }

    fn result(&mut self, _now: Instant, _io: &mut Io<()>) -> Option<Self::Output> {
        let outcome = self.outcome()?;
        self.record.leave_queue();
        if self.is_recorded {
            telemetry::released(&self.record.claim, outcome.as_ref().copied().map_err(Failure::kind));
        }
        Some(outcome)
    }

    fn interrupt(&mut self, now: Instant, io: &mut Io<()>) {
        io.leave_all(&self.record, now);
        self.record.leave_queue();
    }
}
