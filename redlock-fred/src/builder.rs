//! Creates nodes from addresses, and a builder with these nodes.

use std::sync::Arc;

use fred::clients::Client;
use redlock_core::node::LockNode;
use redlock_core::{Builder, Error};
use redlock_wire::Options;

use crate::address::IntoConnector;
use crate::connection::Connector;
use crate::shared::BorrowedConnection;

/// A Redis or Valkey server, reached with fred.
pub type Node = redlock_wire::Node<Connector>;

/// A Redis or Valkey server, reached over a client of the application.
pub type BorrowedNode = redlock_wire::Node<BorrowedConnection>;

/// Starts a [`Redlock`](redlock_core::Redlock) on tokio.
///
/// Its nodes are the servers at `addresses`. It does no I/O: nodes connect on first use. A node that is down costs
/// nothing and is used as soon as it is reachable.
///
/// ```
/// # use redlock_fred::builder;
/// let servers = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let redlock = builder(servers)?.build()?; // its nodes connect on first use
///
/// let error = builder(["redis://10.0.0.1", "10.0.0.2"]).unwrap_err();
/// assert!(error.to_string().starts_with("server 2 of 2: invalid address"));
/// # drop(redlock);
/// # Ok::<(), redlock_fred::Error>(())
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
/// The runtime must be a tokio one: fred runs on no other. The nodes are the servers at `addresses`. It does no I/O.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// # use redlock_fred::{Options, builder_with};
/// let servers = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let options = Options::tokio().key_prefix("orders-service:");
/// let redlock = builder_with(servers, &options)?.build()?;
/// # drop(redlock); }
/// # Ok::<(), redlock_fred::Error>(())
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
/// # use redlock_fred::{Builder, Credentials, Options, node};
/// # let passwords = [("redis://10.0.0.1", "one"), ("redis://10.0.0.2", "two"), ("redis://10.0.0.3", "three")];
/// let mut builder = Builder::new(Options::tokio().runtime());
/// for (url, password) in passwords {
///     let login = move || async move { Ok(Credentials::new("locks", password)) };
///     builder = builder.node(node(url, &Options::tokio().credentials(login))?);
/// }
/// let redlock = builder.build()?;
/// # drop(redlock); }
/// # Ok::<(), redlock_fred::Error>(())
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
/// # use redlock_fred::{Options, builder, nodes};
/// // From one server to three: all programs have both lists for a while.
/// let servers = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let previous = nodes(["redis://10.0.0.1"], &Options::tokio())?;
/// let redlock = builder(servers)?.previous_nodes(previous).build()?;
/// # drop(redlock); }
/// # Ok::<(), redlock_fred::Error>(())
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

/// Creates a node over an existing client of the application.
///
/// `label` is the human-readable name of the server. Use the same label for a server everywhere: a `Redlock` rejects
/// two nodes with one label.
///
/// Prefer [`node`], which opens its own connection. A node over an existing client has these drawbacks:
///
/// - Waiters poll every 100 to 200 ms ([`Builder::retry_delay`]), because no [notifications](#notifications) are
///   available.
/// - A hung server is not disconnected, so it carries out all received requests when it wakes. They are then cleaned up
///   as always. Requests of the application and of the locks also delay each other.
/// - The time limits, database and login are those of the application. The node still needs its
///   [permissions](crate#permissions), and a reply within the node timeout.
/// - A lost connection, or another server behind it, is detected late: when a request fails.
/// - The server's replies have no bounds: nested replies abort the process ([hostile servers](crate#hostile-servers)).
/// - A lock command is sent once, and fails at once while there is no connection, regardless of the client's settings.
///   The client decides about reconnecting: without a reconnect policy, a lost node stays lost.
///
/// Safety is the same: every request is sent once. After a request with unknown outcome, releases are sent until it can
/// have no effect any more; each needs two replies instead of one.
///
/// The client must lead to one server: not to a cluster, and not to a server that sentinels choose.
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// # use fred::prelude::{Builder, Config, ReconnectPolicy};
/// # use redlock_fred::{Options, node::LockNode, node_with_connection};
/// let mut builder = Builder::from_config(Config::from_url("redis://10.0.0.1")?);
/// let policy = ReconnectPolicy::new_exponential(0, 10, 1000, 2);
/// // `client.init().await?` connects.
/// let client = builder.set_policy(policy).build()?;
/// let node = node_with_connection("10.0.0.1:6379", &client, &Options::tokio());
/// assert_eq!("10.0.0.1:6379", node.label());
/// # }
/// # Ok::<(), fred::error::Error>(())
/// ```
///
/// # Notifications
///
/// A watch that stops silently is worse than none: with one, waiters poll every 5 s; without one, every 200 ms. On an
/// existing client such a failure cannot be detected in time:
///
/// - The client reconnects by itself, and tracks nothing over the new connection.
/// - In RESP2 the server replies OK to `CLIENT TRACKING` and pushes nothing.
/// - Pushes wait in a channel whose size the application has chosen.
/// - A connection has one tracking mode, which the application may have chosen or may change at any time.
///
/// To get notifications, give the locks their own connection to each server, with [`node`] or
/// [`builder`](crate::builder()), beside that of the application.
pub fn node_with_connection(label: impl Into<String>, client: &Client, options: &Options) -> BorrowedNode {
    BorrowedNode::new(BorrowedConnection::new(label.into(), client), options)
}
