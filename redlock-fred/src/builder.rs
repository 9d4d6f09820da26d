//! From addresses to nodes, and to a builder that has them.

use std::sync::Arc;

use fred::clients::Client;
use redlock_core::{Builder, Error, LockNode};
use redlock_wire::Options;

use crate::address::IntoConnector;
use crate::connection::Connector;
use crate::shared::Shared;

/// A Redis or Valkey server, reached with fred.
pub type Node = redlock_wire::Node<Connector>;

/// A Redis or Valkey server, reached over a client of the application's.
pub type SharedNode = redlock_wire::Node<Shared>;

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

/// Starts a [`Redlock`](redlock_core::Redlock) over the servers at `addresses`, on the options' runtime, which must be a
/// tokio one: fred runs on no other.
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

/// A node over a client that the application has already. `label` is what people know the server by; give a server the
/// same label wherever it is listed: a `Redlock` takes no two nodes of one.
///
/// A connection of the node's own is better: see [`node`]. Over this one
///
/// - waiters ask again every 100 to 200 ms, as of [`Builder::retry_delay`], since nobody tells of changes: `CLIENT TRACKING` is
///   not switched on for a client that others use, and cannot be asked for ([below](#being-woken));
/// - a hung server is not disconnected, so it carries out whatever it had received when it wakes. It is undone then, as
///   ever; and the requests of the application queue up in front of those of the lock, and the other way round;
/// - the application's time limits, database and login count. The node needs what it has with a connection of its own:
///   the [rights](crate#rights), and a reply within the node timeout;
/// - it is known late that the connection was lost, and that the server is another one: when a request fails;
/// - nothing bounds what the server sends: nested replies abort the process ([hostile servers](crate#hostile-servers));
/// - whatever the client's own settings say, a command of the lock goes out once and fails at once while there is no
///   connection. Whether the client reconnects is its own affair: without a policy for that, a lost node stays lost.
///
/// Safety is the same: every request is sent once, and one whose outcome is unknown is chased until it has none any more,
/// with two releases instead of one.
///
/// It is for one server: not for a cluster, nor for a client whose server is chosen by sentinels.
///
/// # Being woken
///
/// A watch that ends in silence is worse than none: who relies on it asks again after 5 s, and who has none after a fifth of
/// a second. Of a lent client nobody here could tell in time. It reconnects by itself, and tracks nothing over the new
/// connection; in RESP2 the server says OK to tracking and pushes nothing; what is pushed waits in a channel as large as
/// the application has made it; and a connection has one mode of tracking, which the application may have chosen, or may
/// change at any time.
///
/// Where waiters are to be woken give the lock a connection of its own: one more for each server, by [`node`] or
/// [`builder`](crate::builder()), beside that of the application.
pub fn shared_node(label: impl Into<String>, client: &Client, options: &Options) -> SharedNode {
    SharedNode::new(Shared::new(client), label.into(), options)
}
