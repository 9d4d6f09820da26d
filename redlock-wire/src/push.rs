//! Distributes the server's pushes to the watches that wait for them.
//!
//! A hub belongs to one connection and ends with it. A watcher first joins the hub and then arms the watch on the
//! server, so that no push arrives before a watcher is registered. A push completes every watch of its key that has
//! joined by then, and forgets the key, as the server does. The hub never arms a watch again, so a server that pushes
//! without end (a full invalidation table) causes no loop.
//!
//! A key is kept as long as it is watched. The server cannot be notified that a watch ended, so it may push once for a
//! key without watches. Such a push is ignored.

#[cfg(all(test, loom))]
mod loom_tests;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use event_listener::{Event, EventListener};
use redlock_core::node::QuarantineReason;

use crate::gate::Gate;
use crate::stamp::STAMP;
use crate::sync::{Mutex, MutexGuard, locked};

/// The number of keys for which capacity is kept when they are gone. The memory of a larger burst is freed.
const SPARE: usize = 64;

/// The receiver of a connection's pushes: it learns which keys have changed.
///
/// Clones share the same hub. No method blocks, so each may be called from the task that drives the connection.
#[derive(Clone, Default)]
pub struct Hub(Arc<Shared>);

#[derive(Default)]
struct Shared {
    keys: Mutex<Keys>,
    gate: Gate,
    /// `true` during the TLS handshake. It publishes no other data.
    is_securing: AtomicBool,
}

#[derive(Default)]
struct Keys {
    watched: HashMap<Arc<[u8]>, Watchers>,
    /// `true` if the connection is no longer in use, so that no push will arrive.
    closed: bool,
}

/// The watches of one key.
struct Watchers {
    changed: Arc<Event>,
    count: usize,
}

impl Hub {
    /// Reports that a key has changed.
    pub fn changed(&self, key: &[u8]) {
        if key.starts_with(STAMP) {
            self.gate().touch();
        }
        let watchers = self.keys().watched.remove(key);
        if let Some(watchers) = watchers {
            watchers.changed.notify(usize::MAX);
        }
    }

    /// Reports that any key may have changed: all were deleted, or pushes were lost.
    pub fn all_changed(&self) {
        let watched = std::mem::take(&mut self.keys().watched);
        for watchers in watched.into_values() {
            watchers.changed.notify(usize::MAX);
        }
    }

    /// Reports that all keys were deleted.
    ///
    /// Votes do not count until the server was checked again. If the connection
    /// [reports flushes](crate::Connection::reports_flushes), this must be called before the caller of any later
    /// request receives its reply.
    pub fn flushed(&self) {
        self.gate().lose(QuarantineReason::DataLost);
        self.all_changed();
    }

    /// Returns the admission of the connection.
    pub(crate) fn gate(&self) -> &Gate {
        &self.0.gate
    }

    /// Records that a TLS handshake begins or has ended.
    pub(crate) fn secures(&self, is_securing: bool) {
        self.0.is_securing.store(is_securing, Ordering::Relaxed);
    }

    /// Returns why a connection attempt was not completed, as far as it is known.
    pub(crate) fn unfinished(&self) -> &'static str {
        if self.0.is_securing.load(Ordering::Relaxed) {
            ": TLS handshake not completed; does the server speak TLS on this port?"
        } else {
            ""
        }
    }

    /// Completes all watches, present and future: no push will arrive any more.
    pub(crate) fn close(&self) {
        self.keys().closed = true;
        self.all_changed();
    }

    /// Joins the watchers of a key. Arm the watch on the server only afterwards.
    pub(crate) fn watch(&self, key: &[u8]) -> Changed {
        let mut keys = self.keys();
        let key: Arc<[u8]> = key.into();
        let watchers = keys
            .watched
            .entry(Arc::clone(&key))
            .or_insert_with(|| Watchers { changed: Arc::default(), count: 0 });
        watchers.count += 1;
        let (event, listener) = (Arc::clone(&watchers.changed), watchers.changed.listen());
        let closed = keys.closed;
        drop(keys);
        if closed {
            self.all_changed();
        }
        Changed { hub: self.clone(), key, event, listener }
    }

    /// Removes one watch of a key. The watch may already be completed and forgotten, while others watch the key.
    fn leave(&self, key: &[u8], event: &Arc<Event>) {
        let mut keys = self.keys();
        let Some(watchers) = keys.watched.get_mut(key) else { return };
        if !Arc::ptr_eq(&watchers.changed, event) {
            return;
        }
        watchers.count -= 1;
        if watchers.count == 0 {
            keys.watched.remove(key);
            let used = keys.watched.len().max(SPARE);
            // This is rare and therefore cheap: it happens again only after the number of keys has doubled and halved.
            if keys.watched.capacity() > 4 * used {
                keys.watched.shrink_to(2 * used);
            }
        }
    }

    /// No code panics halfway through a change, so a poisoned lock is safe to use.
    fn keys(&self) -> MutexGuard<'_, Keys> {
        locked(&self.0.keys)
    }
}

