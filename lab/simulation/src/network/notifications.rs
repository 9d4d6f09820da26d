//! The notifications of simulated servers.
//!
//! A notification travels like a reply: it may be held up, and on a stream its loss breaks the connection. It may also
//! be lost while the connection is intact, come late, or come without a cause. A watch ends with its connection, and
//! completes then. Datagrams have no connection, so a server that crashes may forget a watch, and the client is not
//! notified.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use event_listener::{Event, EventListener};
use redlock_core::runtime::{BoxFuture, Runtime};

use super::remote::{Shared, until};
use super::traffic::below;
use super::{Direction, Transport};

/// The faults of notifications. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notifications {
    /// The number of changes per thousand without a notification.
    ///
    /// The connection stays intact.
    pub lost: u32,
    /// The number of watches per thousand that are notified at once without a change.
    pub spurious: u32,
    /// The number of changes per thousand with a late notification.
    pub late: u32,
    /// The longest additional delay of a late notification.
    pub late_by: Duration,
}

/// The longest delay of the notification of an expiry, if there is one.
const EXPIRY_NOTIFIED_WITHIN: Duration = Duration::from_secs(2);

/// The fate of one watch.
struct Fate {
    lost: bool,
    spurious: bool,
    late: Duration,
    /// The delay of the notification of an expiry; `None` for no notification.
    expiry: Option<Duration>,
}

impl Notifications {
    fn fate(&self, chance: &mut fastrand::Rng) -> Fate {
        let (lost, spurious) = (chance.u32(..1000) < self.lost, chance.u32(..1000) < self.spurious);
        let late = chance.u32(..1000) < self.late;
        let late = if late { below(chance, self.late_by) } else { Duration::ZERO };
        let expiry = chance.bool().then(|| below(chance, EXPIRY_NOTIFIED_WITHIN));
        Fate { lost, spurious, late, expiry }
    }
}

/// A watch on the side of the server.
pub(super) struct Subscription {
    /// The connection on which the watch began, and the incarnation of the server.
    pub(super) generation: u64,
    pub(super) incarnation: u64,
    /// Completes at the next change.
    pub(super) changed: BoxFuture<()>,
    /// The remaining time of the key without a change.
    pub(super) remaining: Option<Duration>,
    /// Notified at the client.
    pub(super) client: Arc<Event>,
}

impl Shared {
    /// Notifies the client of the next change, if possible.
    pub(super) async fn notify(self: Arc<Self>, watch: Subscription) {
        let world = &self.network.0.world;
        let streams = self.network.0.transport == Transport::Streams;
        let death = self.server.listen_for_death();
        let fate = {
            let mut state = self.network.state();
            state.notifications.unwrap_or_default().fate(&mut state.chance)
        };
        let dead = self.server.incarnation() != Some(watch.incarnation);
        if !dead && !fate.spurious {
            let expiry =
                watch.remaining.zip(fate.expiry).map(|(remaining, late)| world.sleep(remaining + late));
            if until(change(watch.changed, expiry), death).await.is_none() {
                if streams {
                    self.sever(watch.generation);
                }
                return;
            }
        }
        if fate.lost || dead {
            return;
        }
        let (travels, lost) = {
            let mut state = self.network.state();
            let traffic = state.replies;
            let fate = traffic.fate(&mut state.chance, false);
            (fate.copies.first().copied().unwrap_or_default(), fate.copies.is_empty())
        };
        if lost {
            return self.lose(watch.generation);
        }
        world.sleep(travels + fate.late).await;
        if self.is_cut(Direction::Replies) {
            return self.lose(watch.generation);
        }
        if !streams || self.link().carries(watch.generation) {
            watch.client.notify(usize::MAX);
        }
    }

    /// Completes when the client is notified, or its connection is lost.
    pub(super) async fn notified(self: Arc<Self>, generation: u64, mut changed: EventListener) {
        loop {
            let broken = self.broken.listen();
            if self.link().generation() != generation || until(Pin::new(&mut changed), broken).await.is_some()
            {
                return;
            }
        }
    }
}

/// Completes when the key has changed, or its expiry is to be reported.
async fn change(mut changed: BoxFuture<()>, expiry: Option<impl Future<Output = ()>>) {
    let mut expiry = pin!(expiry);
    poll_fn(|cx| match (changed.as_mut().poll(cx), expiry.as_mut().as_pin_mut()) {
        (Poll::Pending, Some(expiry)) => expiry.poll(cx),
        (poll, _) => poll,
    })
    .await;
}
