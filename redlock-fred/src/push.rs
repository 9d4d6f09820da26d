//! Passes the server's pushes from fred to a [`Hub`].
//!
//! fred broadcasts which keys have changed. Each connection has one task that receives this; it is aborted with the
//! [`Pushes`]. A push that the task is too slow to receive may mean any key.
//!
//! fred does not pass on that the database was flushed: it drops that push, which names no key. A watch of such a key
//! is not notified. This is safe because the core polls from time to time.

use fred::clients::Client;
use fred::interfaces::TrackingInterface;
use fred::types::client::Invalidation;
use redlock_wire::Hub;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;

/// The task that reports changed keys to a hub. Aborted on drop.
pub(crate) struct Pushes(AbortHandle);

impl Pushes {
    /// Starts to receive; earlier pushes are not seen.
    pub(crate) fn of(client: &Client, hub: &Hub) -> Self {
        Self(tokio::spawn(forward(hub.clone(), client.invalidation_rx())).abort_handle())
    }
}

impl Drop for Pushes {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn forward(hub: Hub, mut pushes: Receiver<Invalidation>) {
    loop {
        match pushes.recv().await {
            Ok(invalidation) => invalidation.keys.iter().for_each(|key| hub.changed(key.as_bytes())),
            Err(RecvError::Lagged(_)) => hub.all_changed(),
            Err(RecvError::Closed) => return,
        }
    }
}
