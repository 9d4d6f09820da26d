//! Servers that lose their data in every way, and clients that check for it.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::time::Duration;

use redlock_core::IntoResource;
use redlock_core::node::{Begun, LockNode, Quarantine, QuarantineReason, Request};
use redlock_core::runtime::Runtime;
use redlock_simulation::experiment::{Experiment, Totals};
use redlock_simulation::invariant::{Assumption, Invariant};
use redlock_simulation::network::{Direction, Network, Traffic, Transport};
use redlock_simulation::plan::Faults;
use redlock_simulation::server::{Persistence, Server};
use redlock_testkit::sim::{Process, Simulation};

const LONGEST_TTL: Duration = Duration::from_secs(10);

fn experiment(seed: u64) -> Experiment {
    let servers = if seed % 2 == 0 { 3 } else { 5 };
    Experiment::new(seed).servers(servers).faults(Faults::Losses)
}

#[test]
fn losses_violate_nothing() {
    let totals = Totals::without_defects(60, experiment);
    assert!(totals.grants > 300 && totals.fenced_grants > 100, "{totals}");
    for fault in ["crash", "flush", "older copy", "lost counters"] {
        assert!(totals.faults[fault] > 20, "{fault}: {totals}");
    }
}

#[test]
fn without_the_check_locks_overlap() {
    let mut totals = Totals::default();
    (0..40).for_each(|seed| totals.add(&experiment(seed).without_admission().run()));
    assert!(totals.violations_of(Invariant::Exclusion, Assumption::DataIsKept) > 0, "{totals}");
}

struct World {
    simulation: Simulation,
    network: Network,
    server: Server,
    client: Process,
    node: std::sync::Arc<dyn LockNode>,
}

fn world(transport: Transport) -> World {
    let simulation = Simulation::new(1);
    let network = Network::new(&simulation, transport);
    let server = network.servers(1).remove(0);
    network.set_longest_ttl(LONGEST_TTL);
    let client = simulation.process("client");
    let node = network.nodes(0).remove(0);
    World { simulation, network, server, client, node }
}

impl World {
    /// Looks at the server until a look is possible, and returns whether it counts then.
    fn is_admitted(&self) -> bool {
        let (node, client) = (self.node.clone(), self.client.clone());
        let inspection = Request::Inspect("a".into_resource().unwrap());
        self.simulation.block_on(&self.client, async move {
            while node.status().quarantine == Some(Quarantine::new(QuarantineReason::NotChecked)) {
                if let Begun::Connecting(look) = node.begin(&inspection) {
                    look.await;
                }
                client.sleep(Duration::from_millis(100)).await;
            }
            node.status().quarantine.is_none()
        })
    }
}

/// A failback is detected with the next reply, even without notifications.
#[test]
fn a_server_counts_again_after_the_quarantine() {
    fn restart(server: &Server, persistence: Persistence) {
        server.crash(persistence);
        server.restart();
    }
    type Loss = (&'static str, fn(&Server));
    let losses: [Loss; 4] = [
        ("empty", |server| restart(server, Persistence::Nothing)),
        ("older", |server| restart(server, Persistence::Older)),
        ("whole", |server| restart(server, Persistence::All)),
        ("failback", |server| {
            server.demote();
            server.promote();
        }),
    ];
    let transports = [Transport::Streams, Transport::Bytes];
    for (transport, (name, lose)) in
        transports.into_iter().flat_map(|transport| losses.map(|loss| (transport, loss)))
    {
        for copied in [false, true] {
            let world = world(transport);
            assert!(world.is_admitted(), "the server has lost nothing");
            if copied {
                world.server.copy();
            }
            lose(&world.server);
            let (node, client) = (world.node.clone(), world.client.clone());
            world.simulation.block_on(&client, async move {
                drop(node.call(Request::Inspect("a".into_resource().unwrap())).await);
            });
            assert!(!world.is_admitted(), "{name} over {transport:?}");
            // It counts with the first look after the quarantine, which takes a moment.
            world.simulation.run_for(Quarantine::duration(LONGEST_TTL) + Duration::from_millis(100));
            assert!(world.is_admitted(), "{name} over {transport:?}");
        }
    }
}

/// The reply to a look is lost with the process of the server that has sent it.
#[test]
fn a_look_that_began_before_a_restart_admits_nothing() {
    let world = world(Transport::Streams);
    assert!(world.is_admitted());
    // The client looks once a second, and each reply takes longer.
    let slow = Duration::from_millis(1_500);
    let replies = Traffic { least: slow, most: slow, ..Traffic::default() };
    world.network.set_traffic(Direction::Replies, replies);
    world.simulation.run_for(Duration::from_millis(1_200));
    world.server.crash(Persistence::Nothing);
    world.server.restart();
    let until_the_next_reply = 2 * slow;
    let mut waited = Duration::ZERO;
    while waited < until_the_next_reply {
        assert!(world.node.status().quarantine.is_some(), "after {waited:?}");
        world.simulation.run_for(Duration::from_millis(50));
        waited += Duration::from_millis(50);
    }
}
