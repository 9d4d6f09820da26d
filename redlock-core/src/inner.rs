//! The state of one [`Redlock`](crate::Redlock), shared by all parts of it.
//!
//! Two reference counts end two things. Handles and leases of the user hold a [`Handle`]. When the last one is gone,
//! cleanup has a grace period left. Background work holds [`Inner`] too, and with it the nodes. When that is gone, the
//! connections of the nodes are closed.

#[cfg(all(test, loom))]
mod loom_tests;

use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use event_listener::{Event, EventListener};

use crate::decide::fencing::Bound;
use crate::decide::tally::quorum;
use crate::decide::validity::DriftFactor;
use crate::node::{LockNode, Profile, Request, ServerId};
use crate::protocol::cleanup::CleanupQueue;
use crate::runtime::Runtime;
use crate::sync::{Mutex, locked};
use crate::telemetry::quarantine::QuarantineLog;
use crate::telemetry::throttle::Throttle;
use crate::types::error::{Error, ErrorKind};
use crate::types::instant::Instant;
use crate::types::owner::Owner;
use crate::types::report::Outcome;
use crate::types::resource::Resource;
use crate::types::ttl::Ttl;
use crate::wait::limiter::Limiter;
use crate::wait::local_queue::LocalQueues;

pub(crate) struct Inner {
    pub(crate) peers: Box<[Peer]>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) settings: Settings,
    pub(crate) queues: LocalQueues,
    pub(crate) limiter: Limiter,
    /// The throttle of the warning about overload.
    pub(crate) overload: Throttle,
    /// The maximum difference of node counters that vote on a fenced claim.
    pub(crate) counter_bound: Bound,
    /// The longest TTL that all nodes permit, if any is limited.
    longest_ttl: Option<Duration>,
    work: Mutex<Work>,
    /// Notified when outstanding work may have ended.
    idle: Event,
    closing: Event,
}

/// The outstanding work of one client, and its end.
#[derive(Default)]
struct Work {
    /// The number of rounds and releases in progress, in any task.
    in_flight: usize,
    closed: bool,
    /// The time when the last handle was dropped.
    unused_since: Option<Instant>,
    /// True if a runtime has ended before its cleanup was done.
    cleanup_stopped: bool,
    /// The number of nodes whose cleanup is behind.
    nodes_behind: usize,
    /// The number of claims on single nodes whose cleanup was abandoned. Their keys expire with the TTL.
    abandoned: u64,
}

/// One configured node, and its pending cleanup.
pub(crate) struct Peer {
    pub(crate) node: Arc<dyn LockNode>,
    pub(crate) profile: Profile,
    pub(crate) cleanup: CleanupQueue,
    quarantines: QuarantineLog,
    pub(crate) replies: ReplyCount,
    /// The server of the last request.
    pub(crate) server: Mutex<Option<ServerId>>,
}

impl Peer {
    fn new(node: Arc<dyn LockNode>) -> Self {
        Self {
            profile: node.profile(),
            node,
            cleanup: CleanupQueue::default(),
            quarantines: QuarantineLog::default(),
            replies: ReplyCount::default(),
            server: Mutex::default(),
        }
    }

    /// Reports whether the votes of the node count, if the outcome of a request shows that this has changed.
    pub(crate) fn note(&self, request: &Request, outcome: &Outcome) {
        if request.is_vote() && self.profile.longest_ttl.is_some() {
            self.quarantines.note(self.node.label(), outcome);
        }
    }
}

/// The number of replies of a node so far; it wraps around.
#[derive(Debug, Default)]
pub(crate) struct ReplyCount(AtomicU32);

impl ReplyCount {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) node_timeout: Duration,
    pub(crate) retry_delay: Duration,
    /// The maximum number of attempts in flight, and of renewals.
    pub(crate) max_concurrent_attempts: usize,
    /// True if tasks of this process queue for a resource.
    pub(crate) local_queue: bool,
    pub(crate) drift: DriftFactor,
    pub(crate) owner: Option<Owner>,
}

impl Settings {
    /// Returns the time limit for one node while a TTL is running.
    ///
    /// It is at most half of the TTL, so that a quorum of late replies leaves usable validity.
    pub(crate) fn timeout_within(&self, ttl: Ttl) -> Duration {
        self.node_timeout.min(ttl.as_duration() / 2)
    }
}

impl Inner {
    pub(crate) fn new(nodes: Vec<Arc<dyn LockNode>>, runtime: Arc<dyn Runtime>, settings: Settings) -> Self {
        let peers: Box<[Peer]> = nodes.into_iter().map(Peer::new).collect();
        let retention = peers.iter().map(|peer| peer.profile.fence_retention).min();
        let longest_ttl = peers.iter().filter_map(|peer| peer.profile.longest_ttl).min();
        let limiter = Limiter::new(settings.max_concurrent_attempts);
        Self {
            peers,
            runtime,
            settings,
            queues: LocalQueues::default(),
            limiter,
            overload: Throttle::default(),
            counter_bound: Bound::of(retention.unwrap_or_default()),
            longest_ttl,
            work: Mutex::default(),
            idle: Event::new(),
            closing: Event::new(),
        }
    }

    pub(crate) fn quorum(&self) -> usize {
        quorum(self.peers.len())
    }

