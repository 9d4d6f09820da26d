//! What a holder has: the claim, until when it is valid, and what may lie on the nodes.
//!
//! Whether a lease is valid is never stored: it is computed from the clock at each call. What is stored is the deadline,
//! which only moves later, and for each node the [`Trace`] of our writes there, which says what a release must achieve.
//! A lease that was released never begins another write: both happen under the same mutex, and a write that had begun
//! before is known to the release, whether or not it has been sent by then.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::claim::Claim;
use crate::clock::Instant;
use crate::decide::pursuit::{Pursuit, Trace};
use crate::error::{Error, ErrorKind};
use crate::extend;
use crate::node::NodeErrorKind;
use crate::report::{NodeReport, NodeReports, Outcome};
use crate::resource::Resource;
use crate::round::Ballots;
use crate::shared::{Presence, Shared, locked};
use crate::token::Fingerprint;
use crate::ttl::Ttl;

/// A view of a held lock: what it is on, how long it is valid, whether it still is. Extends it, never releases it.
///
/// Clones are views of the same lease; dropping one does nothing. It does not keep the lock: when the [`Guard`] that
/// owns the lock is released or dropped, or the validity has passed, every view says that it is not held.
///
/// [`Guard`]: crate::Guard
#[derive(Clone)]
pub struct Lease(Arc<Holding>);

struct Holding {
    presence: Arc<Presence>,
    claim: Claim,
    state: Mutex<State>,
}

struct State {
    /// At this moment the lease is no longer valid. The origin of time as long as no quorum has granted.
    deadline: Instant,
    /// The TTL of the round that the deadline comes from: so long do its keys live.
    ttl: Option<Ttl>,
    released: bool,
    traces: Vec<Trace>,
    /// The votes of the acquisition, stragglers included.
    ballots: Option<Ballots>,
}

impl Lease {
    /// What is locked: at least one resource, sorted.
    pub fn resources(&self) -> &[Resource] {
        self.0.claim.resources()
    }

    /// How much longer the lock may be relied on, by the clock, as of now. Zero once it may not: the validity has
    /// passed, or the lock was released.
    ///
    /// Time spent suspended counts, so this is right also when the machine has just woken up.
    pub fn remaining(&self) -> Duration {
        let state = locked(&self.0.state);
        if state.released {
            return Duration::ZERO;
        }
        state.deadline.saturating_duration_since(self.shared().now())
    }

    /// Whether the lock may be relied on at this moment: whether [`remaining`](Lease::remaining) is more than zero.
    ///
    /// The answer ages: by the time it is used the validity may have passed. Before an effect that must not happen
    /// twice, compare `remaining` with the time that the effect takes.
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// What tells this lock's token from others in logs and errors. The token itself is a secret.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.claim.token().fingerprint()
    }

    /// What every node said when the lock was acquired, in the order in which the nodes were configured. Nodes that had
    /// not answered when a quorum had granted are pending, until they answer.
    pub fn votes(&self) -> Vec<NodeReport> {
        let ballots = locked(&self.0.state).ballots.clone();
        ballots.map(|ballots| ballots.reports(self.shared())).unwrap_or_default()
    }

    /// Makes the lock valid for `ttl` from now, less drift, if a quorum of all nodes still holds it. Never shortens it:
    /// the deadline afterwards is the later of the old and the new.
    ///
    /// Returns at the first moment when the outcome is certain, within the node timeout in any case. Afterwards, nodes
    /// that have lost the lock's keys, or never had them, get them back in the background.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a TTL out of bounds; [`Expired`](ErrorKind::Expired) when the validity has
    /// passed, since a lease is not revived; [`Lost`](ErrorKind::Lost) when a quorum does not hold the lock, or it was
    /// released; [`NoQuorum`](ErrorKind::NoQuorum) when too few nodes answered. A failed extension changes nothing: the
    /// old deadline stands, and the lock may be used until then.
    ///
    /// # Cancel safety
    ///
    /// Dropped after its first poll, the extension goes on in the background, and may or may not take effect.
    pub async fn extend(&self, ttl: Duration) -> Result<(), Error> {
        extend::extend(self, Ttl::new(ttl)?).await
    }

    /// A lease that no node has granted yet.
    pub(crate) fn new(presence: Arc<Presence>, claim: Claim) -> Self {
        let mut traces = vec![Trace::default(); presence.members.len()];
        for (trace, member) in traces.iter_mut().zip(&presence.members) {
            trace.begin(member.node.connection());
        }
        let state = State { deadline: Instant::ORIGIN, ttl: None, released: false, traces, ballots: None };
        Self(Arc::new(Holding { presence, claim, state: Mutex::new(state) }))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.presence
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.0.claim
    }

    /// A quorum granted: the lease is valid until `deadline`, or until the deadline it has, whichever is later.
    pub(crate) fn hold_until(&self, deadline: Instant, ttl: Ttl) {
        let mut state = locked(&self.0.state);
        if deadline > state.deadline {
            (state.deadline, state.ttl) = (deadline, Some(ttl));
        }
    }

    /// Keeps the votes of the acquisition, as they are now.
    pub(crate) fn keep_votes(&self, ballots: Ballots) {
        locked(&self.0.state).ballots = Some(ballots);
    }

    /// Keeps a vote that was seen later.
    pub(crate) fn keep_vote(&self, index: usize, outcome: Outcome, seen: Instant) {
        if let Some(kept) = &mut locked(&self.0.state).ballots {
            kept.cast(index, outcome, seen, self.shared());
        }
    }

    /// The outcome of a write that was begun on a node has become known, or has become unknowable.
    pub(crate) fn settle(&self, index: usize, outcome: &Outcome) {
        let written = match outcome {
            Outcome::Granted => true,
            Outcome::Refused(_) => false,
            Outcome::Failed(error) if error.kind() != NodeErrorKind::Unknown => false,
            Outcome::Failed(_) | Outcome::TimedOut => return locked(&self.0.state).traces[index].lose(),
            Outcome::Pending => return,
        };
        locked(&self.0.state).traces[index].settle(written);
    }

    /// Begins to write to nodes that have lost the claim, and says with which TTL: the one that the deadline comes from,
    /// so that the new keys outlive it as the others do. Not once the lease was released or its validity has passed.
    ///
    pub(crate) fn begin_refill(&self, nodes: &[usize]) -> Option<Ttl> {
        let mut state = locked(&self.0.state);
        if state.released || state.deadline <= self.shared().now() {
            return None;
        }
        for index in nodes {
            state.traces[*index].begin(self.shared().members[*index].node.connection());
        }
        state.ttl
    }

    /// Ends the lease: from now on no write begins. Answers what releases must achieve that are sent now.
    pub(crate) fn end(&self) -> Vec<Pursuit> {
        let mut state = locked(&self.0.state);
        state.released = true;
        state.traces.iter().map(|trace| trace.pursue()).collect()
    }

    /// What a release must achieve that is sent to a node now, after the end.
    pub(crate) fn pursuit(&self, index: usize) -> Pursuit {
        locked(&self.0.state).traces[index].pursue()
    }

    /// The error of an operation that is refused before anything is sent.
    pub(crate) fn error(&self, kind: ErrorKind, what: &str) -> Error {
        Error::new(
            kind,
            format!("the lock on {} {what}", self.claim().all_resources()),
            NodeReports::default(),
        )
    }

    pub(crate) fn is_released(&self) -> bool {
        locked(&self.0.state).released
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("resources", self.claim().all_resources())
            .field("token", self.claim().token())
            .field("remaining", &self.remaining())
            .finish()
    }
}
