//! The sentinels that choose the server of a node, as an adapter describes them.

use std::fmt;
use std::sync::Arc;

/// Returns a connector for this host and port.
pub(crate) type At<C> = Arc<dyn Fn(&str, u16) -> C + Send + Sync>;

/// The sentinels that choose the server of a node: the master of one service.
///
/// `C` is a [`Connector`](crate::Connector).
pub struct Sentinels<C> {
    pub(crate) service: String,
    /// The connectors of the sentinels.
    pub(crate) members: Vec<C>,
    /// Returns the connector of a server.
    pub(crate) server: At<C>,
}

impl<C> Sentinels<C> {
    /// Creates them from the name of the service, and a connector for each sentinel.
    ///
    /// `server` returns the connector of the server with this host and port.
    pub fn new(
        service: impl Into<String>,
        members: Vec<C>,
        server: impl Fn(&str, u16) -> C + Send + Sync + 'static,
    ) -> Self {
        Self { service: service.into(), members, server: Arc::new(server) }
    }

    /// Returns the name of the service.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Returns the connectors of the sentinels.
    pub fn members(&self) -> &[C] {
        &self.members
    }

    /// Returns them with every connector changed by `change`.
    #[must_use]
    pub fn map(&self, change: fn(C) -> C) -> Self
    where
        C: Clone + 'static,
    {
        let server = Arc::clone(&self.server);
        let members = self.members.iter().cloned().map(change).collect();
        Self::new(self.service.clone(), members, move |host, port| change(server(host, port)))
    }
}

/// Shows the name of the service; the rest may contain secrets.
impl<C> fmt::Debug for Sentinels<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels").field("service", &self.service).finish_non_exhaustive()
    }
}
