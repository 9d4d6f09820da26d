//! A lock node in memory, to the letter of the contract.
//!
//! Every operation takes effect at once, when its future is first polled: nothing is ever half done, and requests are
//! carried out in the order in which they were sent. [`Faulty`](crate::Faulty) adds what networks do to that.

mod counters;
pub(crate) mod store;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redlock_core::{
    Capabilities, Claim, ConnectionId, FencingToken, Holding, Instant, IntoResource, LockNode, NodeError,
    Resource, Runtime, ServerId, Token, Ttl, Vote, Watch, async_trait, boot_time,
};

use self::store::Store;

/// A [`LockNode`] in memory, and a look into it. Clones share the store: they are clients of one server.
///
/// ```
/// use std::sync::Arc;
/// use redlock_core::{Claim, IntoResources, LockNode, Token, Ttl, Vote};
/// use redlock_testkit::{MemoryNode, block_on};
///
/// let node = MemoryNode::new("fake-1");
/// let alice = Claim::new("invoice:42".into_resources()?, Token::from_bytes("alice"));
/// assert_eq!(Vote::Granted, block_on(node.acquire(&alice, Ttl::MAX))?);
/// assert_eq!(Some(Token::from_bytes("alice")), node.holder("invoice:42"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryNode(Arc<Shared>);

struct Shared {
    label: String,
    /// `None`: the machine's.
    clock: Option<Arc<dyn Runtime>>,
    server: ServerId,
    store: Mutex<Store>,
}

impl MemoryNode {
    /// An empty node whose keys expire by the machine's clock.
    pub fn new(label: impl Into<String>) -> Self {
        Self::with_clock(label.into(), None)
    }

    /// An empty node whose keys expire by the clock of a runtime, which may be simulated or paused.
    pub fn on(label: impl Into<String>, runtime: Arc<dyn Runtime>) -> Self {
        Self::with_clock(label.into(), Some(runtime))
    }

    /// Whose token is under a resource; `None` where there is none, or something that is no lock.
    ///
    /// # Panics
    ///
    /// When the name is no valid one.
    pub fn holder(&self, resource: impl IntoResource) -> Option<Token> {
        self.store().holder(&name(resource), self.now()).cloned()
    }

    /// How long the key of a resource will stand; `None` where there is none, or one that never expires.
    ///
    /// # Panics
    ///
    /// When the name is no valid one.
    pub fn remaining(&self, resource: impl IntoResource) -> Option<Duration> {
        self.store().remaining(&name(resource), self.now())
    }

    /// The number of keys that have not expired.
    pub fn len(&self) -> usize {
        self.store().living_count(self.now())
    }

    /// Whether every key is gone or has expired.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counter that fencing tokens of a resource come from; `None` where there is none.
    ///
    /// # Panics
    ///
    /// When the name is no valid one.
    pub fn counter(&self, resource: impl IntoResource) -> Option<FencingToken> {
        self.store().counter(&name(resource), self.now())
    }

    /// Sets the counter of a resource, or loses it, as a server does that evicts keys.
    ///
    /// # Panics
    ///
    /// When the name is no valid one.
    pub fn set_counter(&self, resource: impl IntoResource, number: Option<FencingToken>) {
        let now = self.now();
        self.store().set_counter(&name(resource), number, now);
    }

    /// Loses all keys and counters, as a server does that restarts without persistence.
    pub fn clear(&self) {
        self.store().clear();
    }

    /// Puts a token under a resource, whatever is there, as another program would have it.
    ///
    /// # Panics
    ///
    /// When the name is no valid one.
    pub fn put(&self, resource: impl IntoResource, token: Token, ttl: Ttl) {
        let now = self.now();
        self.store().put(name(resource), token, now + ttl.as_duration(), now);
    }

    /// Puts something that is no lock under a resource, whatever is there. It never expires.
    ///
    /// # Panics
    ///
    /// When the name is no valid one.
    pub fn put_other(&self, resource: impl IntoResource) {
        self.store().put_other(name(resource));
    }

    fn with_clock(label: String, clock: Option<Arc<dyn Runtime>>) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let server = ServerId::new(format!("memory-{}", MADE.fetch_add(1, Ordering::Relaxed)));
        Self(Arc::new(Shared { label, clock, server, store: Mutex::default() }))
    }

    fn now(&self) -> Instant {
        self.0.clock.as_ref().map_or_else(boot_time, |runtime| runtime.now())
    }

    /// Nothing in the store panics halfway, so a poisoned one is whole.
    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl LockNode for MemoryNode {
    fn label(&self) -> &str {
        &self.0.label
    }

    async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        self.store().acquire(claim, ttl, self.now())
    }

    async fn extend(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        self.store().extend(claim, ttl, self.now())
    }

    async fn release(&self, claim: &Claim) -> Result<Vote, NodeError> {
        Ok(self.store().release(claim, self.now()))
    }

    async fn acquire_fenced(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        self.store().acquire_fenced(claim, ttl, self.now())
    }

    async fn confirm(&self, claim: &Claim, ttl: Ttl, fence: FencingToken) -> Result<Vote, NodeError> {
        self.store().confirm(claim, ttl, fence, self.now())
    }

    async fn refill_fenced(&self, claim: &Claim, ttl: Ttl, fence: FencingToken) -> Result<Vote, NodeError> {
        self.store().refill_fenced(claim, ttl, fence, self.now())
    }

    async fn inspect(&self, resource: &Resource) -> Result<Option<Holding>, NodeError> {
        self.store().inspect(resource, self.now())
    }

    /// Told of every change, and never of an expiry.
    async fn watch(&self, resource: &Resource) -> Result<Watch, NodeError> {
        let (availability, changed) = self.store().watch(resource, self.now());
        Ok(Watch::new(availability, changed))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_inspect().with_watch().with_fencing()
    }

    /// Always the same: within a process nothing is lost or overtaken.
    fn connection(&self) -> Option<ConnectionId> {
        Some(ConnectionId(0))
    }

    fn server(&self) -> Option<ServerId> {
        Some(self.0.server)
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

/// A test that misspells a name should hear of it, not find nothing under it.
pub(crate) fn name(resource: impl IntoResource) -> Resource {
    resource.into_resource().unwrap_or_else(|error| panic!("{error}"))
}
