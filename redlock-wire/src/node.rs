//! A node over any client: a server, or a cluster.

use std::fmt;
use std::time::Duration;

use redlock_core::node::{Begun, LockNode, Profile, Request, Status};
use redlock_core::{Error, Resource};

use crate::cluster::ClusterNode;
use crate::connection::Connector;
use crate::options::Options;
use crate::server_node::ServerNode;

/// A Redis or Valkey server as a [`LockNode`], or the shards of a cluster as one.
///
/// It connects on first use, and again whenever the connection is lost, in a separate task. A server that comes back is
/// used again within a second, even without traffic. The task runs on the runtime of the request that started it. When
/// that runtime has ended, the next request starts another task.
///
/// Dropping the node ends the task and closes the connection, once no request is in flight any more.
pub struct Node<C: Connector>(Kind<C>);

enum Kind<C: Connector> {
    Server(ServerNode<C>),
    Cluster(ClusterNode<C>),
}

impl<C: Connector> Node<C> {
    /// Creates a node that connects on first use. It does no I/O and needs no current runtime.
    #[must_use]
    pub fn new(connector: C, options: &Options) -> Self {
        Self(match connector.cluster() {
            Some(_) => Kind::Cluster(ClusterNode::new(connector, options)),
            None => Kind::Server(ServerNode::new(connector, options)),
        })
    }

    fn node(&self) -> &dyn LockNode {
        match &self.0 {
            Kind::Server(server) => server,
            Kind::Cluster(cluster) => cluster,
        }
    }
}

impl<C: Connector> LockNode for Node<C> {
    fn label(&self) -> &str {
        self.node().label()
    }

    fn profile(&self) -> Profile {
        self.node().profile()
    }

    fn status(&self) -> Status {
        self.node().status()
    }

    fn begin(&self, request: &Request) -> Begun {
        self.node().begin(request)
    }

    fn check(&self, resource: &Resource) -> Result<(), Error> {
        self.node().check(resource)
    }

    fn check_together(&self, resources: &[Resource]) -> Result<(), Error> {
        self.node().check_together(resources)
    }

    fn set_node_timeout(&self, timeout: Duration) {
        self.node().set_node_timeout(timeout);
    }

    fn set_clock_drift_factor(&self, factor: f64) {
        self.node().set_clock_drift_factor(factor);
    }
}

impl<C: Connector> fmt::Debug for Node<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connected = match &self.0 {
            Kind::Server(server) => server.is_connected(),
            Kind::Cluster(cluster) => cluster.is_connected(),
        };
        f.debug_struct("Node").field("label", &self.label()).field("connected", &connected).finish()
    }
}
