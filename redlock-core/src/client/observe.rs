//! Observation: the holders of a resource, one after the other.

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Poll, ready};

use crate::client::attempts::while_open;
use crate::client::handle::Handle;
use crate::client::inspect::{self, Inspection, LockStatus};
use crate::decide::observation::{Found, Observation, Seen};
use crate::decide::readiness::readiness;
use crate::runtime::Alarm;
use crate::types::error::{Error, ErrorKind};
use crate::types::resource::Resource;
use crate::watch::node_watch::NodeWatch;
use crate::watch::watches::{Parked, Watches};

/// An observer of a resource: it returns the holders, one after the other.
///
/// Created by [`Redlock::observe`](crate::Redlock::observe) and [`Leadership::leader`](crate::Leadership::leader).
///
/// # Cost
///
/// Nodes [notify] the observer of changes, and then it asks them who the holder is. On each Redis server, a change costs
/// three commands to watch the key again, and one to read the holder. A renewal by the holder is a change of the key: it
/// costs the first three. Every 30 s the observer asks without a notification. While nothing else happens, nothing is
/// sent.
///
/// If fewer than a quorum of nodes can notify clients, or reply, the observer asks them every second instead.
///
/// [notify]: https://github.com/redlock-rs/redlock/blob/main/docs/waiting.md
#[must_use = "an observer does nothing until a change is awaited"]
pub struct Observer {
    handle: Arc<Handle>,
    resource: Result<Resource, Error>,
    observation: Observation,
    parked: Parked,
}

impl Observer {
    pub(crate) fn new(handle: Arc<Handle>, resource: Result<Resource, Error>) -> Self {
        let observation = Observation::new(handle.peers.len(), handle.notify_waiters());
        Self { handle, resource, observation, parked: Parked::default() }
    }

    /// Waits until the holder differs from the one that was returned last, and returns the new one.
    ///
    /// The first call returns the present holder. A holder that is replaced before the nodes are asked is skipped. While
    /// no quorum agrees on the holder for longer than the node timeout, the status is
    /// [`Undecided`](LockStatus::Undecided). The number of [waiters](Inspection::waiters) is that of the same moment. A change
    /// of this number alone is skipped, because nodes do not notify of it.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let mut observer = redlock.observe("scheduler");
    /// assert!(observer.changed().await?.is_free());
    ///
    /// let guard = redlock.lock("scheduler", ttl).owner("host-1").await?;
    /// let inspection = observer.changed().await?;
    /// assert_eq!(Some("host-1"), inspection.holder().and_then(|holder| holder.owner()));
    /// # drop(guard);
    /// # });
    /// ```
    ///
    /// For a stream, write
    /// `futures::stream::unfold(observer, async |mut observer| Some((observer.changed().await, observer)))`.
    ///
    /// # Errors
    ///
    /// Those of [`Redlock::inspect`](crate::Redlock::inspect). An error of the nodes is returned once, and the next call
    /// waits until they reply again. [`Closed`](crate::ErrorKind::Closed), [`InvalidInput`](crate::ErrorKind::InvalidInput)
    /// and [`Unsupported`](crate::ErrorKind::Unsupported) are final: every call returns them at once.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing is lost: the next call continues.
    pub async fn changed(&mut self) -> Result<Inspection, Error> {
        let resource = self.resource.clone()?;
        loop {
            let seen = self.until_due(&resource).await.ok_or_else(Error::closed)?;
            let inspected = inspect::inspect(&self.handle, resource.clone()).await;
            let found = match &inspected {
                Ok(inspection) => found(inspection),
                Err(error) if is_final(error.kind()) => return inspected,
                Err(_) => Found::Failed,
            };
            if self.observation.looked(found, seen, self.handle.now()) {
                return inspected;
            }
        }
    }

    /// Waits until the nodes are to be asked. Returns what each watched node reported until then.
    ///
    /// `None` if the client is closed.
    async fn until_due(&mut self, resource: &Resource) -> Option<Vec<Option<Seen>>> {
        let Self { handle, observation, parked, .. } = self;
        let resources = [resource.clone()];
        let mut session = Session::new(handle, &resources, parked);
        let (began, mut alarm) = (handle.now(), Alarm::default());
        if observation.doubts_free() {
            session.watches().query_again_if_free(began);
        }
        let due = poll_fn(|cx| {
            loop {
                let (now, watches) = (handle.now(), session.watches());
                let next = watches.poll(cx, now);
                let seen: Vec<_> = watches.iter().map(NodeWatch::seen).collect();
                let ready = readiness(&watches.views(now), handle.rules.quorums, now);
                let due = observation.look_at(began, &seen, ready, handle.rules.node_timeout);
                if now >= due {
                    return Poll::Ready(seen);
                }
                let look = next.map_or(due, |next| next.min(due));
                ready!(alarm.poll_at(&*handle.runtime, look, cx));
            }
        });
        while_open(handle, due).await
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("resource", &self.resource).finish_non_exhaustive()
    }
}

/// Returns whether every call of the observer fails with such an error.
pub(crate) fn is_final(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Closed | ErrorKind::InvalidInput | ErrorKind::Unsupported)
}

/// Returns the result of a look.
fn found(inspection: &Inspection) -> Found {
    match (inspection.status(), inspection.token()) {
        (LockStatus::Free, _) => Found::Free,
        (_, Some(token)) => Found::Held(token.clone()),
        (_, None) => Found::Undecided,
    }
}

/// The watches of one wait. They are parked when the wait ends or is dropped.
struct Session<'a> {
    watches: Option<Watches<'a>>,
    parked: &'a mut Parked,
}

impl<'a> Session<'a> {
    fn new(handle: &'a Handle, resources: &'a [Resource], parked: &'a mut Parked) -> Self {
        let watches = Watches::new(handle, resources, None).resume(mem::take(parked));
        Self { watches: Some(watches), parked }
    }

    fn watches(&mut self) -> &mut Watches<'a> {
        self.watches.as_mut().expect("present until the drop")
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(watches) = self.watches.take() {
            *self.parked = watches.park();
        }
    }
}
