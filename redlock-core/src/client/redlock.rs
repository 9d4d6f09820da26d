//! The handle that applications use.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::announced::{self, AnnouncedLists};
use crate::client::break_lock;
use crate::client::guard::Guard;
use crate::client::handle::Handle;
use crate::client::health::{self, Health};
use crate::client::inspect::{self, Inspection};
use crate::client::kind::{Exclusive, Fenced};
use crate::client::lead::{Candidate, Leadership};
use crate::client::lease::Lease;
use crate::client::observe::Observer;
use crate::client::request::LockRequest;
use crate::client::resume;
use crate::client::rw_lock::{Read, RwLock, Write};
use crate::client::slots::{Slot, Slots};
use crate::client::vouch;
use crate::types::detached::DetachedLease;
use crate::types::error::Error;
use crate::types::instant::Instant;
use crate::types::report::ReleaseOutcome;
use crate::types::resource::{IntoResource, IntoResources};
use crate::types::token::Fingerprint;

/// A distributed lock over N independent nodes.
///
/// Cloning is cheap, and clones share everything. The type has no type parameters: tests can use fake nodes without a
/// change to the service.
///
/// # Drop behavior
///
/// Dropping a handle has no effect while clones exist, or values that were made with it: a [`LockRequest`], [`Guard`],
/// [`Lease`], [`Slots`], [`RwLock`], [`Candidate`], [`Leadership`] or [`Observer`]. After the last of them is dropped,
/// each connection closes as soon as the pending cleanup on its node is complete, or after one minute.
/// [`close`](Redlock::close) waits for the cleanup without a limit.
#[derive(Clone)]
pub struct Redlock(Arc<Handle>);

impl Redlock {
    /// Locks a resource, or several: all or none.
    ///
    /// Returns a [`LockRequest`]: set options, then `.await` it. The request waits for up to 10 s by default.
    ///
    /// `ttl` is how long the nodes keep the lock if it is not extended: 10 ms to 24 days, in whole milliseconds. The guard
    /// is valid for the TTL, less clock drift, and less the time that acquiring took.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let invoice = redlock.lock("invoice:42", ttl).await?;
    /// let accounts = redlock.lock(["account:1", "account:2"], ttl).await?;
    /// assert!(invoice.is_held() && accounts.is_held());
    ///
    /// invoice.release().await?;
    /// drop(accounts); // released in the background
    /// # });
    /// ```
    pub fn lock(&self, resources: impl IntoResources, ttl: Duration) -> LockRequest {
        LockRequest::new(self.0.clone(), resources.into_resources().map(Exclusive), ttl)
    }

    /// Returns `count` slots under one name, each of which one client holds at a time.
    ///
    /// `count` is 1 to [`Slots::MAX_COUNT`], and all clients must use the same one. Nothing is sent before a slot is
    /// [acquired](Slots::acquire).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// // At most eight clients, on any machines, render at the same time.
    /// let slots = redlock.slots("thumbnails", 8)?;
    /// let guard = slots.acquire(Duration::from_secs(10)).await?;
    /// println!("slot {} of {}", guard.index(), slots.count());
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the count is out of range, or the name is invalid or longer
    /// than 1,015 bytes.
    pub fn slots(&self, name: impl IntoResource, count: usize) -> Result<Slots, Error> {
        Slots::new(self.0.clone(), name, count)
    }

    /// Returns a lock that many readers or one writer hold.
    ///
    /// Nothing is sent before a lock is requested with [`read`](RwLock::read) or [`write`](RwLock::write).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let catalog = redlock.rw_lock("catalog")?;
    /// let (one, other) = (catalog.read(ttl).await?, catalog.read(ttl).await?);
    /// assert!(one.is_held() && other.is_held());
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the name is invalid or longer than 1,017 bytes.
    pub fn rw_lock(&self, name: impl IntoResource) -> Result<RwLock, Error> {
        RwLock::new(self.0.clone(), name)
    }

