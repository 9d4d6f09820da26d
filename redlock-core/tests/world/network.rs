//! The network between one client and one node, and its faults.

use std::sync::Arc;

use redlock_core::runtime::Runtime;
use redlock_testkit::{FakeNode, Fault, MemoryNode, Operation};

use crate::common::MS;
use crate::world::World;
use crate::{die, millis};

#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) node: FakeNode,
    /// True if requests go over one connection at a time, in order.
    ordered: bool,
    /// True if the client is paused now and then.
    stops: bool,
}

impl Link {
    pub(crate) fn new(world: &World, node: &MemoryNode, stops: bool) -> Self {
        let (node, ordered) =
            (FakeNode::wrap(node.clone(), world.outside.runtime()), die(&world.outside, 2) == 0);
        Self { node: if ordered { node.ordered() } else { node }, ordered, stops }
    }

    /// Injects one fault after the other until the storm is over.
    pub(crate) async fn suffer(self, world: Arc<World>) {
        let outside = &world.outside;
        while world.is_stormy() {
            outside.sleep(millis(outside, 300)).await;
            match die(outside, 8) {
                0 => self.node.crash(),
                // The node hangs with all its pending requests, like a stopped server.
                1 => self.node.inject(Fault::hang()),
                _ => self.node.inject(self.fault(&world)),
            }
            outside.sleep(millis(outside, 250)).await;
            self.node.clear_faults();
            self.node.resume().await;
            self.node.restart();
        }
    }

    /// Returns a random fault of single requests.
    fn fault(&self, world: &World) -> Fault {
        let outside = &world.outside;
        let kinds = match (self.ordered, self.stops) {
            (true, _) => 5,
            // A paused client may send an old request after the releases that clean it up.
            (false, true) => 6,
            (false, false) => 7,
        };
        // The delay is below the node timeout. Without order, cleanup does not cover requests that take longer.
        let late = millis(outside, 80);
        let fault = match die(outside, kinds) {
            0 => Fault::drop_request(),
            1 => Fault::lose_reply(),
            2 => Fault::disconnect(),
            3 => Fault::reject(),
            4 => Fault::unavailable(),
            5 => Fault::apply_late(late),
            _ => Fault::delay(2 * late + MS),
        };
        let fault = match die(outside, 6) {
            0 => fault.on(Operation::Acquire),
            1 => fault.on(Operation::Extend),
            2 => fault.on(Operation::Release),
            _ => fault,
        };
        if die(outside, 2) == 0 { fault.times(3) } else { fault }
    }
}