    /// Checks that every node supports fencing tokens.
    pub(crate) fn check_fencing(&self) -> Result<(), Error> {
        match self.peers.iter().enumerate().find(|(_, peer)| !peer.profile.fencing) {
            None => Ok(()),
            Some((index, peer)) => {
                let message = format!(
                    "cannot issue fencing tokens: node {index} ({}) does not support them",
                    peer.node.label()
                );
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    /// Checks that every node supports readers, and the gate as a name.
    pub(crate) fn check_sharing(&self, gate: &Resource) -> Result<(), Error> {
        if let Some(peer) = self.peers.iter().find(|peer| !peer.profile.shared) {
            let message = format!("cannot share locks: node {} does not support it", peer.node.label());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        self.check_call(std::slice::from_ref(gate))
    }

    /// Checks the TTL of a request against the limits of the nodes.
    pub(crate) fn check_ttl(&self, ttl: Ttl) -> Result<Ttl, Error> {
        match self.longest_ttl {
            Some(longest) if ttl.as_duration() > longest => {
                Err(Error::invalid(format!("the TTL of {ttl:?} is longer than longest_ttl, {longest:?}")))
            }
            _ => Ok(ttl),
        }
    }

    /// Checks the runtime of the caller, and that every node can lock resources with these names.
    pub(crate) fn check_call(&self, resources: &[Resource]) -> Result<(), Error> {
        self.runtime.check()?;
        let check = |peer: &Peer| resources.iter().try_for_each(|resource| peer.node.check(resource));
        self.peers.iter().try_for_each(check)
    }

    pub(crate) fn now(&self) -> Instant {
        self.runtime.now()
    }

    /// Returns a value that counts as outstanding work until it is dropped.
    pub(crate) fn ticket(self: &Arc<Self>) -> InFlight {
        locked(&self.work).in_flight += 1;
        InFlight(Arc::clone(self))
    }

    /// Returns whether the client is closed.
    ///
    /// The caller counts as outstanding already: either it sees the closing, or the closing sees it.
    pub(crate) fn is_closed(&self) -> bool {
        locked(&self.work).closed
    }

    pub(crate) fn close(&self) {
        locked(&self.work).closed = true;
        self.closing.notify(usize::MAX);
    }

    /// Returns whether no work is in progress and no cleanup is pending.
    pub(crate) fn is_idle(&self) -> bool {
        // Work that ends may leave cleanup behind, so the queues are read later.
        locked(&self.work).in_flight == 0 && self.peers.iter().all(|peer| peer.cleanup.is_empty())
    }

    /// Counts claims on one node whose cleanup was abandoned.
    pub(crate) fn record_abandoned_cleanup(&self, claims: usize) {
        if claims > 0 {
            locked(&self.work).abandoned += claims as u64;
        }
    }

    /// Returns the number of claims on single nodes whose cleanup was abandoned.
    ///
    /// It includes queued cleanup, which is not carried out without a runtime.
    pub(crate) fn abandoned_cleanup(&self) -> u64 {
        let waiting: usize = self.peers.iter().map(|peer| peer.cleanup.len()).sum();
        locked(&self.work).abandoned + waiting as u64
    }

    /// Notifies listeners that outstanding work has ended.
    pub(crate) fn notify_idle(&self) {
        self.idle.notify(usize::MAX);
    }

    /// Listens for the end of outstanding work. Listen first, then check.
    pub(crate) fn listen_for_idle(&self) -> EventListener {
        self.idle.listen()
    }

    /// Listens for the closing. Listen first, then check.
    pub(crate) fn listen_for_closing(&self) -> EventListener {
        self.closing.listen()
    }

    /// Returns when the last handle was dropped, if it was.
    pub(crate) fn unused_since(&self) -> Option<Instant> {
        locked(&self.work).unused_since
    }

    /// Records that cleanup is queued which no task carries out.
    ///
    /// Queue it, or end its task, before the call: [`take_stopped_cleanup`](Self::take_stopped_cleanup) then finds it.
    pub(crate) fn stop_cleanup(&self) {
        locked(&self.work).cleanup_stopped = true;
    }

    /// Returns whether cleanup has stopped, and forgets it: the caller restarts all cleanup.
    pub(crate) fn take_stopped_cleanup(&self) -> bool {
        mem::take(&mut locked(&self.work).cleanup_stopped)
    }

    pub(crate) fn is_cleanup_stopped(&self) -> bool {
        locked(&self.work).cleanup_stopped
    }

    /// Counts a node whose cleanup is behind, or is not any more.
    pub(crate) fn count_node_behind(&self, is_behind: bool) {
        let mut work = locked(&self.work);
        work.nodes_behind = if is_behind { work.nodes_behind + 1 } else { work.nodes_behind - 1 };
    }

    /// Returns the number of nodes whose cleanup is behind.
    pub(crate) fn nodes_behind(&self) -> usize {
        locked(&self.work).nodes_behind
    }
}

/// One unit of outstanding work.
pub(crate) struct InFlight(Arc<Inner>);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut work = locked(&self.0.work);
        work.in_flight -= 1;
        let was_last = work.in_flight == 0;
        drop(work);
        if was_last {
            self.0.notify_idle();
        }
    }
}

/// The reference that handles and leases of the user hold.
pub(crate) struct Handle(pub(crate) Arc<Inner>);

impl Deref for Handle {
    type Target = Arc<Inner>;

    fn deref(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let now = self.0.now();
        locked(&self.0.work).unused_since.get_or_insert(now);
    }
}
