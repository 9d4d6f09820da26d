//! Keys whose changes are pushed to connections.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::ClientId;
use crate::core::Core;
use crate::reply::encode_invalidation;

/// The connections that have read a key since its last change.
pub(crate) type Tracked = BTreeMap<Vec<u8>, BTreeSet<ClientId>>;

impl Core {
    /// Remembers that a connection has read a key, if it wants to learn of changes.
    pub(crate) fn remember(&mut self, reader: ClientId, key: &[u8]) {
        if self.clients.get(&reader).is_some_and(|client| client.tracks && client.caches) {
            self.tracked.entry(key.to_vec()).or_default().insert(reader);
        }
    }

    /// Pushes that a key has changed, to all connections that have read it since the last change.
    pub(crate) fn touched(&mut self, key: &[u8]) {
        for client in self.tracked.remove(key).unwrap_or_default() {
            self.push(client, Some(key));
        }
    }

    /// Pushes that all keys were deleted, to all connections that track any.
    pub(crate) fn all_touched(&mut self) {
        self.tracked.clear();
        let tracking = self.clients.iter().filter(|(_, client)| client.tracks);
        let tracking: Vec<_> = tracking.map(|(id, _)| *id).collect();
        for client in tracking {
            self.push(client, None);
        }
    }

    /// A connection learns of its own change behind the reply.
    fn push(&mut self, to: ClientId, key: Option<&[u8]>) {
        let is_own =
            self.executing == Some(to) && !(key.is_none() && self.settings.release.pushes_own_flush_first());
        // Without RESP3 there are no pushes.
        let Some(client) = self.clients.get_mut(&to).filter(|client| client.resp3) else { return };
        if is_own {
            client.pending.push(key.map(<[u8]>::to_vec));
        } else {
            encode_invalidation(key, &mut client.output);
        }
    }
}
