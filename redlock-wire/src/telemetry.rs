//! The metric of the connections of nodes. Its description is that of `redlock_core::describe_metrics`.

/// Records that the state of a node's connection changes.
///
/// The gauge counts the connections, because several `Redlock`s of a process may have nodes with one label. A change
/// between two states without a connection shows zero.
pub(crate) fn connection_changed(node: &str, was_up: bool, is_up: bool) {
    let _ = (node, was_up, is_up);
    #[cfg(feature = "metrics")]
    metrics::gauge!("redlock_node_connected", "node" => node.to_owned())
        .increment(f64::from(u8::from(is_up)) - f64::from(u8::from(was_up)));
}