/// Shows the number of watched keys.
impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys();
        f.debug_struct("Hub").field("keys", &keys.watched.len()).field("closed", &keys.closed).finish()
    }
}

/// A future that completes when the key has changed or no push can arrive any more. Dropping it leaves the hub.
pub(crate) struct Changed {
    hub: Hub,
    key: Arc<[u8]>,
    event: Arc<Event>,
    listener: EventListener,
}

impl Future for Changed {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.listener).poll(context)
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        self.hub.leave(&self.key, &self.event);
    }
}

#[cfg(test)]
impl Hub {
    /// Returns the number of watched keys.
    pub(crate) fn len(&self) -> usize {
        self.keys().watched.len()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    fn is_notified(changed: &mut Changed) -> bool {
        pin!(changed).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_change_notifies_exactly_the_watches_of_its_key() {
        let hub = Hub::default();
        let [mut one, mut two, mut other] = [b"a", b"a", b"b"].map(|key| hub.watch(key));
        assert!(!is_notified(&mut one) && !is_notified(&mut two) && !is_notified(&mut other));
        hub.changed(b"c");
        assert_eq!(2, hub.len());
        hub.changed(b"a");
        assert!(is_notified(&mut one) && is_notified(&mut two) && !is_notified(&mut other));
        assert_eq!(1, hub.len());
        hub.all_changed();
        assert!(is_notified(&mut other));
        assert_eq!(0, hub.len());
    }

    #[test]
    fn a_completed_watch_does_not_affect_the_next_one() {
        let hub = Hub::default();
        let old = hub.watch(b"a");
        hub.changed(b"a");
        let mut new = hub.watch(b"a");
        drop(old);
        assert!(!is_notified(&mut new));
        hub.changed(b"a");
        assert!(is_notified(&mut new));
    }

    #[test]
    fn a_dropped_watch_does_not_affect_the_others() {
        let hub = Hub::default();
        let (first, mut second) = (hub.watch(b"a"), hub.watch(b"a"));
        drop(first);
        assert_eq!(1, hub.len());
        hub.changed(b"a");
        assert!(is_notified(&mut second));
    }

    #[test]
    fn watches_of_a_closed_hub_complete_at_once() {
        let hub = Hub::default();
        let mut before = hub.watch(b"a");
        hub.close();
        let mut after = hub.watch(b"a");
        assert!(is_notified(&mut before) && is_notified(&mut after));
        assert_eq!(0, hub.len());
    }

    #[test]
    fn a_million_unwatched_keys_leave_no_memory_behind() {
        let hub = Hub::default();
        let standing = hub.watch(b"standing");
        for batch in 0..100_u32 {
            let watches: Vec<_> =
                (0..10_000_u32).map(|number| hub.watch(format!("{batch} {number}").as_bytes())).collect();
            if batch % 2 == 0 {
                hub.changed(format!("{batch} 7").as_bytes());
            }
            assert!(hub.len() >= 10_000);
            drop(watches);
            assert_eq!(1, hub.len());
        }
        let capacity = hub.keys().watched.capacity();
        assert!(capacity <= 4 * SPARE, "{capacity}");
        drop(standing);
        assert_eq!((0, 1), (hub.len(), Arc::strong_count(&hub.0)));
    }
}