    /// Resumes a lock that was [detached](Guard::detach) or that another program holds.
    ///
    /// Extends the lock by its TTL, and returns a guard once a quorum of nodes has confirmed that they still hold it.
    /// Before that, the lock does not count as held.
    ///
    /// Its former holder must neither use nor release the lock any more: the token is the same. A guard that was detached
    /// does neither. The keep-alive of a guard that still exists deletes the keys if that guard's lock is lost.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let detached = redlock.lock("report", ttl).await?.detach().await;
    /// // Another task or process continues with it.
    /// let guard = redlock.resume(&detached).await?;
    /// assert!(guard.is_held());
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Nothing is released in any of these cases:
    ///
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) if a node [uses a name](crate::node::LockNode::check) for
    ///   something else.
    /// - [`Lost`](crate::ErrorKind::Lost) if a quorum no longer holds the lock.
    /// - [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes replied. The call can be retried.
    /// - [`TooSlow`](crate::ErrorKind::TooSlow) if the nodes were so slow that no validity was left.
    /// - [`Superseded`](crate::ErrorKind::Superseded) if the lease has a [fencing token](DetachedLease::fencing_token),
    ///   and newer claims have counted above it on too many nodes. The lock can then never be extended again.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) if the lease has a fencing token and a node does not support
    ///   fencing.
    /// - [`Closed`](crate::ErrorKind::Closed) after [`close`](Redlock::close).
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped after its first poll, the extension continues in the background. Nothing is released.
    pub async fn resume(&self, lease: &DetachedLease) -> Result<Guard, Error> {
        resume::resume(&self.0, lease).await
    }

    /// Releases a lock that was detached, or that another program holds.
    ///
    /// The lock is not resumed first. Returns [`Released`](ReleaseOutcome::Released), or
    /// [`AlreadyLost`](ReleaseOutcome::AlreadyLost) if a quorum of nodes no longer held the lock. This also works after
    /// [`close`](Redlock::close).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let detached = redlock.lock("report", ttl).await?.detach().await;
    /// let outcome = redlock.release(&detached).await?;
    /// assert_eq!(ReleaseOutcome::Released, outcome);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) if a node [uses a name](crate::node::LockNode::check) for
    ///   something else.
    /// - [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes replied. The release is then repeated in the
    ///   background.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped after its first poll, the release continues in the background.
    pub async fn release(&self, lease: &DetachedLease) -> Result<ReleaseOutcome, Error> {
        resume::release(&self.0, lease).await
    }

    /// Checks which nodes can vote now.
    ///
    /// Each node must grant and release a lock of 10 ms on a random name that begins with `redlock-health-`. A node is
    /// healthy only if it replied to both requests. Thus a healthy node accepts writes, not merely connections, and it
    /// permits releases. The check takes at most twice the node timeout, unless this process is delayed.
    ///
    /// There is one exception. If another program seems to [list other nodes](crate::Builder::compare_node_lists), and
    /// this program has requested no lock yet, the check waits up to 12 s for the next announcement of that program.
    ///
    /// It costs each node one write and one script, like a lock, and three reads if node lists are
    /// [compared](crate::Builder::compare_node_lists). A process that checks every 10 s thus sends 0.2 or 0.5 requests a
    /// second to each node. Frequent probes of many processes should share a result.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let health = redlock.health().await;
    /// assert!(health.is_available());
    /// println!("{health}");
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the check continues in the background.
    pub async fn health(&self) -> Health {
        health::health(&self.0).await
    }

    /// Returns the node lists that programs have announced on each node, in configured order.
    ///
    /// See [`compare_node_lists`](crate::Builder::compare_node_lists). This announces and changes nothing, and takes at most
    /// the node timeout, unless this process is delayed. It costs each node three reads.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// for node in redlock.announced_lists().await {
    ///     for list in node.lists().iter().filter(|list| list.differs()) {
    ///         println!("{}: {:?} lists other nodes", node.label(), list.owner());
    ///     }
    /// }
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the requests continue in the background until the nodes have replied. The result is
    /// discarded.
    pub async fn announced_lists(&self) -> Vec<AnnouncedLists> {
        announced::announced(&self.0).await
    }

    /// Returns the holder of a resource, according to a quorum of nodes.
    ///
    /// The result has a lower bound on the remaining time as well, and the number of [waiters](Inspection::waiters). An
    /// inspection acquires nothing and changes nothing.
    ///
    /// It returns as soon as a quorum agrees, or can no longer agree. [`Inspection::node_reports`] has the replies up
    /// to that moment. The result ages: the lock may have been released or acquired since then.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("report", ttl).await?;
    /// let inspection = redlock.inspect("report").await?;
    /// assert!(inspection.is_held_by(&guard));
    /// println!("{inspection}");
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) if the name is invalid.
    /// - [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes replied.
    /// - [`WrongType`](crate::ErrorKind::WrongType) if the name is used for something other than a lock.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) if too few nodes support inspection.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the requests continue in the background until the nodes have replied. The result is
    /// discarded.
    pub async fn inspect(&self, resource: impl IntoResource) -> Result<Inspection, Error> {
        inspect::inspect(&self.0, resource.into_resource()?).await
    }

    /// Breaks the lock of a holder that an inspection has shown: deletes its keys on all nodes.
    ///
    /// The holder is not stopped at once: it finds the loss at its next renewal or release. Until then, another client
    /// may hold the lock at the same time. Use it for a holder that is known to be dead, and cannot wait for the TTL.
    ///
    /// `holder` is one that [`Inspection::holder`] or a [report](Inspection::node_reports) of the inspection contains.
    /// Nodes delete a key only where it still has the token of this holder. Thus a lock that has changed hands since the
    /// inspection stays, and the outcome is [`AlreadyLost`](ReleaseOutcome::AlreadyLost). Other resources that the holder
    /// locked together with this one stay locked.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// # let day = Duration::from_secs(24 * 3600);
    /// # redlock.lock("report", day).owner("host-1").await?.forget();
    /// // The machine `host-1` has burned down, and its lock has a TTL of a day.
    /// let inspection = redlock.inspect("report").await?;
    /// let holder = inspection.holder().expect("the lock is held");
    /// assert_eq!(Some("host-1"), holder.owner());
    /// assert_eq!(ReleaseOutcome::Released, redlock.break_lock(&inspection, holder).await?);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Lost`](crate::ErrorKind::Lost) if no node showed this holder to the inspection.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) if readers hold the lock: they cannot be named one by one.
    /// - [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes replied. The release is then repeated in the
    ///   background.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped after its first poll, the keys are deleted in the background.
    pub async fn break_lock(
        &self,
        inspection: &Inspection,
        holder: &Fingerprint,
    ) -> Result<ReleaseOutcome, Error> {
        break_lock::break_lock(&self.0, inspection, holder).await
    }

    /// Observes a resource: returns its holders, one after the other.
    ///
    /// Nothing is sent before the first [`changed`](Observer::changed). The nodes notify the observer, so that nothing is
    /// sent while the lock neither changes hands nor is renewed.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// # let _guard = redlock.lock("scheduler", ttl).await?;
    /// let mut observer = redlock.observe("scheduler");
    /// loop {
    ///     match observer.changed().await {
    ///         Ok(inspection) => println!("{inspection}"), // "scheduler" is held by 9c1f... for at least 9.9s
    ///         Err(error) => println!("unknown: {error}"),
    ///     }
    ///     # break;
    /// }
    /// # });
    /// ```
    pub fn observe(&self, resource: impl IntoResource) -> Observer {
        Observer::new(Arc::clone(&self.0), resource.into_resource())
    }

    /// Ends the quarantine of a node whose server has lost no lock.
    ///
    /// The caller asserts that no lock was lost. `index` is the position of the node in the configuration, from 0. All
    /// clients of the server count its votes again within a second. Call this method in two cases only:
    ///
    /// - The servers are used for the first time, and no client has ever locked anything there.
    /// - All servers were down at once, and have written every change to disk before they replied.
    ///
    /// In any other case, two clients may hold the same lock afterwards.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// for node in redlock.health().await.nodes() {
    ///     if node.quarantine().is_some() {
    ///         redlock.vouch(node.index()).await?;
    ///     }
    /// }
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) if there is no such node.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) if the node does not check for lost locks.
    /// - [`NoQuorum`](crate::ErrorKind::NoQuorum) if the node did not reply, or replied with an error.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the request continues in the background.
    pub async fn vouch(&self, index: usize) -> Result<(), Error> {
        vouch::vouch(&self.0, index).await
    }

    /// Rejects new locks from now on, and waits for outstanding work.
    ///
    /// This applies to all clones. Outstanding work is the rounds in flight, and the pending cleanup on all nodes.
    /// Guards that are still held can be extended and released afterwards. At the end, the announcement of the
    /// [node list](crate::Builder::compare_node_lists) is deleted, which takes at most twice the node timeout.
    ///
    /// Returns the number of cleanups that were abandoned since the `Redlock` was built. A lock or an attempt counts once
    /// for each node. Its keys expire with their TTL. The number is zero, except in two cases. Either a node acknowledged
    /// no release while more than 16 MiB of cleanup was pending for it, or there was no runtime to clean up in. Load
    /// alone abandons no cleanup.
    ///
    /// The wait has no limit. Limit it with your runtime's timeout, because it does not end in these cases:
    ///
    /// - A node is down permanently.
    /// - A node rejects every release, for example because its access rules forbid scripts.
    /// - Work is left in a runtime that exists and is no longer driven.
    ///
    /// Outside any runtime, nothing can be cleaned up: the keys are left to their TTL, and this method returns.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// drop(redlock.lock("report", ttl).await?);
    ///
    /// // At the end of `main`: waits for the release in the background.
    /// let abandoned = redlock.close().await;
    /// assert_eq!(0, abandoned);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, new locks stay rejected. It can be dropped at any time, and `close` can be called
    /// again.
    pub async fn close(&self) -> u64 {
        self.0.close();
        loop {
            let changed = self.0.listen_for_idle();
            // The second call takes the cleanup that was left behind in between.
            let runs = self.0.resume_cleanup() || self.0.resume_cleanup();
            if !runs || self.0.is_idle() {
                break;
            }
            changed.await;
        }
        if let (Some(lists), Ok(())) = (&self.0.node_lists, self.0.runtime.check()) {
            lists.close(&self.0).await;
        }
        self.0.abandoned_cleanup()
    }

    /// Returns the time on the clock of leases.
    ///
    /// It is the clock of [`LockRequest::wait_until`] and [`Lease::deadline`].
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// // One deadline limits both waits.
    /// let deadline = redlock.now() + Duration::from_secs(2);
    /// let order = redlock.lock("orders:42", ttl).wait_until(deadline).await?;
    /// let account = redlock.lock("account:7", ttl).wait_until(deadline).await?;
    /// assert!(order.is_held() && account.is_held());
    /// # });
    /// ```
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self(handle)
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<_> = self.0.peers.iter().map(|peer| peer.node.label()).collect();
        f.debug_struct("Redlock").field("nodes", &labels).field("settings", &self.0.settings).finish()
    }
}

/// Services keep these types in their state and move them between tasks.
///
/// The same applies to the futures of requests.
const _: () = {
    const fn shared<T: Send + Sync + 'static>() {}
    const fn sent<T: Send + 'static>() {}
    shared::<Redlock>();
    shared::<Guard>();
    shared::<Lease>();
    shared::<Error>();
    shared::<Inspection>();
    shared::<Leadership>();
    shared::<Guard<Fenced<Slot>>>();
    shared::<Slots>();
    shared::<RwLock>();
    shared::<Guard<Read>>();
    sent::<LockRequest>();
    sent::<Candidate>();
    sent::<LockRequest<Fenced<Write>>>();
};
