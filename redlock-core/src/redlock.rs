//! The handle that applications hold.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::builder::Builder;
use crate::clock::Instant;
use crate::detached::DetachedLease;
use crate::error::Error;
use crate::guard::Guard;
use crate::health::{self, Health};
use crate::inspect::{self, Inspection};
use crate::lease::Lease;
use crate::release::Released;
use crate::request::{LockRequest, TryLockRequest};
use crate::resource::{IntoResource, IntoResources};
use crate::resume;
use crate::run_error::RunError;
use crate::runtime::Runtime;
use crate::shared::Presence;

/// A distributed lock over N independent nodes. Cheap to clone; clones share everything.
///
/// It has no type parameters: a service that holds one is tested with fake nodes and run with real ones, unchanged.
///
/// # What drop does
///
/// Nothing while there are clones, guards or leases. After the last of them, connections close as soon as what is to be
/// undone on a node has been, or after a minute. [`close`](Redlock::close) waits for that without limit.
#[derive(Clone)]
pub struct Redlock(Arc<Presence>);

impl Redlock {
    /// Collects nodes and settings, for nodes of one's own; an adapter crate has a `builder` that takes addresses.
    pub fn builder(runtime: impl Runtime) -> Builder {
        Builder::new(Arc::new(runtime))
    }

    /// Locks a resource, or several all or none: [`LockRequest`], to be awaited. Waits up to 10 s by default.
    ///
    /// `ttl` is how long the lock is held when nothing more is heard of its holder: 10 ms to 24 days, as of
    /// [`Ttl`](crate::Ttl). Less drift, and less the time that acquiring took, it is how long the guard may be relied on.
    pub fn lock(&self, resources: impl IntoResources, ttl: Duration) -> LockRequest {
        LockRequest::new(self.0.clone(), resources.into_resources(), ttl)
    }

    /// Makes a single attempt, and answers `None` when someone else has the lock: [`TryLockRequest`], to be awaited. `ttl`
    /// is as of [`lock`](Redlock::lock). If too many attempts are [in flight](Builder::max_concurrent_attempts), it waits for its
    /// turn for up to 10 s, and then fails with [`Overloaded`](crate::ErrorKind::Overloaded).
    pub fn try_lock(&self, resources: impl IntoResources, ttl: Duration) -> TryLockRequest {
        TryLockRequest::new(self.0.clone(), resources.into_resources(), ttl)
    }

    /// Runs `work` under the lock and returns its output. Short for [`lock`](Redlock::lock) and [`LockRequest::run`].
    ///
    /// The lock is kept alive while the work runs, and the work is dropped when the lock is lost. The future does not
    /// borrow the `Redlock`, so it can be spawned. See [`LockRequest::run`] for work that blocks its thread.
    ///
    /// # Errors
    ///
    /// Same as [`LockRequest::run`]. If the work finished after the lock had been lost, the error contains the
    /// [output](RunError::output).
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, or the work panics, the work is dropped and the lock is released in the background.
    pub fn run<R, F, W>(
        &self,
        resources: R,
        ttl: Duration,
        work: F,
    ) -> impl Future<Output = Result<W::Output, RunError<W::Output>>> + use<R, F, W>
    where
        R: IntoResources,
        F: FnOnce(Lease) -> W,
        W: Future,
    {
        self.lock(resources, ttl).run(work)
    }

    /// Goes on with a lock that was [detached](Guard::detach), or that another program took: extends it by its TTL, and
    /// answers with a guard once a quorum of nodes has confirmed that it still has it. Nothing is assumed before.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) when a node [uses a name](crate::LockNode::check) for something else;
    /// [`Lost`](crate::ErrorKind::Lost) when a quorum does not have it any more; [`NoQuorum`](crate::ErrorKind::NoQuorum) when too few
    /// nodes answered, which may be tried again; [`Expired`](crate::ErrorKind::Expired) when they were so slow that nothing of
    /// the TTL is left; [`Closed`](crate::ErrorKind::Closed) after [`close`](Redlock::close). Of a lease with a
    /// [fencing token](DetachedLease::fencing_token) also [`Superseded`](crate::ErrorKind::Superseded) when newer claims have
    /// counted beyond it on so many nodes that it can never be extended again, and
    /// [`Unsupported`](crate::ErrorKind::Unsupported) when a node gives out no fencing tokens. Nothing is released then.
    ///
    /// # Cancel safety
    ///
    /// Dropped after its first poll, the extension goes on in the background. Nothing is released.
    pub async fn resume(&self, lease: &DetachedLease) -> Result<Guard, Error> {
        resume::resume(&self.0, lease).await
    }

