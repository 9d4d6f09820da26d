//! What fred hands over of the server's pushes.
//!
//! fred broadcasts which keys have changed to whoever listens, and here that is one task for each connection. It lives no
//! longer than the [`Pushes`], which abort it. What it was too slow to receive may have been any key.
//!
//! That the database was flushed fred keeps to itself: it drops that push, which names no key. Whoever watches a key that
//! went that way hears nothing, and must not rely on it: core asks again from time to time.

use fred::clients::Client;
use fred::interfaces::TrackingInterface;
use fred::types::client::Invalidation;
use redlock_wire::Hub;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;

/// The task that tells a hub which keys have changed. Aborted on drop.
pub(crate) struct Pushes(AbortHandle);

impl Pushes {
    /// Listens to what comes from now on.
    pub(crate) fn of(client: &Client, hub: &Hub) -> Self {
        Self(tokio::spawn(tell(hub.clone(), client.invalidation_rx())).abort_handle())
    }
}

impl Drop for Pushes {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn tell(hub: Hub, mut pushes: Receiver<Invalidation>) {
    loop {
        match pushes.recv().await {
            Ok(invalidation) => invalidation.keys.iter().for_each(|key| hub.changed(key.as_bytes())),
            Err(RecvError::Lagged(_)) => hub.all_changed(),
            Err(RecvError::Closed) => return,
        }
    }
}
