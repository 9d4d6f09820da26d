//! What the client hands over of the server's pushes.
//!
//! It does so on the task that drives the connection, which must not wait: telling a [`Hub`] is a look into a map.

use redis::{PushInfo, PushKind, Value};
use redlock_wire::Hub;

/// Tells the hub which keys have changed.
pub(crate) fn tell(hub: &Hub, push: &PushInfo) {
    if push.kind != PushKind::Invalidate {
        return;
    }
    let [Value::Array(keys)] = push.data.as_slice() else {
        // Nil: the database was flushed. Anything else is not known yet, and may mean any key.
        hub.all_changed();
        return;
    };
    for key in keys {
        match key {
            Value::BulkString(key) => hub.changed(key),
            _ => hub.all_changed(),
        }
    }
}
