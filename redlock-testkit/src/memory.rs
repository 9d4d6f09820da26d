//! A lock node in memory that follows the contract exactly.
//!
//! Every operation takes effect at once, when its future is first polled. No operation is ever partly done, and
//! requests are carried out in the order in which they were sent. [`Faulty`](crate::Faulty) adds the faults of
//! networks.

mod admission;
mod clock;
mod counters;
mod places;
mod readers;
mod reserved;
mod store;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redlock_core::node::{
    Admission, Begun, ConnectionId, Exchange, LockEntry, LockNode, NodeError, Profile, QuarantineReason,
    Reply, Request, ServerId, Status, Token, Ttl, Watch,
};
use redlock_core::runtime::{Instant, Runtime, suspend_aware_now};
use redlock_core::{Error, FencingToken, IntoResource, Resource};

use self::admission::Guarded;
use self::clock::WallClock;
use self::store::{Content, Store};

/// A [`LockNode`] in memory, with access to its content.
///
/// Clones share the store: they are clients of one server.
///
/// A lock cannot have a name that is reserved on servers without a key prefix. Such names end in `#waiting`, or are
/// those of the restart check or of fencing counters.
///
/// A denial has the remaining time of the holder's key. That of a server has no time for a single attempt to lock one
/// resource without a fencing token. See [`Error::remaining`](redlock_core::Error::remaining).
///
/// ```
/// use std::sync::Arc;
/// use redlock_core::node::{Claim, LockNode, Reply, Request, Token, Ttl};
/// use redlock_core::IntoResources;
/// use redlock_testkit::{MemoryNode, block_on};
///
/// let node = MemoryNode::new("fake-1");
/// let alice = Claim::new("invoice:42".into_resources()?, Token::from_bytes("alice"));
/// assert_eq!(Reply::Granted, block_on(node.call(Request::Acquire(alice, Ttl::MAX)))?);
/// assert_eq!(Some(Token::from_bytes("alice")), node.holder("invoice:42"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryNode(Arc<Shared>);

struct Shared {
    label: String,
    /// The clock of the clients; `None` for the clock of the machine.
    clock: Option<Arc<dyn Runtime>>,
    /// The clock of the keys.
    wall: Mutex<WallClock>,
    /// The identity of the server, a new one after each restart.
    server: Mutex<ServerId>,
    store: Mutex<Store>,
    /// The restart admission; `None` if the node takes no part in it.
    guarded: Mutex<Option<Guarded>>,
}

/// The data of a [`MemoryNode`] at one moment, as in a snapshot on disk.
pub struct Snapshot(Content);

