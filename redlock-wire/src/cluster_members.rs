//! A cluster, as an adapter describes it.

use std::fmt;
use std::sync::Arc;

use crate::sentinels::At;

/// The servers of a cluster that a program knows at its start. The others are learned from them.
///
/// `C` is a [`Connector`](crate::Connector).
pub struct ClusterMembers<C> {
    /// The hosts and ports.
    pub(crate) seeds: Vec<(String, u16)>,
    /// True if servers are reached by the host names that they announce, which certificates contain.
    pub(crate) by_name: bool,
    /// Returns the connector of a server.
    pub(crate) server: At<C>,
}

impl<C> ClusterMembers<C> {
    /// Creates them from the hosts and ports of some servers of the cluster.
    ///
    /// `by_name`: whether servers are reached by the host names that they announce, instead of their IP addresses.
    /// `server` returns the connector of the server with this host and port.
    pub fn new(
        seeds: Vec<(String, u16)>,
        by_name: bool,
        server: impl Fn(&str, u16) -> C + Send + Sync + 'static,
    ) -> Self {
        Self { seeds, by_name, server: Arc::new(server) }
    }

    /// Returns them with every connector changed by `change`.
    #[must_use]
    pub fn map(&self, change: fn(C) -> C) -> Self
    where
        C: 'static,
    {
        let server = Arc::clone(&self.server);
        Self::new(self.seeds.clone(), self.by_name, move |host, port| change(server(host, port)))
    }
}

/// Shows the hosts and ports; the connectors may contain secrets.
impl<C> fmt::Debug for ClusterMembers<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterMembers").field("seeds", &self.seeds).finish_non_exhaustive()
    }
}
