//! A builder whose nodes are servers of one adapter.

use std::sync::Arc;

use redlock_core::node::LockNode;
use redlock_core::{Builder, Error};

use crate::connection::Connector;
use crate::node::Node;
use crate::options::Options;

/// Starts a [`Redlock`](redlock_core::Redlock) on the runtime of `options`, with a node for each connector.
///
/// # Errors
///
/// - The first error among the connectors.
pub fn builder<C: Connector>(
    connectors: impl IntoIterator<Item = Result<C, Error>>,
    options: &Options,
) -> Result<Builder, Error> {
    let node = |connector| Arc::new(Node::new(connector, options)) as Arc<dyn LockNode>;
    let nodes = connectors.into_iter().map(|connector| connector.map(node));
    Ok(Builder::new(options.runtime()).nodes(nodes.collect::<Result<Vec<_>, _>>()?))
}
