//! Creates nodes from addresses, and a builder with these nodes.

use std::sync::Arc;

use redis::aio::ConnectionLike;
use redlock_core::node::LockNode;
use redlock_core::{Builder, Error};
use redlock_wire::Options;

use crate::address::IntoConnector;
use crate::connection::Connector;
use crate::shared::BorrowedConnection;

/// A Redis or Valkey server, reached with the redis client.
pub type Node = redlock_wire::Node<Connector>;

/// A Redis or Valkey server, reached over a connection of the application.
pub type BorrowedNode<C> = redlock_wire::Node<BorrowedConnection<C>>;

/// Starts a [`Redlock`](redlock_core::Redlock) on tokio.
///
/// Its nodes are the servers at `addresses`. It does no I/O: nodes connect on first use. A node that is down costs
/// nothing and is used as soon as it is reachable.
///
/// ```
/// # use redlock_redis_rs::builder;
/// let servers = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let redlock = builder(servers)?.build()?; // its nodes connect on first use
///
/// let error = builder(["redis://10.0.0.1", "10.0.0.2"]).unwrap_err();
/// assert!(error.to_string().starts_with("server 2 of 2: invalid address"));
/// # drop(redlock);
/// # Ok::<(), redlock_redis_rs::Error>(())
/// ```
///
/// # Errors
///
/// Same as [`IntoConnector::into_connector`], after the position of the address: `server 2 of 3: `.
#[cfg(feature = "tokio")]
pub fn builder<A: IntoConnector>(addresses: impl IntoIterator<Item = A>) -> Result<Builder, Error> {
    builder_with(addresses, &Options::tokio())
}

/// Starts a [`Redlock`](redlock_core::Redlock) on the runtime of `options`.
///
/// Its nodes are the servers at `addresses`. It does no I/O.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// # use redlock_redis_rs::{Options, builder_with};
/// let servers = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let options = Options::tokio().key_prefix("orders-service:");
/// let redlock = builder_with(servers, &options)?.build()?;
/// # drop(redlock); }
/// # Ok::<(), redlock_redis_rs::Error>(())
/// ```
///
/// # Errors
///
/// Same as [`IntoConnector::into_connector`], after the position of the address: `server 2 of 3: `.
pub fn builder_with<A: IntoConnector>(
    addresses: impl IntoIterator<Item = A>,
    options: &Options,
) -> Result<Builder, Error> {
    let connectors = addresses.into_iter().map(|address| address.into_connector(options));
    redlock_wire::builder(connectors, options)
}

/// Creates the node at `address`.
///
/// Use it for a [`Builder`] whose nodes are of several kinds.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// # use redlock_redis_rs::{Builder, Credentials, Options, node};
/// # let passwords = [("redis://10.0.0.1", "one"), ("redis://10.0.0.2", "two"), ("redis://10.0.0.3", "three")];
/// let mut builder = Builder::new(Options::tokio().runtime());
/// for (url, password) in passwords {
///     let login = move || async move { Ok(Credentials::new("locks", password)) };
///     builder = builder.node(node(url, &Options::tokio().credentials(login))?);
/// }
/// let redlock = builder.build()?;
/// # drop(redlock); }
/// # Ok::<(), redlock_redis_rs::Error>(())
/// ```
///
/// # Errors
///
/// Same as [`IntoConnector::into_connector`].
pub fn node(address: impl IntoConnector, options: &Options) -> Result<Node, Error> {
    Ok(Node::new(address.into_connector(options)?, options))
}

/// Creates a node for each address.
///
/// Use it for [`Builder::previous_nodes`], while the servers are changed. A server that is also among the addresses of
/// the [`builder`](crate::builder()) has one connection, with the settings that were given there.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// # use redlock_redis_rs::{Options, builder, nodes};
/// // From one server to three: all programs have both lists for a while.
/// let servers = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let previous = nodes(["redis://10.0.0.1"], &Options::tokio())?;
/// let redlock = builder(servers)?.previous_nodes(previous).build()?;
/// # drop(redlock); }
/// # Ok::<(), redlock_redis_rs::Error>(())
/// ```
///
/// # Errors
///
/// Same as [`IntoConnector::into_connector`], after the position of the address: `server 2 of 3: `.
pub fn nodes<A: IntoConnector>(
    addresses: impl IntoIterator<Item = A>,
    options: &Options,
) -> Result<Vec<Arc<dyn LockNode>>, Error> {
    let connectors = addresses.into_iter().map(|address| address.into_connector(options));
    redlock_wire::nodes(connectors, options)
}

/// Creates a node over an existing connection of the application.
///
/// `label` is the human-readable name of the server. Use the same label for a server everywhere: a `Redlock` rejects
/// two nodes with one label.
///
/// Prefer [`node`], which opens its own connection. A node over an existing connection has these drawbacks:
///
/// - Waiters poll every 100 to 200 ms ([`Builder::retry_delay`]), because no [notifications](#notifications) are
///   available.
/// - A hung server is not disconnected, so it carries out all received requests when it wakes. They are then cleaned up
///   as always. Requests of the application and of the locks also delay each other.
/// - The time limits, database and login are those of the application. The node still needs its
///   [permissions](crate#permissions), and a reply within the node timeout.
/// - A lost connection, or another server behind it, is detected late: when a request fails.
/// - The size of the server's replies is not limited ([hostile servers](crate#hostile-servers)).
/// - A [`MultiplexedConnection`](redis::aio::MultiplexedConnection) that is lost stays lost, and so does the node. A
///   `ConnectionManager` reconnects; set its `response_timeout` to at least the node timeout.
///
/// Safety is the same: every request is sent once. After a request with unknown outcome, releases are sent until it can
/// have no effect any more; each needs two replies instead of one.
///
/// The connection must lead to one server: not to a cluster, and not to a server that sentinels choose.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// # use redis::{Client, aio::ConnectionManagerConfig};
/// # use redlock_redis_rs::{Options, node::LockNode, node_with_connection};
/// let client = Client::open("redis://:secret@10.0.0.1")?;
/// let config = ConnectionManagerConfig::new();
/// let manager = client.get_connection_manager_lazy(config)?;
/// let node = node_with_connection("10.0.0.1:6379", manager, &Options::tokio());
/// assert_eq!("10.0.0.1:6379", node.label());
/// # }
/// # Ok::<(), redis::RedisError>(())
/// ```
///
/// # Notifications
///
/// A watch that stops silently is worse than none: with one, waiters poll every 5 s; without one, every 200 ms. On an
/// existing connection such a failure cannot be detected:
///
/// - The pushes of its server go to the push sender with which the application has created it, if any.
/// - In RESP2 the server replies OK to `CLIENT TRACKING` and pushes nothing.
/// - A connection that was replaced by another one tracks nothing any more.
/// - A connection has one tracking mode, which the application may have chosen or may change at any time.
///
/// To get notifications, give the locks their own connection to each server, with [`node`] or
/// [`builder`](crate::builder()), beside that of the application.
pub fn node_with_connection<C>(label: impl Into<String>, connection: C, options: &Options) -> BorrowedNode<C>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    BorrowedNode::new(BorrowedConnection::new(label.into(), connection), options)
}
