//! The metrics of the nodes of adapters. Their descriptions are those of `redlock_core::describe_metrics`.

use redlock_core::ClockRate;

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

/// Records the rate of a server's clock. `is_fast` is `None` with restart admission.
pub(crate) fn clock_measured(node: &str, rate: ClockRate, is_fast: Option<bool>) {
    let _ = (node, rate, is_fast);
    #[cfg(feature = "metrics")]
    {
        #[allow(clippy::cast_precision_loss)] // rates are far below 2^52 ppm
        let ppm = rate.ppm as f64;
        metrics::gauge!("redlock_node_clock_ppm", "node" => node.to_owned()).set(ppm);
        if let Some(is_fast) = is_fast {
            let fast = f64::from(u8::from(is_fast));
            metrics::gauge!("redlock_node_clock_fast", "node" => node.to_owned()).set(fast);
        }
    }
}