impl MemoryNode {
    /// Creates an empty node whose keys expire by the clock of the machine.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// let node = MemoryNode::new("fake-1");
    /// let redlock = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// let _guard = block_on(redlock.lock("orders:42", Duration::from_secs(10)))?;
    /// assert!(node.holder("orders:42").is_some());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn new(label: impl Into<String>) -> Self {
        Self::with_clock(label.into(), None)
    }

    /// Creates an empty node whose keys expire by the clock of a runtime.
    ///
    /// The runtime may be simulated or paused.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::node::{Token, Ttl};
    /// # use redlock_testkit::{MemoryNode, sim::Simulation};
    /// let simulation = Simulation::new(42);
    /// let server = simulation.process("server");
    /// let node = MemoryNode::with_runtime("fake-1", server.runtime());
    /// let ttl = Ttl::new(Duration::from_secs(30))?;
    /// node.set_holder("orders:42", Token::from_bytes("alice"), ttl);
    /// simulation.run_for(Duration::from_secs(31));
    /// assert_eq!(None, node.holder("orders:42"), "expired, without any wait");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn with_runtime(label: impl Into<String>, runtime: Arc<dyn Runtime>) -> Self {
        Self::with_clock(label.into(), Some(runtime))
    }

    /// Returns the token that holds a resource.
    ///
    /// `None` means that the resource is free, has readers or holds a non-lock value.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// assert!(node.holder("orders:42").is_some());
    /// guard.release().await?;
    /// assert_eq!(None, node.holder("orders:42"));
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name is invalid.
    pub fn holder(&self, resource: impl IntoResource) -> Option<Token> {
        self.store().holder(&name(resource), self.now()).cloned()
    }

    /// Returns the tokens of the readers of a resource.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// let prices = redlock.rw_lock("prices")?;
    /// let _readers = [prices.read(ttl).await?, prices.read(ttl).await?];
    /// assert_eq!(2, node.readers("prices").len());
    /// assert_eq!(None, node.holder("prices"), "a reader is not a holder");
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name is invalid.
    pub fn readers(&self, resource: impl IntoResource) -> Vec<Token> {
        let (store, now) = (self.store(), self.now());
        let readers = store.readers(&name(resource), now);
        readers.into_iter().flat_map(|readers| readers.living(now)).map(|(token, _)| token).collect()
    }

    /// Returns the remaining time of a resource's key.
    ///
    /// `None` means that there is no key or that it never expires.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// assert!(node.remaining("orders:42") <= Some(ttl));
    /// guard.extend(Duration::from_secs(3600)).await?;
    /// assert!(node.remaining("orders:42") > Some(ttl));
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name is invalid.
    pub fn remaining(&self, resource: impl IntoResource) -> Option<Duration> {
        self.store().remaining(&name(resource), self.now())
    }

    /// Returns the locks that have not expired, in the order of their resources.
    ///
    /// ```
    /// # use redlock_core::node::{Token, Ttl};
    /// # use redlock_testkit::MemoryNode;
    /// # let node = MemoryNode::new("fake-1");
    /// node.set_holder("stock:7", Token::from_bytes("bob"), Ttl::MAX);
    /// node.set_holder("orders:42", Token::from_bytes("alice"), Ttl::MAX);
    /// let locks = node.locks();
    /// let names: Vec<_> = locks.iter().map(|(name, _)| name.to_string()).collect();
    /// assert_eq!(["orders:42", "stock:7"], names[..]);
    /// assert_eq!(Token::from_bytes("alice"), locks[0].1.token);
    /// ```
    pub fn locks(&self) -> Vec<(Resource, LockEntry)> {
        self.store().locks(self.now())
    }

    /// Returns the number of keys that have not expired.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// let _guard = redlock.lock(["orders:42", "stock:7"], ttl).await?;
    /// assert_eq!(2, node.len(), "one key for each resource");
    /// # });
    /// ```
    pub fn len(&self) -> usize {
        self.store().living_count(self.now())
    }

    /// Returns whether no key is left, or all have expired.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// drop(guard);
    /// redlock.close().await;
    /// assert!(node.is_empty(), "nothing is left behind");
    /// # });
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the counter for the fencing tokens of a resource; `None` without one.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).fenced().await?;
    /// assert_eq!(guard.fencing_token(), node.fencing_counter("orders:42"));
    /// guard.release().await?;
    /// assert!(node.fencing_counter("orders:42").is_some(), "it outlives the lock");
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name is invalid.
    pub fn fencing_counter(&self, resource: impl IntoResource) -> Option<FencingToken> {
        self.store().fencing_counter(&name(resource), self.now())
    }

    /// Sets the counter of a resource, or deletes it like a server that evicts keys.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// node.count_from_one();
    /// node.set_counter("orders:42", FencingToken::new(41));
    /// let guard = redlock.lock("orders:42", ttl).fenced().await?;
    /// assert_eq!(FencingToken::new(42), guard.fencing_token());
    ///
    /// node.set_counter("orders:42", None); // like a server that evicts keys
    /// assert_eq!(None, node.fencing_counter("orders:42"));
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name is invalid.
    pub fn set_counter(&self, resource: impl IntoResource, number: Option<FencingToken>) {
        let now = self.now();
        self.store().set_counter(&name(resource), number, now);
    }

    /// Starts new counters with 1, so that fencing tokens are predictable.
    ///
    /// This applies to counters that are created from now on, even after a [`restore`](MemoryNode::restore). Servers
    /// start counters with the time, so that tokens still grow after a counter was lost.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// node.count_from_one();
    /// for number in 1..=3 {
    ///     let guard = redlock.lock("orders:42", ttl).fenced().await?;
    ///     assert_eq!(FencingToken::new(number), guard.fencing_token());
    ///     guard.release().await?;
    /// }
    /// # });
    /// ```
    pub fn count_from_one(&self) {
        self.store().counters.from_one = true;
    }

    /// Deletes all counters, and keeps the locks. Returns whether there was any.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// let _guard = redlock.lock("orders:42", ttl).fenced().await?;
    /// assert!(node.clear_counters());
    /// assert_eq!(None, node.fencing_counter("orders:42"));
    /// assert!(node.holder("orders:42").is_some(), "the lock is kept");
    /// # });
    /// ```
    pub fn clear_counters(&self) -> bool {
        self.store().counters.clear()
    }

    /// Deletes the key of a resource, like an operator or a server that evicts keys.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// node.remove("orders:42");
    /// let error = guard.extend(ttl).await.unwrap_err();
    /// assert_eq!(ErrorKind::Lost, error.kind());
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name is invalid.
    pub fn remove(&self, resource: impl IntoResource) {
        self.store().remove(&name(resource));
    }

    /// Restarts the server with all keys and counters. It then has another identity.
    ///
    /// With a [longest TTL](MemoryNode::set_longest_ttl), the votes of the node do not count for a time, as after every
    /// restart of a server: a client cannot know whether all data was kept. Watches end.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// node.set_longest_ttl(ttl);
    /// let _guard = redlock.lock("orders:42", ttl).await?;
    /// node.restart();
    /// assert!(node.holder("orders:42").is_some(), "the data is kept");
    /// let health = redlock.health().await;
    /// let quarantine = health.nodes()[0].quarantine().expect("it has no vote");
    /// assert_eq!(QuarantineReason::Restarted, quarantine.reason);
    /// # });
    /// ```
    pub fn restart(&self) {
        self.store().end_watches();
        self.become_another_server();
    }

    /// Deletes all keys and counters, like a server that restarts without persistence. It then has another identity.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # let node = MemoryNode::new("fake-1");
    /// # let redlock = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # let other = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// let guard = block_on(redlock.lock("orders:42", ttl))?;
    /// node.clear();
    /// let second = block_on(other.lock("orders:42", ttl).try_now())?;
    /// assert!(guard.is_held() && second.is_some(), "two holders after the loss");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn clear(&self) {
        self.store().clear();
        self.become_another_server();
    }

    /// Deletes all keys and counters, like a server that is flushed.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node| {
    /// node.set_longest_ttl(Duration::from_secs(10));
    /// node.flush();
    /// let health = redlock.health().await;
    /// let quarantine = health.nodes()[0].quarantine().expect("the data is lost");
    /// assert_eq!(QuarantineReason::DataLost, quarantine.reason);
    /// # });
    /// ```
    pub fn flush(&self) {
        self.store().clear();
        self.lose(QuarantineReason::DataLost);
    }

    /// Returns a copy of all keys and counters.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// let snapshot = node.snapshot();
    /// guard.release().await?;
    /// node.restore(&snapshot);
    /// assert!(node.holder("orders:42").is_some(), "the released lock is back");
    /// # });
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.store().content())
    }

    /// Replaces all keys and counters, like a restart with an older snapshot. It then has another identity.
    ///
    /// ```
    /// use redlock_testkit::MemoryNode;
    /// use redlock_core::node::{Token, Ttl};
    ///
    /// let node = MemoryNode::new("fake-1");
    /// let snapshot = node.snapshot();
    /// node.set_holder("invoice:42", Token::from_bytes("alice"), Ttl::MAX);
    /// node.restore(&snapshot);
    /// assert_eq!(None, node.holder("invoice:42"));
    /// ```
    pub fn restore(&self, snapshot: &Snapshot) {
        self.store().restore(&snapshot.0);
        self.become_another_server();
    }

    /// Sets the longest TTL.
    ///
    /// From now on, the votes of a node that may have lost data do not count for a time. The causes are
    /// [`restart`](MemoryNode::restart), [`clear`](MemoryNode::clear), [`flush`](MemoryNode::flush) and
    /// [`restore`](MemoryNode::restore), and a clock that [steps](MemoryNode::step_clock) or
    /// [runs fast](MemoryNode::set_clock_rate). The node counts until the first of them. See [`Profile::longest_ttl`].
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use redlock_core::Redlock;
    /// use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    ///
    /// let ttl = Duration::from_secs(10);
    /// let node = MemoryNode::new("fake-1");
    /// node.set_longest_ttl(ttl);
    /// let redlock = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// node.flush();
    /// assert!(block_on(redlock.lock("invoice:42", ttl).try_now()).is_err());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn set_longest_ttl(&self, longest: Duration) {
        *self.guarded() = Some(Guarded::new(longest));
        self.read_clock();
    }

    /// Sets by how much the clock of the node runs fast from now on, in parts per million.
    ///
    /// Keys expire by this clock. The default is 0. A negative number is a slow clock, and the minimum is -1,000,000, a
    /// clock that stands still. A health check [reports](redlock_core::NodeHealth::clock_rate) the rate. With a [longest
    /// TTL](MemoryNode::set_longest_ttl), the votes of a node whose clock runs fast by more than 0.25 % do not count.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node| {
    /// // chrony corrects the clock of the server as fast as its default setting permits.
    /// node.set_clock_rate(83_333);
    /// let health = redlock.health().await;
    /// let node = &health.nodes()[0];
    /// assert!(node.is_clock_fast());
    /// assert_eq!(83_333, node.clock_rate().expect("it is known").ppm);
    /// # });
    /// ```
    pub fn set_clock_rate(&self, ppm: i64) {
        self.read_clock();
        let now = self.client_now();
        self.wall().set_rate(ppm, now);
    }

    /// Sets the clock of the node forward, so that keys expire early.
    ///
    /// With a [longest TTL](MemoryNode::set_longest_ttl), the votes of the node do not count for a time, if the step is
    /// longer than 5 ms. Without it, two clients can hold the same lock:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # let node = MemoryNode::new("fake-1");
    /// # let redlock = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let other = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// let guard = block_on(redlock.lock("orders:42", ttl))?;
    /// node.step_clock(ttl);
    /// let second = block_on(other.lock("orders:42", ttl).try_now())?;
    /// assert!(guard.is_held() && second.is_some(), "two holders");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn step_clock(&self, forward: Duration) {
        self.read_clock();
        self.wall().step(forward);
    }

    fn wall(&self) -> MutexGuard<'_, WallClock> {
        self.0.wall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the clock of the node, as a client does that watches it.
    fn read_clock(&self) {
        let now = self.client_now();
        let server = self.wall().at(now);
        if let Some(guarded) = &mut *self.guarded() {
            guarded.read_clock(server, now);
        }
    }

    fn lose(&self, reason: QuarantineReason) {
        let now = self.client_now();
        if let Some(guarded) = &mut *self.guarded() {
            guarded.lose(reason, now);
        }
    }

    /// Ends the present run of the server, and begins another one.
    fn become_another_server(&self) {
        *self.server() = new_identity();
        self.lose(QuarantineReason::Restarted);
    }

    fn server(&self) -> MutexGuard<'_, ServerId> {
        self.0.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guarded(&self) -> MutexGuard<'_, Option<Guarded>> {
        self.0.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the token of a resource, as another client might.
    ///
    /// It replaces any value.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// node.set_holder("orders:42", Token::from_bytes("another"), Ttl::MAX);
    /// assert!(redlock.lock("orders:42", ttl).try_now().await?.is_none());
    /// node.remove("orders:42"); // the other client releases it
    /// assert!(redlock.lock("orders:42", ttl).try_now().await?.is_some());
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name is invalid.
    pub fn set_holder(&self, resource: impl IntoResource, token: Token, ttl: Ttl) {
        let now = self.now();
        self.store().set_holder(name(resource), token, now + ttl.as_duration(), now);
    }

    /// Sets a non-lock value under a resource. It replaces any value and never expires.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// node.set_non_lock_value("orders:42"); // another program uses the name
    /// let error = redlock.lock("orders:42", ttl).try_now().await.unwrap_err();
    /// assert_eq!(ErrorKind::WrongType, error.kind());
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name is invalid.
    pub fn set_non_lock_value(&self, resource: impl IntoResource) {
        self.store().set_non_lock_value(name(resource));
    }

    fn with_clock(label: String, clock: Option<Arc<dyn Runtime>>) -> Self {
        let server = Mutex::new(new_identity());
        let (wall, store, guarded) = Default::default();
        Self(Arc::new(Shared { label, clock, wall, server, store, guarded }))
    }

    fn reply_to(&self, request: &Request) -> Result<Reply, NodeError> {
        let now = self.now();
        if let Request::Vouch = request {
            return match &mut *self.guarded() {
                Some(guarded) => {
                    guarded.vouch();
                    Ok(Reply::Granted)
                }
                None => Err(NodeError::unsupported("vouch without a longest TTL")),
            };
        }
        let mut store = self.store();
        match request {
            Request::Acquire(claim, ttl) => {
                store.in_turn(claim, None, now, |store| store.acquire(claim, *ttl, now))
            }
            Request::Extend(claim, ttl) => store.extend(claim, *ttl, now),
            Request::Release(claim) => Ok(Reply::Deleted(store.release(claim, now))),
            Request::AcquireFenced(claim, ttl) => {
                store.in_turn(claim, None, now, |store| store.acquire_fenced(claim, *ttl, now))
            }
            Request::Confirm(claim, ttl, token) => store.confirm(claim, *ttl, *token, now),
            Request::Refill(claim, ttl, token) => store.refill_fenced(claim, *ttl, *token, now),
            Request::AcquireShared(claim, gate, ttl) => {
                store.in_turn(claim, Some(gate), now, |store| store.acquire_shared(claim, gate, *ttl, now))
            }
            Request::Keep(claim, ttl) => store.keep_for(claim, *ttl, now),
            Request::Inspect(resource) => {
                let waiters = store.waiters(resource, now);
                let free = Reply::Free { waiters: Some(waiters) };
                Ok(store
                    .inspect(resource, now)?
                    .map_or(free, |entry| Reply::Held(entry.with_waiters(waiters))))
            }
            Request::Watch(resource) => {
                let (availability, changed) = store.watch(resource, now);
                let holder = store.holder(resource, now).cloned();
                Ok(Reply::Watching(Watch::new(availability, changed).held_by(holder)))
            }
            Request::WatchShared(resource) => {
                let (availability, changed) = store.watch_shared(resource, now);
                let holder = store.holder(resource, now).cloned();
                Ok(Reply::Watching(Watch::new(availability, changed).held_by(holder)))
            }
            other => Err(NodeError::unsupported(other)),
        }
    }

    fn admission(&self) -> Admission {
        let now = self.client_now();
        self.guarded().as_ref().map_or(Admission::Unchecked, |guarded| guarded.admission(now))
    }

    /// Returns the time of the node.
    fn now(&self) -> Instant {
        let now = self.client_now();
        self.wall().at(now)
    }

    fn client_now(&self) -> Instant {
        self.0.clock.as_ref().map_or_else(suspend_aware_now, |runtime| runtime.now())
    }

    /// No code panics halfway through a change, so a poisoned store is intact.
    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LockNode for MemoryNode {
    fn label(&self) -> &str {
        &self.0.label
    }

    fn profile(&self) -> Profile {
        let profile = Profile::default()
            .with_inspect()
            .with_watch()
            .with_fencing()
            .with_keep()
            .with_shared()
            .with_places();
        match &*self.guarded() {
            Some(guarded) => profile.with_longest_ttl(guarded.longest_ttl),
            None => profile,
        }
    }

    fn status(&self) -> Status {
        self.read_clock();
        let rate = self.wall().rate(self.client_now());
        let status = Status::default().over(CONNECTION).with_clock_rate(rate);
        match self.admission() {
            Admission::Quarantined(quarantine) => status.in_quarantine(quarantine),
            Admission::Unchecked | Admission::Admitted(_) => status,
        }
    }

    fn check(&self, resource: &Resource) -> Result<(), Error> {
        reserved::check(resource)
    }

    /// A watch notifies of every change, and never of an expiry.
    fn begin(&self, request: &Request) -> Begun {
        let (node, request, before) = (self.clone(), request.clone(), self.admission());
        let reply = async move {
            let reply = node.reply_to(&request)?;
            // Behind the request, so that the clock that expired a key was not later.
            node.read_clock();
            Ok(if request.is_vote() { before.judge(reply, node.admission()) } else { reply })
        };
        Begun::Sent(Exchange {
            connection: Some(CONNECTION),
            server: Some(*self.server()),
            reply: Box::pin(reply),
        })
    }
}

/// Returns the identity of a server that no other one has.
fn new_identity() -> ServerId {
    static MADE: AtomicU64 = AtomicU64::new(0);
    ServerId::new(format!("memory-{}", MADE.fetch_add(1, Ordering::Relaxed)))
}

/// The connection never changes, because no request is lost or overtaken within a process.
const CONNECTION: ConnectionId = ConnectionId(0);

/// Does not show the content.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNode").field("label", &self.0.label).field("keys", &self.len()).finish()
    }
}

impl From<MemoryNode> for Arc<dyn LockNode> {
    fn from(node: MemoryNode) -> Self {
        Arc::new(node)
    }
}

/// Converts a name. It panics, so that a test with a misspelled name fails instead of finding no key.
pub(crate) fn name(resource: impl IntoResource) -> Resource {
    resource.into_resource().unwrap_or_else(|error| panic!("{error}"))
}
