//! The adapter under test.

use std::future::Future;
use std::sync::Arc;

use redlock_core::node::LockNode;
use redlock_core::{Builder, Error};
use redlock_wire::{Connector, Node, Options};

/// An adapter: the functions that the cases call, and the differences between clients.
pub trait Adapter: Send + Sync + 'static {
    /// The connector of the client.
    type Connector: Connector<Connection: std::fmt::Debug>;

    /// The name of the example whose `main` is [`process`](crate::process()).
    const PROCESS: &'static str;

    /// `true` if the client reports the push that a server sends after all its keys were deleted.
    const REPORTS_FLUSH: bool;

    /// Parses a URL with the default options.
    ///
    /// # Errors
    ///
    /// Same as the adapter's `IntoConnector::into_connector`.
    fn connector(url: String) -> Result<Self::Connector, Error>;

    /// Calls the adapter's function of the same name.
    ///
    /// # Errors
    ///
    /// Same as [`connector`](Adapter::connector).
    fn node(url: String, options: &Options) -> Result<Node<Self::Connector>, Error>;

    /// Calls the adapter's function of the same name, and switches the comparison of node lists off: tests count keys
    /// and commands.
    ///
    /// # Errors
    ///
    /// Same as [`connector`](Adapter::connector).
    fn builder(urls: impl IntoIterator<Item = String>) -> Result<Builder, Error>;

    /// Same as [`builder`](Adapter::builder), with options.
    ///
    /// # Errors
    ///
    /// Same as [`connector`](Adapter::connector).
    fn builder_with(urls: impl IntoIterator<Item = String>, options: &Options) -> Result<Builder, Error>;

    /// Returns a node over a connection of the application, which reconnects automatically.
    fn borrowed(url: String, options: &Options) -> impl Future<Output = Arc<dyn LockNode>> + Send;
}