    /// Releases a lock that was detached, or that another program took, without resuming it.
    ///
    /// Answers [`Held`](Released::Held), or [`Lost`](Released::Lost) when a quorum of nodes did not have it any more. Works
    /// after [`close`](Redlock::close) too.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) when a node [uses a name](crate::LockNode::check) for something else;
    /// [`NoQuorum`](crate::ErrorKind::NoQuorum) when too few nodes answered; the release is then repeated in the
    /// background.
    ///
    /// # Cancel safety
    ///
    /// Dropped after its first poll, the release goes on in the background.
    pub async fn release(&self, lease: &DetachedLease) -> Result<Released, Error> {
        resume::release(&self.0, lease).await
    }

    /// Asks every node whether it can vote now: each is to grant and release a lock of 10 ms on a random name that begins
    /// with `redlock-health-`. A node is up only if it answered both, so a node that is up can write, not only listen, and
    /// permits releases. Takes at most twice the node timeout, while this process keeps up.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it goes on in the background.
    pub async fn health(&self) -> Health {
        health::health(&self.0).await
    }

    /// Who has a resource, as a quorum of nodes sees it, and how long at least. Acquires nothing and changes nothing.
    ///
    /// Returns as soon as a quorum says the same, or cannot any more; what the nodes said by then is in
    /// [`Inspection::nodes`]. The answer ages: by the time it is read, the lock may have been released or taken.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for a bad name; [`NoQuorum`](crate::ErrorKind::NoQuorum) when too few nodes
    /// answered; [`WrongType`](crate::ErrorKind::WrongType) when the name is used for something else;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) when too few nodes can be inspected.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it goes on in the background until the nodes have answered, and nothing comes of it.
    pub async fn inspect(&self, resource: impl IntoResource) -> Result<Inspection, Error> {
        inspect::inspect(&self.0, resource.into_resource()?).await
    }

    /// Rejects new locks from now on, here and on all clones, and waits for what is outstanding: rounds in flight, and
    /// pending cleanup on any node. Guards that are still held may be extended and released afterwards.
    ///
    /// Returns how much cleanup was given up since the `Redlock` was built, as a number of claims on single nodes; their keys
    /// expire with their TTL. It is zero unless a node did not answer while more than 16 MiB of claims waited for it, or
    /// there was no runtime to clean up in; load alone gives up none.
    ///
    /// A node that is down for good is waited for without limit, and so is one that rejects every release (its access
    /// rules forbid scripts, say), and work in a runtime that exists and is not driven any more: bound the wait with your
    /// runtime's timeout. Outside any runtime nothing can be cleaned up: it is left to its TTL, and this returns.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time and called again; new locks stay refused.
    pub async fn close(&self) -> u64 {
        self.0.close();
        loop {
            let changed = self.0.listen();
            // A second time for what was left behind meanwhile.
            let runs = self.0.resume_chases() || self.0.resume_chases();
            if !runs || self.0.is_idle() {
                return self.0.abandoned_cleanups();
            }
            changed.await;
        }
    }

    /// The time on the clock that leases are measured with, for [`LockRequest::wait_until`].
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    pub(crate) fn new(presence: Presence) -> Self {
        Self(Arc::new(presence))
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<_> = self.0.members.iter().map(|member| member.node.label()).collect();
        f.debug_struct("Redlock").field("nodes", &labels).field("settings", &self.0.settings).finish()
    }
}

/// A service holds these in its state and moves them between tasks; so do the futures of its requests.
const _: () = {
    const fn shared<T: Send + Sync + 'static>() {}
    const fn sent<T: Send + 'static>() {}
    shared::<Redlock>();
    shared::<Builder>();
    shared::<Guard>();
    shared::<Lease>();
    shared::<Error>();
    shared::<Inspection>();
    sent::<LockRequest>();
    sent::<TryLockRequest>();
};
