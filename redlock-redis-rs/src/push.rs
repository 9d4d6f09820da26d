//! Passes the server's pushes from the client to a [`Hub`].
//!
//! This runs on the task that drives the connection, which must not block. A [`Hub`] call is only a map lookup.

use redis::{PushInfo, PushKind, Value};
use redlock_wire::Hub;

/// Reports to the hub which keys have changed.
pub(crate) fn forward(hub: &Hub, push: &PushInfo) {
    if push.kind != PushKind::Invalidate {
        return;
    }
    let [Value::Array(keys)] = push.data.as_slice() else {
        // Nil: the database was flushed. Any other form is unknown and may mean the same.
        hub.flushed();
        return;
    };
    for key in keys {
        match key {
            Value::BulkString(key) => hub.changed(key),
            _ => hub.all_changed(),
        }
    }
}
