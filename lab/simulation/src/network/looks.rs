//! The looks of a client at the stamp of a server. Each travels like a request, and its result like a reply.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use event_listener::EventListener;
use redlock_core::runtime::Runtime;

use super::gate::Ticket;
use super::remote::Shared;
use super::{Direction, Transport};

impl Shared {
    /// Begins a look, unless one is in progress. The listener completes when it has ended.
    pub(super) fn begin_look(self: &Arc<Self>) -> EventListener {
        let looked = self.looked.listen();
        if !self.looking.swap(true, Ordering::Relaxed) {
            let me = Arc::clone(self);
            self.network.0.world.spawn(Box::pin(async move {
                let failed_at = me.look().await.is_none().then(|| me.network.0.world.now());
                *me.look_failed.lock().unwrap_or_else(PoisonError::into_inner) = failed_at;
                me.looking.store(false, Ordering::Relaxed);
                me.looked.notify(usize::MAX);
            }));
        }
        looked
    }

    /// Returns whether a look has failed at this moment. The requests that waited for it are sent, and do not count.
    pub(super) fn has_just_failed_to_look(&self) -> bool {
        *self.look_failed.lock().unwrap_or_else(PoisonError::into_inner) == Some(self.network.0.world.now())
    }

    /// Looks at the server over the present connection. Returns `None` if a message was lost.
    async fn look(self: &Arc<Self>) -> Option<()> {
        // A new connection makes the state unchecked before the look begins.
        let (generation, incarnation) = self.connect().ok()?;
        self.admission();
        let ticket = self.gate()?.begin();
        let looked = self.carry_look(generation, incarnation, ticket).await;
        if looked.is_none() {
            self.lose(generation);
        }
        looked
    }

    /// Returns `None` if a message was lost.
    async fn carry_look(self: &Arc<Self>, generation: u64, incarnation: u64, ticket: Ticket) -> Option<()> {
        let world = &self.network.0.world;
        let streams = self.network.0.transport == Transport::Streams;
        let stands = || !streams || self.link().carries(generation);
        let sent = world.now();
        let there = self.delay(Direction::Requests)?;
        let there =
            if streams { self.link().arrival(sent, there).saturating_duration_since(sent) } else { there };
        world.sleep(there).await;
        let arrives = stands() && (!streams || self.server.incarnation() == Some(incarnation));
        if !arrives || self.is_cut(Direction::Requests) {
            return None;
        }
        let looked = self.server.look().await?;
        world.sleep(self.delay(Direction::Replies)?).await;
        if !stands() || self.is_cut(Direction::Replies) {
            return None;
        }
        self.gate()?.looked(ticket, looked, world.now());
        Some(())
    }

    /// Draws the delay of a message; `None` if it is lost.
    fn delay(&self, direction: Direction) -> Option<Duration> {
        let mut state = self.network.state();
        let traffic = if direction == Direction::Requests { state.requests } else { state.replies };
        traffic.fate(&mut state.chance, false).copies.first().copied()
    }
}
