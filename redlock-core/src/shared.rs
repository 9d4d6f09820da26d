//! What all handles, leases and background work of one [`Redlock`](crate::Redlock) share.
//!
//! Two counts of references end two things. [`Presence`] is held by what users hold: when the last one is gone, chases
//! have a grace period left. [`Shared`] is held by background work too, and with it the nodes: when it is gone, so are
//! the nodes' connections.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use event_listener::{Event, EventListener};

use crate::chase::Chaser;
use crate::clock::Instant;
use crate::decide::fencing::Bound;
use crate::decide::tally::quorum;
use crate::decide::validity::DriftFactor;
use crate::error::{Error, ErrorKind};
use crate::limiter::Limiter;
use crate::node::LockNode;
use crate::owner::Owner;
use crate::report::NodeReports;
use crate::resource::Resource;
use crate::runtime::Runtime;
use crate::throttle::Throttle;
use crate::wait::Queues;

pub(crate) struct Shared {
    pub(crate) members: Box<[Member]>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) settings: Settings,
    pub(crate) queues: Queues,
    pub(crate) limiter: Limiter,
    /// For the warning that new locks are denied, since there are too many.
    pub(crate) overload: Throttle,
    /// By how much the counters of nodes may differ that vote on a fenced claim.
    pub(crate) counter_bound: Bound,
    /// Rounds and releases under way, in whichever task.
    busy: AtomicUsize,
    closed: AtomicBool,
    /// Nodes whose cleanup is behind.
    pub(crate) nodes_behind: AtomicUsize,
    /// Keys whose cleanup was given up: they are left to their TTL.
    abandoned_keys: AtomicU64,
    /// Whether a runtime has ended while chases were not over.
    pub(crate) chases_stopped: AtomicBool,
    /// Fires when something outstanding may have ended.
    idle: Event,
    closing: Event,
    abandoned: OnceLock<Instant>,
}

/// One configured node, and what is still to be undone there.
pub(crate) struct Member {
    pub(crate) node: Arc<dyn LockNode>,
    pub(crate) chaser: Chaser,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) node_timeout: Duration,
    pub(crate) retry_delay: Duration,
    /// How many attempts may be in flight at once, and how many renewals.
    pub(crate) max_concurrent_attempts: usize,
    /// Whether tasks of this process queue for a resource.
    pub(crate) local_queue: bool,
    pub(crate) drift: DriftFactor,
    pub(crate) owner: Option<Owner>,
}

impl Shared {
    pub(crate) fn new(nodes: Vec<Arc<dyn LockNode>>, runtime: Arc<dyn Runtime>, settings: Settings) -> Self {
        let retention = nodes.iter().map(|node| node.capabilities().fence_retention).min();
        let member = |node| Member { node, chaser: Chaser::default() };
        let limiter = Limiter::new(settings.max_concurrent_attempts);
        Self {
            members: nodes.into_iter().map(member).collect(),
            runtime,
            settings,
            queues: Queues::default(),
            limiter,
            overload: Throttle::default(),
            counter_bound: Bound::of(retention.unwrap_or_default()),
            busy: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            nodes_behind: AtomicUsize::new(0),
            abandoned_keys: AtomicU64::new(0),
            chases_stopped: AtomicBool::new(false),
            idle: Event::new(),
            closing: Event::new(),
            abandoned: OnceLock::new(),
        }
    }

    pub(crate) fn quorum(&self) -> usize {
        quorum(self.members.len())
    }

    /// Whether fencing tokens can be had: every node must give them out.
    pub(crate) fn check_fencing(&self) -> Result<(), Error> {
        match self.members.iter().enumerate().find(|(_, member)| !member.node.capabilities().fencing) {
            None => Ok(()),
            Some((index, member)) => {
                let message = format!("node {index} ({}) gives out no fencing tokens", member.node.label());
                Err(Error::new(ErrorKind::Unsupported, message, NodeReports::default()))
            }
        }
    }

    /// Checks whether every node can lock resources of these names.
    pub(crate) fn check_names(&self, resources: &[Resource]) -> Result<(), Error> {
        let check = |member: &Member| resources.iter().try_for_each(|resource| member.node.check(resource));
        self.members.iter().try_for_each(check)
    }

    pub(crate) fn now(&self) -> Instant {
        self.runtime.now()
    }

    /// Counts as outstanding until it is dropped.
    pub(crate) fn ticket(self: &Arc<Self>) -> Ticket {
        self.busy.fetch_add(1, Ordering::SeqCst);
        Ticket(Arc::clone(self))
    }

    /// Asked by work that counts already: either it sees the closing, or the closing sees it. Hence the one order of all
    /// four accesses.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.closing.notify(usize::MAX);
    }

    /// Whether nothing is under way and nothing is to be undone.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::SeqCst) == 0 && self.members.iter().all(|member| member.chaser.is_empty())
    }

    /// The cleanup of so many claims on one node was given up.
    pub(crate) fn gave_up_cleanup(&self, claims: usize) {
        if claims > 0 {
            self.abandoned_keys.fetch_add(claims as u64, Ordering::Relaxed);
        }
    }

    /// Claims on single nodes whose cleanup was given up so far, or is not carried out since there is no runtime.
    pub(crate) fn abandoned_cleanups(&self) -> u64 {
        let waiting: usize = self.members.iter().map(|member| member.chaser.len()).sum();
        self.abandoned_keys.load(Ordering::Relaxed) + waiting as u64
    }

    /// Something outstanding has ended.
    pub(crate) fn notify(&self) {
        self.idle.notify(usize::MAX);
    }

    /// Listens for the end of something outstanding. Listen first, then look.
    pub(crate) fn listen(&self) -> EventListener {
        self.idle.listen()
    }

    /// Listens for the closing. Listen first, then look.
    pub(crate) fn listen_for_closing(&self) -> EventListener {
        self.closing.listen()
    }

    /// When the last handle was dropped, if it was.
    pub(crate) fn abandoned(&self) -> Option<Instant> {
        self.abandoned.get().copied()
    }
}

/// Something outstanding.
pub(crate) struct Ticket(Arc<Shared>);

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.0.busy.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.notify();
        }
    }
}

/// What a user's handles and leases hold.
pub(crate) struct Presence(pub(crate) Arc<Shared>);

impl Deref for Presence {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let _ = self.0.abandoned.set(self.0.now());
    }
}

/// Locks a mutex whose critical sections leave consistent values behind even when they panic.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
