//! Readers and writers: many readers or one writer at a time, on any machines.
//!
//! A writer has a plain lock, so it has all guarantees of one, and any Redlock client is a writer. Readers share an
//! entry under the same name, which is of another type and excludes every plain lock. `lab/model` explores the rule.
//!
//! Nodes deny new readers while a writer has locked the *gate*. It is only about precedence: exclusion does not depend
//! on it.

#![allow(private_interfaces)] // nobody else can name `sealed`

pub(super) mod write;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::attempts::CheckedRequest;
use crate::client::handle::Handle;
use crate::client::held::Held;
use crate::client::kind::{Fenceable, Kind, Owned, Sole, sealed};
use crate::client::request::LockRequest;
use crate::decide::backoff::RetryPolicy;
use crate::lease::mode::Mode;
use crate::types::error::Error;
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::resource::{IntoResource, Resource, Resources};

/// A lock that many readers or one writer hold, on any machines.
///
/// Created by [`Redlock::rw_lock`](crate::Redlock::rw_lock). Clones share everything. Use it like the `RwLock` of the
/// standard library or of tokio, with the life of a [lock](crate::Redlock::lock): a TTL, keep-alive and loss.
///
/// # Other locks
///
/// A plain lock on the same name, of this or any other Redlock client, excludes readers and writers and is excluded by
/// them. Only [`write`](RwLock::write) has precedence over new readers.
///
/// # Order
///
/// A writer that has to wait locks the *gate*, the name followed by `:writer`. While it is locked, nodes grant no new
/// readers. Thus a writer waits for the present readers only, and for those that have waited longer. Further writers queue
/// for the gate, which is released after the writer. Readers that wait have their turns between the writers: see [the
/// order of waiters][order].
///
/// A writer that crashes while it waits keeps readers out for at most 2 s.
///
/// [order]: https://github.com/redlock-rs/redlock/blob/main/docs/waiting.md#order-of-waiters
///
/// # Deadlocks
///
/// A reader cannot become the writer: release the read lock first. Otherwise the write request waits for its own reader,
/// and fails at the end of its [wait](LockRequest::max_wait). Do not request a second read lock while you hold one. A
/// writer may wait for the first one, and the second one waits for the writer.
#[derive(Clone)]
pub struct RwLock {
    handle: Arc<Handle>,
    name: Resource,
    gate: Resource,
}

impl RwLock {
    pub(crate) fn new(handle: Arc<Handle>, name: impl IntoResource) -> Result<Self, Error> {
        let name = name.into_resource()?;
        let gate = Resource::new([name.as_bytes(), b":writer"].concat())?;
        Ok(Self { handle, name, gate })
    }

    /// Returns the name of the lock.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let catalog = redlock.rw_lock("catalog")?;
    /// let reader = catalog.read(ttl).await?;
    /// let inspection = redlock.inspect(catalog.resource()).await?;
    /// assert_eq!(Some("readers"), inspection.holder().and_then(|by| by.owner()));
    /// # });
    /// ```
    pub fn resource(&self) -> &Resource {
        &self.name
    }

    /// Returns the name of the gate, such as `catalog:writer`.
    ///
    /// It is locked while a writer waits. The access rules of the servers must permit this key, too.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let catalog = redlock.rw_lock("catalog")?;
    /// // The key patterns of a Redis user who may read and write.
    /// let keys = [catalog.resource(), catalog.gate()];
    /// let patterns = keys.map(|key| format!("~{key}"));
    /// assert_eq!(["~catalog", "~catalog:writer"], patterns);
    /// # });
    /// ```
    pub fn gate(&self) -> &Resource {
        &self.gate
    }

    /// Locks the resource for reading, together with other readers.
    ///
    /// Returns a [`LockRequest`]: set options, then `.await` it. The request waits for up to 10 s by default. `ttl` is
    /// the same as for [`lock`](crate::Redlock::lock).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let catalog = redlock.rw_lock("catalog")?;
    /// let reader = catalog.read(ttl).await?;
    /// assert!(catalog.read(ttl).try_now().await?.is_some(), "readers share it");
    /// assert!(catalog.write(ttl).try_now().await?.is_none());
    /// reader.release().await?;
    /// # });
    /// ```
    pub fn read(&self, ttl: Duration) -> LockRequest<Read> {
        let kind = Read { name: self.name.clone(), gate: self.gate.clone() };
        LockRequest::new(Arc::clone(&self.handle), Ok(kind), ttl)
    }

    /// Locks the resource for writing, alone.
    ///
    /// Returns a [`LockRequest`], with all options of a lock: [fencing](LockRequest::fenced), for example. While it
    /// waits, no new reader is granted. `ttl` is the same as for [`lock`](crate::Redlock::lock).
    ///
    /// A writer that has to wait first locks the [gate](RwLock::gate). [`max_attempts`](LockRequest::max_attempts)
    /// limits the attempts for the gate and those for the lock separately. With a single attempt, the gate is not
    /// locked.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let catalog = redlock.rw_lock("catalog")?;
    /// let writer = catalog.write(ttl).fenced().await?;
    /// println!("write with token {:?}", writer.token());
    /// assert!(catalog.read(ttl).try_now().await?.is_none());
    /// # });
    /// ```
    pub fn write(&self, ttl: Duration) -> LockRequest<Write> {
        let kind = Write { name: self.name.clone(), gate: self.gate.clone() };
        LockRequest::new(Arc::clone(&self.handle), Ok(kind), ttl)
    }
}

/// The lock of [`RwLock::write`]: it excludes readers and other writers.
#[derive(Clone, Debug)]
pub struct Write {
    pub(crate) name: Resource,
    pub(crate) gate: Resource,
}

/// The lock of [`RwLock::read`], which readers share.
#[derive(Clone, Debug)]
pub struct Read {
    pub(crate) name: Resource,
    pub(crate) gate: Resource,
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Kind for Write {}
impl Owned for Write {}
impl Sole for Write {}

impl sealed::Kind for Write {
    type Extra = ();

    const NAME: &'static str = "write";

    fn resources(&self) -> Result<Resources, Error> {
        Resources::new([self.name.clone()])
    }

    async fn acquire(
        &self,
        request: &CheckedRequest,
        start: Instant,
        policy: RetryPolicy,
    ) -> Result<(Held, ()), Error> {
        Ok((write::acquire(request, self.gate.clone(), start, policy).await?, ()))
    }

    async fn try_acquire(
        &self,
        request: &CheckedRequest,
        start: Instant,
        _policy: RetryPolicy,
    ) -> Result<Option<(Held, ())>, Error> {
        Ok(request.try_lock(start).await?.map(|held| (held, ())))
    }
}

impl Fenceable for Write {}

impl sealed::Fenceable for Write {
    type Token = FencingToken;

    fn token(_: &Resource, number: FencingToken) -> FencingToken {
        number
    }
}

impl Kind for Read {}

impl sealed::Kind for Read {
    type Extra = ();

    const NAME: &'static str = "read";

    fn resources(&self) -> Result<Resources, Error> {
        Resources::new([self.name.clone()])
    }

    fn mode(&self) -> Mode {
        Mode::Shared { gate: self.gate.clone() }
    }

    async fn acquire(
        &self,
        request: &CheckedRequest,
        start: Instant,
        policy: RetryPolicy,
    ) -> Result<(Held, ()), Error> {
        Ok((request.attempt_until_acquired(start, &policy).await?, ()))
    }
}
