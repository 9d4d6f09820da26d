//! Waits for a state of a node without keeping the node alive.

use std::sync::Weak;

use event_listener::EventListener;

/// Completes when `over` holds for the node, or the node is dropped.
///
/// `listen` listens for changes of the node, which include its drop.
pub(crate) async fn until<N>(
    node: &Weak<N>,
    listen: impl Fn(&N) -> EventListener,
    over: impl Fn(&N) -> bool,
) {
    while let Some(node) = node.upgrade() {
        // Listens before it checks the condition, so that no change is missed.
        let changed = listen(&node);
        if over(&node) {
            return;
        }
        drop(node);
        changed.await;
    }
}
