//! A held slot. Its fencing token compares with those of the same slot only.

use std::cmp::Ordering;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use crate::client::guard::Guard;
use crate::client::keep_alive::KeepAlive;
use crate::client::lease::Lease;
use crate::types::error::Error;
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::lease_state::{LeaseState, Loss};
use crate::types::report::{NodeReport, ReleaseOutcome};
use crate::types::resource::Resource;
use crate::types::token::Fingerprint;

/// A guard that releases its slot on [`release`](SlotGuard::release) or on drop.
///
/// It derefs to its [`SlotLease`]. Drop hands the release to the runtime and returns, as that of a
/// [`Guard`](crate::Guard) does.
#[derive(Debug)]
#[must_use = "the slot is released as soon as the guard is dropped; bind it as `let _guard`, since `let _` drops it at once"]
pub struct SlotGuard {
    guard: Guard,
    lease: SlotLease,
}

impl SlotGuard {
    pub(super) fn new(guard: Guard, index: usize, resource: Resource) -> Self {
        let lease = SlotLease { lease: guard.lease(), index, resource };
        Self { guard, lease }
    }

    pub(super) fn into_parts(self) -> (Guard, SlotLease) {
        (self.guard, self.lease)
    }

    /// Releases the slot on all nodes.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{Redlock, ReleaseOutcome};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slots = redlock.slots("thumbnails", 1)?;
    /// let slot = slots.acquire(ttl).await?;
    /// assert_eq!(ReleaseOutcome::Released, slot.release().await?);
    /// assert!(slots.acquire(ttl).try_now().await?.is_some(), "free at once");
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`Guard::release`](crate::Guard::release).
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the release continues in the background.
    pub async fn release(self) -> Result<ReleaseOutcome, Error> {
        self.guard.release().await
    }

    /// Renews the slot automatically from now on. Same as [`Guard::keep_alive`](crate::Guard::keep_alive).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{KeepAlive, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slot = redlock.slots("transcoders", 4)?.acquire(ttl).await?;
    /// // The video turns out to take longer than the TTL.
    /// slot.keep_alive(KeepAlive::new().max_hold(Duration::from_secs(3600)));
    /// assert!(slot.is_held());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn keep_alive(&self, settings: KeepAlive) {
        self.guard.keep_alive(settings);
    }

    /// Returns the guard of the slot's lock, for code that handles any lock.
    ///
    /// Call [`index`](SlotLease::index) before. The fencing token of the guard compares with those of the same slot only:
    /// see [`token_of_slot`](SlotLease::token_of_slot).
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// let slots = redlock.slots("thumbnails", 1)?;
    /// let slot = slots.acquire(Duration::from_secs(10)).await?;
    /// slot.into_guard().keep_for(Duration::from_secs(60)).await?;
    /// assert!(!slots.inspect().await?[0].is_free());
    /// # Ok(()) }
    /// ```
    pub fn into_guard(self) -> Guard {
        self.guard
    }

    /// Returns a view of the slot that outlives the guard, for other tasks.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{Loss, Redlock, ReleaseOutcome};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slot = redlock.slots("transcoders", 4)?.acquire(ttl).await?;
    /// let lease = slot.lease();
    /// let (loss, released) = tokio::join!(lease.lost(), slot.release());
    /// assert_eq!((Loss::Released, ReleaseOutcome::Released), (loss, released?));
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn lease(&self) -> SlotLease {
        self.lease.clone()
    }
}

impl Deref for SlotGuard {
    type Target = SlotLease;

    fn deref(&self) -> &SlotLease {
        &self.lease
    }
}

/// A view of a held slot: its index, its validity and its state.
///
/// Same as a [`Lease`], except for the fencing token: [`token_of_slot`](SlotLease::token_of_slot) returns one that
/// compares with those of the same slot only.
#[derive(Clone, Debug)]
pub struct SlotLease {
    lease: Lease,
    index: usize,
    resource: Resource,
}

