//! How servers tell who watches that something has changed.
//!
//! What a server pushes travels as its replies do: it may be held up, and on a stream it breaks the connection where it is
//! lost. Besides, it may be lost while the connection stands, come late, or come without a cause. A watch ends with its
//! connection, and completes then: nothing more will be heard. Single messages have no connection, so over these a watch
//! may be forgotten by a server that dies, and nobody ever says so.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use event_listener::{Event, EventListener};
use redlock_core::Runtime;

use super::remote::{Shared, until};
use super::traffic::below;
use super::{Direction, Transport};

/// How what servers tell of changes goes astray. By default it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tidings {
    /// How many of a thousand changes are never told, although the connection stands.
    pub lost: u32,
    /// How many of a thousand watches are told at once of a change that is none.
    pub spurious: u32,
    /// How many of a thousand changes are told late.
    pub late: u32,
    /// By how much at most.
    pub late_by: Duration,
}

/// By how much a server is late at most to tell of an expiry, where it tells of it at all.
const EXPIRY_TOLD_WITHIN: Duration = Duration::from_secs(2);

/// What becomes of one watch.
struct Fate {
    lost: bool,
    spurious: bool,
    late: Duration,
    /// How long after an expiry that is told.
    expiry: Option<Duration>,
}

impl Tidings {
    fn fate(&self, chance: &mut fastrand::Rng) -> Fate {
        let (lost, spurious) = (chance.u32(..1000) < self.lost, chance.u32(..1000) < self.spurious);
        let late = chance.u32(..1000) < self.late;
        let late = if late { below(chance, self.late_by) } else { Duration::ZERO };
        let expiry = chance.bool().then(|| below(chance, EXPIRY_TOLD_WITHIN));
        Fate { lost, spurious, late, expiry }
    }
}

/// A watch as its server knows it.
pub(super) struct Post {
    /// Which connection it was begun on, and which start of the server it was begun with.
    pub(super) generation: u64,
    pub(super) incarnation: u64,
    /// Fires at the next change.
    pub(super) changed: EventListener,
    /// How long the key stands if it is not changed.
    pub(super) remaining: Option<Duration>,
    /// Fires at the client.
    pub(super) told: Arc<Event>,
}

impl Shared {
    /// Tells of the next change, if it can.
    pub(super) async fn tell(self: Arc<Self>, post: Post) {
        let world = &self.network.0.world;
        let streams = self.network.0.transport == Transport::Streams;
        let death = self.server.listen_for_death();
        let fate = {
            let mut state = self.network.state();
            state.tidings.unwrap_or_default().fate(&mut state.chance)
        };
        let dead = self.server.incarnation() != Some(post.incarnation);
        if !dead && !fate.spurious {
            let expiry =
                post.remaining.zip(fate.expiry).map(|(remaining, late)| world.sleep(remaining + late));
            if until(change(post.changed, expiry), death).await.is_none() {
                if streams {
                    self.sever(post.generation);
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
            return self.lose(post.generation);
        }
        world.sleep(travels + fate.late).await;
        if self.is_cut(Direction::Replies) {
            return self.lose(post.generation);
        }
        if !streams || self.link().carries(post.generation) {
            post.told.notify(usize::MAX);
        }
    }

    /// Completes when the client is told, or its connection is lost.
    pub(super) async fn hears(self: Arc<Self>, generation: u64, mut told: EventListener) {
        loop {
            let broken = self.broken.listen();
            if self.link().generation() != generation || until(Pin::new(&mut told), broken).await.is_some() {
                return;
            }
        }
    }
}

/// Completes when the key has changed, or its expiry is told.
async fn change(changed: EventListener, expiry: Option<impl Future<Output = ()>>) {
    let (mut changed, mut expiry) = (changed, pin!(expiry));
    poll_fn(|cx| match (Pin::new(&mut changed).poll(cx), expiry.as_mut().as_pin_mut()) {
        (Poll::Pending, Some(expiry)) => expiry.poll(cx),
        (poll, _) => poll,
    })
    .await;
}
