//! From addresses to nodes, and to a builder that has them.

use std::sync::Arc;

use redis::aio::ConnectionLike;
use redlock_core::{Builder, Error, LockNode};
use redlock_wire::Options;

use crate::address::IntoConnector;
use crate::connection::Connector;
use crate::shared::Shared;

/// A Redis or Valkey server, reached with the redis client.
pub type Node = redlock_wire::Node<Connector>;

/// A Redis or Valkey server, reached over a connection of the application's.
pub type SharedNode<C> = redlock_wire::Node<Shared<C>>;

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

/// A node over a connection that the application has already. `label` is what people know the server by; give a server the
/// same label wherever it is listed: a `Redlock` takes no two nodes of one.
///
/// A connection of the node's own is better: see [`node`]. Over this one
///
/// - waiters ask again every 100 to 200 ms, as of [`Builder::retry_delay`], since nobody tells of changes: `CLIENT TRACKING` is
///   not switched on for a connection that others use, and cannot be asked for ([below](#being-woken));
/// - a hung server is not disconnected, so it carries out whatever it had received when it wakes. It is undone then, as
///   ever; and the requests of the application queue up in front of those of the lock, and the other way round;
/// - the application's time limits, database and login count. The node needs what it has with a connection of its own:
///   the [rights](crate#rights), and a reply within the node timeout;
/// - it is known late that the connection was lost, and that the server is another one: when a request fails;
/// - the size of the server's replies has no bounds ([hostile servers](crate#hostile-servers));
/// - a [`MultiplexedConnection`](redis::aio::MultiplexedConnection) that was lost stays lost, and the node with it. A
///   `ConnectionManager` reconnects; its `response_timeout` should be at least the node timeout.
///
/// Safety is the same: every request is sent once, and one whose outcome is unknown is chased until it has none any more,
/// with two releases instead of one.
///
/// It is for one server: not for a cluster, nor for a connection whose server is chosen by sentinels.
///
/// # Being woken
///
/// A watch that ends in silence is worse than none: who relies on it asks again after 5 s, and who has none after a fifth of
/// a second. Of a lent connection nobody here could tell. What its server pushes goes to the one push sender that the
/// application has made it with, if it has; in RESP2 the server says OK to tracking and pushes nothing; a connection that was
/// replaced by another one tracks nothing any more; and it has one mode of tracking, which the application may have chosen, or
/// may change at any time.
///
/// Where waiters are to be woken give the lock a connection of its own: one more for each server, by [`node`] or
/// [`builder`](crate::builder()), beside that of the application.
pub fn shared_node<C>(label: impl Into<String>, connection: C, options: &Options) -> SharedNode<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    SharedNode::new(Shared::new(connection), label.into(), options)
}