impl SlotLease {
    /// Returns the index of the slot, from 0.
    ///
    /// No other client holds the same index at the same time. Use it, for example, to choose one of K ports or
    /// directories.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{Redlock, SlotLease};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slots = redlock.slots("browsers", 3)?;
    /// let (one, other) = (slots.acquire(ttl).await?, slots.acquire(ttl).await?);
    /// let port = |slot: &SlotLease| 9222 + slot.index();
    /// assert_ne!(port(&one), port(&other), "each browser has a separate port");
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the name of the lock of this slot, such as `thumbnails:slot:3`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slot = redlock.slots("thumbnails", 8)?.acquire(ttl).await?;
    /// let name = format!("thumbnails:slot:{}", slot.index());
    /// assert_eq!(name, slot.resource().to_string());
    /// let plain = redlock.try_lock(slot.resource(), ttl).await?;
    /// assert!(plain.is_none(), "the slot is a lock of this name");
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns the fencing token of a [fenced](crate::SlotRequest::fenced) slot, or `None`.
    ///
    /// Tokens increase within one slot. Those of different slots have no order, so a resource must keep the greatest
    /// token of each slot: K numbers instead of one. With a single number it would reject legitimate holders.
    ///
    #[cfg_attr(feature = "tokio", doc = "```")]
    #[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
    /// # use std::time::Duration;
    /// # use redlock_testkit::MemoryNode;
    /// # use redlock_core::{Redlock, TokioRuntime};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
    /// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slots = redlock.slots("thumbnails", 2)?;
    /// let (one, other) = (slots.acquire(ttl).fenced().await?, slots.acquire(ttl).fenced().await?);
    /// let token = one.token_of_slot().expect("a fenced slot has a token");
    /// assert_eq!(one.resource(), token.resource());
    /// println!("{}: {}", token.resource(), token.number());
    ///
    /// // Tokens of two slots are neither smaller, nor equal, nor greater.
    /// assert_eq!(None, one.token_of_slot().partial_cmp(&other.token_of_slot()));
    /// # Ok(()) }
    /// ```
    pub fn token_of_slot(&self) -> Option<SlotToken> {
        let number = self.lease.fencing_token()?;
        Some(SlotToken { resource: self.resource.clone(), number })
    }

    /// Returns how much longer the slot is valid. Same as [`Lease::remaining`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slot = redlock.slots("thumbnails", 8)?.acquire(ttl).await?;
    /// if slot.remaining() > Duration::from_secs(2) {
    ///     // There is enough time for an image that takes up to 2 s.
    /// }
    /// assert!(slot.remaining() < ttl, "the validity is shorter than the TTL");
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn remaining(&self) -> Duration {
        self.lease.remaining()
    }

