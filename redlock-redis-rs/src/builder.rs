//! From addresses to nodes, and to a builder that has them.

use std::sync::Arc;

use redlock_core::{Builder, Error, LockNode};
use redlock_wire::Options;

use crate::address::IntoConnector;
use crate::connection::Connector;

/// A Redis or Valkey server, reached with the redis client.
pub type Node = redlock_wire::Node<Connector>;

/// Starts a [`Redlock`](redlock_core::Redlock) over the servers at `addresses`, on tokio.
///
/// Does no I/O: nodes connect when they are first used, and one that is down costs nothing and joins when it comes up.
///
/// # Errors
///
/// [`Invalid`](redlock_core::ErrorKind::Invalid) as of [`IntoConnector::into_connector`].
#[cfg(feature = "tokio")]
pub fn builder<A: IntoConnector>(addresses: impl IntoIterator<Item = A>) -> Result<Builder, Error> {
    builder_with(addresses, &Options::tokio())
}

/// Starts a [`Redlock`](redlock_core::Redlock) over the servers at `addresses`, on the runtime of `options`.
///
/// # Errors
///
/// [`Invalid`](redlock_core::ErrorKind::Invalid) as of [`IntoConnector::into_connector`].
pub fn builder_with<A: IntoConnector>(
    addresses: impl IntoIterator<Item = A>,
    options: &Options,
) -> Result<Builder, Error> {
    let nodes =
        addresses.into_iter().map(|address| Ok(Arc::new(node(address, options)?) as Arc<dyn LockNode>));
    Ok(Builder::new(options.runtime()).nodes(nodes.collect::<Result<Vec<_>, Error>>()?))
}

/// The node at `address`, for a [`Builder`] whose nodes are of several kinds.
///
/// # Errors
///
/// [`Invalid`](redlock_core::ErrorKind::Invalid) as of [`IntoConnector::into_connector`].
pub fn node(address: impl IntoConnector, options: &Options) -> Result<Node, Error> {
    let connector = address.into_connector()?;
    let label = connector.label().to_owned();
    Ok(Node::new(connector, label, options))
}
