//! The task that keeps a node connected.
//!
//! It connects, waits for the loss, backs off and connects again, for ever: a password that is corrected later heals, and
//! a server that comes back votes again without anybody asking. It holds nothing of the node but a `Weak`, so it ends,
//! and its connection closes, when the node is dropped. When its runtime ends, dropping it says so, and the next request
//! starts another one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redlock_core::Instant;

use crate::attended::elapse;
use crate::backoff::{Backoff, jittered};
use crate::connection::{Connection, Connector};
use crate::first::{First, first};
use crate::handshake::{Server, greet};
use crate::node::Shared;
use crate::options::Options;
use crate::probe::{LOST, SILENCE, unresponsive};
use crate::push::Hub;
use crate::secret::Secret;
use crate::slot::Link;

/// A supervisor with nothing to say for this long after its time is not run any more, and is replaced.
const PATIENCE: Duration = Duration::from_secs(1);

/// A connection that lasted this long begins the back-off anew; one that is closed at once does not.
const STEADY: Duration = Duration::from_secs(1);

struct Supervisor<C: Connector> {
    node: Weak<Shared<C>>,
    connector: Arc<C>,
    options: Options,
    epoch: u64,
}

/// Starts the supervisor of an epoch in the runtime of the caller.
pub(crate) fn supervise<C: Connector>(node: &Arc<Shared<C>>, epoch: u64) {
    let (connector, options) = (Arc::clone(&node.connector), node.options.clone());
    let supervisor = Supervisor { node: Arc::downgrade(node), connector, options, epoch };
    node.options.runtime.spawn(Box::pin(supervisor.run()));
}

/// When there should be news of a supervisor that goes on after `delay`.
pub(crate) fn due(options: &Options, delay: Duration) -> Instant {
    options.runtime.now() + delay + options.connect_timeout.get() + PATIENCE
}

impl<C: Connector> Supervisor<C> {
    async fn run(self) {
        let mut backoff = Backoff::new(self.options.reconnect_delay);
        loop {
            let reason = match first(self.connect(), self.replaced()).await {
                First::Right(()) => return,
                First::Left(Err(reason)) => reason,
                First::Left(Ok(opened)) => {
                    let since = self.options.runtime.now();
                    let Some(link) = self.up(opened) else { return };
                    let reason = self.loss(&link).await;
                    if self.options.runtime.now() > since + STEADY {
                        backoff.reset();
                    }
                    reason.to_owned()
                }
            };
            let delay = jittered(backoff.after(&reason), &*self.options.runtime);
            if !self.down(reason, delay) {
                return;
            }
            if let First::Right(()) = first(self.options.runtime.sleep(delay), self.replaced()).await {
                return;
            }
        }
    }

    /// One attempt. The error says why it failed.
    async fn connect(&self) -> Result<(C::Connection, Hub, Server), String> {
        let secret = Secret::of(self.connector.password());
        let ready = async {
            let hub = Hub::default();
            let connection = self.connector.connect(&hub).await;
            let connection = connection.map_err(|failure| secret.published(&failure.message))?;
            let server = greet(&connection, &secret).await?;
            Ok((connection, hub, server))
        };
        let timeout = self.options.connect_timeout.get();
        match first(ready, elapse(&*self.options.runtime, timeout)).await {
            First::Left(outcome) => outcome,
            First::Right(()) => Err(format!("no connection within {timeout:?}")),
        }
    }

    /// Publishes a connection. `None` when nobody wants it.
    fn up(&self, opened: (C::Connection, Hub, Server)) -> Option<Arc<Link<C::Connection>>> {
        let node = self.node.upgrade()?;
        let (connection, hub, server) = opened;
        let link = node.slot.up(self.epoch, connection, hub, server)?;
        node.journal.up(&node.label);
        if let Err(reason) = &link.server.pushes {
            node.no_pushes.call_once(|| {
                tracing::warn!(
                    node = node.label,
                    reason,
                    "waiting without being told of changes: tracking refused"
                );
            });
        }
        Some(link)
    }

    /// Publishes that there is none until `delay` has passed and another attempt has been made. Whether anybody cares.
    fn down(&self, reason: String, delay: Duration) -> bool {
        let Some(node) = self.node.upgrade() else { return false };
        let text = reason.clone();
        if !node.slot.down(self.epoch, reason, due(&self.options, delay)) {
            return false;
        }
        node.journal.down(&node.label, &text, self.options.runtime.now());
        true
    }

    /// Sends what is put into the connection's outbox, until the connection is lost, does not answer, or is not the node's any
    /// more. Returns why.
    async fn loss(&self, link: &Link<C::Connection>) -> &'static str {
        let displaced = self.until(|node| !node.slot.look(|state| state.is_up(link.generation)));
        let over = first(link.connection.lost(), displaced);
        let silence = || self.options.connect_timeout.node_timeout().max(SILENCE);
        let over = first(over, unresponsive(link, &*self.options.runtime, silence));
        match first(over, link.outbox.drive(&link.connection)).await {
            First::Left(First::Right(reason)) => reason,
            _ => LOST,
        }
    }

    /// Completes when this supervisor was replaced, or the node dropped.
    async fn replaced(&self) {
        self.until(|node| !node.slot.is_current(self.epoch)).await;
    }

    /// Completes when `over` holds of the node, or the node was dropped.
    async fn until(&self, over: impl Fn(&Shared<C>) -> bool) {
        loop {
            let Some(node) = self.node.upgrade() else { return };
            // Armed before looking, so that no change is missed.
            let changed = node.slot.listen();
            if over(&node) {
                return;
            }
            drop(node);
            changed.await;
        }
    }
}

/// Also where the runtime drops the task: the next request then starts another one.
impl<C: Connector> Drop for Supervisor<C> {
    fn drop(&mut self) {
        if let Some(node) = self.node.upgrade() {
            node.slot.ended(self.epoch);
        }
    }
}
