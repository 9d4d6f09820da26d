//! The looks of a client at the stamp of a server. Each travels like a request, and its result like a reply.
//!
//! The client looks over every connection, once a second, and when there is a reason. A stopped client reads the result
//! when it continues. On streams, the server notifies the client of losses and of changes of the stamp.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use event_listener::EventListener;
use futures_channel::oneshot;
use redlock_core::runtime::Runtime;
use redlock_server::Command;

use super::remote::{InUse, Shared, until};
use super::{Direction, Transport};
use crate::server::{Looked, Pushed};

/// The shortest time between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Looks whenever it is necessary, as long as the node is in use.
pub(super) async fn keep(node: Weak<InUse>, runtime: Arc<dyn Runtime>) {
    while let Some(me) = node.upgrade() {
        let due = me.due.listen();
        let Some(wait) = me.gate().map(|gate| gate.next_look(runtime.now())) else { return };
        drop(me);
        if !wait.is_zero() {
            until(runtime.sleep(wait), due).await;
        }
        let Some(looked) = node.upgrade().map(|me| me.begin_look()) else { return };
        looked.await;
        runtime.sleep(PAUSE).await;
    }
}

/// Notifies the client of the changes of a server, as long as the node is in use.
pub(super) async fn notify(node: Weak<InUse>) {
    while let Some(me) = node.upgrade() {
        let changed = me.server.listen_for_changes();
        drop(me);
        changed.await;
        if let Some(me) = node.upgrade() {
            let carried = Arc::clone(&**me).carry_changes(me.server.pushed());
            me.network.0.world.spawn(Box::pin(carried));
        }
    }
}

impl Shared {
    /// Carries a notification of changes over a connection.
    async fn carry_changes(self: Arc<Self>, pushed: Pushed) {
        let (connection, generation) = (self.connection(), self.link().generation());
        let Some(delay) = self.delay(Direction::Replies) else { return self.lose(generation) };
        self.network.0.world.sleep(delay).await;
        if self.is_cut(Direction::Replies) {
            return self.lose(generation);
        }
        if self.connection() == connection && self.link().carries(generation) {
            self.record_pushed(pushed);
        }
    }

    /// Begins a look, unless one is in progress. The listener completes when it has ended.
    pub(super) fn begin_look(self: &Arc<Self>) -> EventListener {
        let looked = self.looked.listen();
        if !self.looking.swap(true, Ordering::Relaxed) {
            let me = Arc::clone(self);
            self.runtime.spawn(Box::pin(async move {
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
        let connection = self.connection();
        let begun = self.gate()?.begin(self.runtime.now());
        let (sent, truly_sent) = (self.runtime.now(), self.network.0.world.now());
        let (result, at_client) = oneshot::channel();
        let me = Arc::clone(self);
        self.network.0.world.spawn(Box::pin(async move {
            let looked = me.carry_look(generation, incarnation, begun.command()).await;
            if looked.is_none() {
                me.lose(generation);
            }
            result.send(looked).ok();
        }));
        let looked = at_client.await.ok()??;
        // A reply of an earlier process of the server does not arrive over the connection to the next one.
        if self.connection() != connection {
            return None;
        }
        self.gate()?.looked(begun, &looked, sent, self.runtime.now());
        self.watch_clock(truly_sent, looked.clock.at);
        Some(())
    }

    /// Returns `None` if a message was lost.
    async fn carry_look(
        self: &Arc<Self>,
        generation: u64,
        incarnation: u64,
        command: Command,
    ) -> Option<Looked> {
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
        let looked = self.server.look(command).await?;
        world.sleep(self.delay(Direction::Replies)?).await;
        (stands() && !self.is_cut(Direction::Replies)).then_some(looked)
    }

    /// Draws the delay of a message; `None` if it is lost.
    fn delay(&self, direction: Direction) -> Option<Duration> {
        let mut state = self.network.state();
        let traffic = if direction == Direction::Requests { state.requests } else { state.replies };
        traffic.fate(&mut state.chance, false).copies.first().copied()
    }
}