    /// Returns the time at which the validity ends, unless the slot is extended.
    ///
    /// Same as [`Lease::deadline`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slot = redlock.slots("thumbnails", 8)?.acquire(ttl).await?;
    /// let deadline = slot.deadline().expect("the slot is held");
    /// // The wait for the next lock ends before the slot does.
    /// let guard = redlock.lock("image:42", ttl).wait_until(deadline).await?;
    /// assert!(guard.is_held() && deadline < redlock.now() + ttl);
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.lease.deadline()
    }

    /// Returns whether the slot is valid at this moment. Same as [`Lease::is_held`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slot = redlock.slots("thumbnails", 8)?.acquire(ttl).await?;
    /// let lease = slot.lease();
    /// assert!(lease.is_held());
    /// slot.release().await?;
    /// assert!(!lease.is_held());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn is_held(&self) -> bool {
        self.lease.is_held()
    }

    /// Returns the state of the slot, according to the clock. Same as [`Lease::state`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{LeaseState, Loss, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slot = redlock.slots("thumbnails", 8)?.acquire(ttl).await?;
    /// let lease = slot.lease();
    /// assert_eq!(LeaseState::Held, lease.state());
    /// slot.release().await?;
    /// assert_eq!(LeaseState::Lost(Loss::Released), lease.state());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn state(&self) -> LeaseState {
        self.lease.state()
    }

    /// Waits until the state differs from the present one. Same as [`Lease::changed`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{LeaseState, Loss, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slot = redlock.slots("thumbnails", 8)?.acquire(ttl).await?;
    /// let changed = slot.changed();
    /// slot.release().await?;
    /// assert_eq!(LeaseState::Lost(Loss::Released), changed.await);
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing is lost.
    pub fn changed(&self) -> impl Future<Output = LeaseState> + Send + 'static + use<> {
        self.lease.changed()
    }

    /// Waits until the slot is lost, and returns the reason. Same as [`Lease::lost`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slot = redlock.slots("thumbnails", 8)?.acquire(ttl).await?;
    /// let (loss, released) = tokio::join!(slot.lost(), slot.release());
    /// assert_eq!("lock released", loss.to_string());
    /// # released?;
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing is lost.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static + use<> {
        self.lease.lost()
    }

    /// Makes the slot valid for `ttl` from now, less clock drift.
    ///
    /// Same as [`Lease::extend`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slot = redlock.slots("thumbnails", 8)?.acquire(ttl).await?;
    /// // A large image: it takes up to 1 min.
    /// slot.extend(Duration::from_secs(60)).await?;
    /// assert!(slot.remaining() > ttl);
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`Lease::extend`].
    ///
    /// # Cancel safety
    ///
    /// Same as [`Lease::extend`].
    pub async fn extend(&self, ttl: Duration) -> Result<(), Error> {
        self.lease.extend(ttl).await
    }

    /// Returns the fingerprint of the token, for logs and errors.
    ///
    /// Same as [`Lease::fingerprint`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slots = redlock.slots("thumbnails", 8)?;
    /// let slot = slots.acquire(ttl).await?;
    /// println!("{}: acquired as {}", slot.resource(), slot.fingerprint());
    /// let inspection = &slots.inspect().await?[slot.index()];
    /// assert_eq!(Some(&slot.fingerprint()), inspection.holder());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn fingerprint(&self) -> Fingerprint {
        self.lease.fingerprint()
    }

    /// Returns the reports of all nodes about the acquisition.
    ///
    /// Same as [`Lease::node_reports`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::{Outcome, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let nodes = ["a", "b", "c"].map(|label| MemoryNode::new(label).into());
    /// # let redlock = Redlock::builder(ThreadRuntime).nodes(nodes).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slot = redlock.slots("thumbnails", 8)?.acquire(ttl).await?;
    /// let reports = slot.node_reports();
    /// let outcomes = reports.iter().map(|report| report.outcome());
    /// let granted = outcomes.filter(|outcome| matches!(outcome, Outcome::Granted));
    /// assert!(granted.count() >= 2, "a quorum of three nodes");
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn node_reports(&self) -> Vec<NodeReport> {
        self.lease.node_reports()
    }
}

/// The fencing token of one slot.
///
/// Tokens of the same slot are ordered. Tokens of different slots are neither smaller, nor equal, nor greater: every
/// comparison of them is false.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SlotToken {
    resource: Resource,
    number: FencingToken,
}

impl SlotToken {
    /// Returns the slot to which the token belongs.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # use std::collections::HashMap;
    /// // The greatest token of each slot, as the protected resource stores it.
    /// let mut greatest = HashMap::new();
    /// let slot = redlock.slots("disks", 2)?.acquire(ttl).fenced().await?;
    /// let token = slot.token_of_slot().expect("a fenced slot has a token");
    /// let stored = greatest.entry(token.resource().clone()).or_insert(token.number());
    /// assert!(token.number() >= *stored, "a stale request");
    /// *stored = token.number();
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns the number, which increases with every fenced lock on this slot.
    ///
    /// Compare it only with numbers of the same [`resource`](SlotToken::resource).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let slot = redlock.slots("disks", 2)?.acquire(ttl).fenced().await?;
    /// let token = slot.token_of_slot().expect("a fenced slot has a token");
    /// // UPDATE disks SET token = $1, .. WHERE slot = $2 AND token <= $1
    /// let parameters = (i64::from(token.number()), token.resource().to_string());
    /// assert_eq!(format!("disks:slot:{}", slot.index()), parameters.1);
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn number(&self) -> FencingToken {
        self.number
    }
}

impl PartialOrd for SlotToken {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self.resource == other.resource).then(|| self.number.cmp(&other.number))
    }
}

impl fmt::Debug for SlotToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotToken({} of {:?})", self.number, self.resource)
    }
}
