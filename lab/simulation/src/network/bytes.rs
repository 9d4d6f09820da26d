//! The whole stack: the nodes of `redlock-wire`, over connections of bytes to servers that run its scripts.

mod calls;
mod command;
mod connection;
mod connector;
mod observed;
mod socket;

use std::sync::Arc;

use redlock_core::node::LockNode;
use redlock_core::runtime::Runtime;
use redlock_wire::{Node, Options};

pub(crate) use self::calls::Calls;
pub(crate) use self::command::{Effect, RESERVED};
pub(crate) use self::connection::Connection;
use self::connector::{Connector, Pushes};
use self::observed::Observed;
use super::Network;
use crate::server::Server;

/// Returns a server as a node of one client.
pub(super) fn node(
    network: &Network,
    client: usize,
    server: Server,
    runtime: &Arc<dyn Runtime>,
) -> Arc<dyn LockNode> {
    let (longest_ttl, pushes) = {
        let state = network.state();
        let pushes = match (state.notifications, state.pushes_are_unordered) {
            (None, _) => Pushes::None,
            (Some(_), true) => Pushes::Unordered,
            (Some(_), false) => Pushes::InOrder,
        };
        (state.longest_ttl, pushes)
    };
    let options = Options::new(Arc::clone(runtime));
    let options = match longest_ttl {
        Some(longest) => options.longest_ttl(longest),
        None => options,
    };
    server.begin_watching(client);
    let connector = Connector::new(network.clone(), client, server.clone(), Arc::clone(runtime), pushes);
    let node = Node::new(connector, &options);
    Arc::new(Observed::new(node, network.clone(), client, server))
}
