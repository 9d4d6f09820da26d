//! K slots of one name: up to K holders at a time, on any machines.
//!
//! A slot is a lock with a published name, so each slot has all guarantees of a lock, and any Redlock client can take
//! part. A counter over a quorum cannot do this: see the chapter *Patterns*. [`search`] finds a free slot.

mod search;
mod set;
mod slot;
mod token;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::slot::Slot;
pub use self::token::SlotToken;
use crate::client::handle::Handle;
use crate::client::inspect::{self, Inspection};
use crate::client::request::LockRequest;
use crate::types::error::Error;
use crate::types::resource::{IntoResource, Resource};

/// A fixed number of slots under one name, each held by one client at a time.
///
/// Created by [`Redlock::slots`](crate::Redlock::slots). Clones share everything. Use it as a semaphore over machines:
/// at most [`count`](Slots::count) clients work at once.
///
/// # Names
///
/// The slots of `thumbnails` are the locks `thumbnails:slot:0`, `thumbnails:slot:1` and so on. Any Redlock client can
/// take part by locking one of them, and [`Redlock::lock`](crate::Redlock::lock) can lock a certain slot.
///
/// All clients must use the same count. While it is being changed, the greater one applies.
///
/// # Order
///
/// The tasks that share a [`Redlock`](crate::Redlock) get slots in the order of their requests, even if they made
/// several `Slots` of the same name. One of them at a time searches: it watches all slots, and is notified when any of
/// them becomes free. There is no order between processes. Each search begins at a random slot, so clients spread over
/// the slots.
///
/// Keep a `Slots` instead of creating one for each request: a waiting task then continues the watches of the one before.
#[derive(Clone)]
pub struct Slots {
    handle: Arc<Handle>,
    slot: Slot,
}

impl Slots {
    /// The maximum number of slots: 256.
    ///
    /// A task that waits watches every slot on every node.
    pub const MAX_COUNT: usize = 256;

    pub(crate) fn new(handle: Arc<Handle>, name: impl IntoResource, count: usize) -> Result<Self, Error> {
        let name = name.into_resource()?;
        if !(1..=Self::MAX_COUNT).contains(&count) {
            let max = Self::MAX_COUNT;
            return Err(Error::invalid(format!("{count} slots of {name:?} are out of range: 1 to {max}")));
        }
        Ok(Self { handle, slot: Slot::new(name, count)? })
    }

    /// Returns the number of slots.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let slots = redlock.slots("thumbnails", 8)?;
    /// let slot = slots.acquire(ttl).await?;
    /// let inspections = slots.inspect().await?;
    /// let free = inspections.iter().filter(|slot| slot.is_free()).count();
    /// assert_eq!(slots.count() - 1, free);
    /// # });
    /// ```
    pub fn count(&self) -> usize {
        self.slot.locks().len()
    }

    /// Returns the names of the locks, in the order of their indices.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let slots = redlock.slots("thumbnails", 8)?;
    /// assert_eq!("thumbnails:slot:7", slots.resources()[7].to_string());
    /// # });
    /// ```
    pub fn resources(&self) -> &[Resource] {
        self.slot.locks()
    }

    /// Acquires any free slot.
    ///
    /// Returns a [`LockRequest`]: set options, then `.await` it. The request waits for up to 10 s by default. `ttl` is
    /// the same as for [`lock`](crate::Redlock::lock).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let slots = redlock.slots("thumbnails", 2)?;
    /// let ttl = Duration::from_secs(10);
    /// let (first, second) = (slots.acquire(ttl).await?, slots.acquire(ttl).await?);
    /// assert_ne!(first.index(), second.index());
    /// assert!(slots.acquire(ttl).try_now().await?.is_none(), "both are held");
    ///
    /// first.release().await?;
    /// assert!(slots.acquire(ttl).try_now().await?.is_some());
    /// # });
    /// ```
    pub fn acquire(&self, ttl: Duration) -> LockRequest<Slot> {
        LockRequest::new(Arc::clone(&self.handle), Ok(self.slot.clone()), ttl)
    }

    /// Returns the holder of each slot, in the order of the indices.
    ///
    /// The slots are inspected one after the other, as by [`Redlock::inspect`](crate::Redlock::inspect). Thus the
    /// result is not a snapshot of a single moment.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let slots = redlock.slots("thumbnails", 8)?;
    /// let guard = slots.acquire(Duration::from_secs(10)).await?;
    /// let inspections = slots.inspect().await?;
    /// assert_eq!(7, inspections.iter().filter(|slot| slot.is_free()).count());
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// The first error of an inspection; see [`Redlock::inspect`](crate::Redlock::inspect).
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the requests in flight continue in the background. The result is discarded.
    pub async fn inspect(&self) -> Result<Vec<Inspection>, Error> {
        let mut inspections = Vec::with_capacity(self.count());
        for lock in self.resources() {
            inspections.push(inspect::inspect(&self.handle, lock.clone()).await?);
        }
        Ok(inspections)
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").field("slot", &self.slot).finish_non_exhaustive()
    }
}
