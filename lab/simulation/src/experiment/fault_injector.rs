//! The execution of a plan, and the end of all faults.

use std::sync::Arc;
use std::time::Duration;

use redlock_core::runtime::Runtime;
use redlock_testkit::sim::{Process, Simulation};

use super::client::{Client, name};
use crate::history::{EventKind, FaultKind, Place};
use crate::network::{Direction, Network, Traffic};
use crate::plan::{Incident, Plan};
use crate::server::Server;

#[derive(Clone)]
pub(super) struct FaultInjector(Arc<Shared>);

struct Shared {
    network: Network,
    servers: Vec<Server>,
    clients: Vec<Client>,
    resources: usize,
    usual: Traffic,
}

/// The faults of a storm: about a fifth of all messages is lost, repeated or held up.
const STORM: Traffic = Traffic {
    least: Duration::from_millis(1),
    most: Duration::from_millis(150),
    lost: 80,
    twice: 80,
    late: 80,
    late_by: super::LATE_BY,
};

impl FaultInjector {
    pub(super) fn new(
        network: Network,
        servers: Vec<Server>,
        clients: Vec<Client>,
        resources: usize,
        usual: Traffic,
    ) -> Self {
        Self(Arc::new(Shared { network, servers, clients, resources, usual }))
    }

    /// Starts the plan. Its incidents happen as time passes, until [`calm`](FaultInjector::calm).
    pub(super) fn carry_out(&self, simulation: &Simulation, plan: &Plan) -> Process {
        let process = simulation.process("injector");
        for (when, incident) in plan.incidents().iter().cloned() {
            let (me, time) = (self.clone(), process.clone());
            process.spawn(Box::pin(async move {
                time.sleep(when).await;
                if me.begin(&incident) {
                    time.sleep(incident.lasts().unwrap_or_default()).await;
                    me.end(&incident);
                }
            }));
        }
        process
    }

    /// Ends all faults.
    pub(super) fn calm(&self) {
        let Shared { network, servers, clients, resources, .. } = &*self.0;
        for server in servers {
            server.restart();
            server.resume();
            server.out_of_memory(false);
            server.promote();
            server.read_only(false);
            server.slew_clock(0);
            server.calm();
            (0..*resources).for_each(|resource| server.remove_non_lock_value(name(resource)));
        }
        network.heal_all();
        self.set_traffic(Traffic::default());
        for client in clients {
            client.resume();
        }
        network.recorder().record(EventKind::Calm);
    }

    /// Starts an incident. Returns whether it has started and must be ended.
    fn begin(&self, incident: &Incident) -> bool {
        let Shared { network, servers, clients, .. } = &*self.0;
        match incident {
            Incident::Crash { server, persistence, .. } => {
                let server = &servers[*server];
                if !server.is_up() {
                    return false;
                }
                server.crash(persistence.clone());
            }
            Incident::Hang { server, .. } => servers[*server].hang(),
            Incident::Flush { server } => servers[*server].flush(),
            Incident::Copy { server } => servers[*server].copy(),
            Incident::Failback { server, .. } => return servers[*server].demote(),
            Incident::Evict { server } => servers[*server].evict(),
            Incident::Forget { server } => servers[*server].forget(),
            Incident::OutOfMemory { server, .. } => servers[*server].out_of_memory(true),
            Incident::ReadOnly { server, .. } => servers[*server].read_only(true),
            Incident::WrongType { server, resource, .. } => {
                return servers[*server].set_non_lock_value(name(*resource));
            }
            Incident::Step { server, millis } => servers[*server].step_clock(*millis),
            Incident::Slew { server, ppm, .. } => servers[*server].slew_clock(*ppm),
            Incident::Partition { client, server, way, .. } => {
                for direction in [Direction::Requests, Direction::Replies] {
                    if way.is_none_or(|way| way == direction) {
                        network.cut(*client, *server, direction);
                    }
                }
            }
            Incident::Storm { .. } => {
                network.recorder().record(EventKind::FaultBegins(Place::Network, FaultKind::Storm));
                self.set_traffic(STORM);
            }
            Incident::Pause { client, .. } => clients[*client].pause(),
            Incident::Suspend { client, .. } => clients[*client].suspend(),
            Incident::Kill { client, .. } => clients[*client].kill(),
        }
        true
    }

    fn end(&self, incident: &Incident) {
        let Shared { network, servers, clients, usual, .. } = &*self.0;
        match incident {
            Incident::Crash { server, .. } => servers[*server].restart(),
            Incident::Hang { server, .. } => servers[*server].resume(),
            Incident::OutOfMemory { server, .. } => servers[*server].out_of_memory(false),
            Incident::ReadOnly { server, .. } => servers[*server].read_only(false),
            Incident::Failback { server, .. } => servers[*server].promote(),
            Incident::Slew { server, .. } => servers[*server].slew_clock(0),
            Incident::WrongType { server, resource, .. } => {
                servers[*server].remove_non_lock_value(name(*resource));
            }
            Incident::Partition { client, server, .. } => network.heal(*client, *server),
            Incident::Storm { .. } => {
                network.recorder().record(EventKind::FaultEnds(Place::Network, FaultKind::Storm));
                self.set_traffic(*usual);
            }
            Incident::Pause { client, .. } | Incident::Suspend { client, .. } => clients[*client].resume(),
            Incident::Kill { client, .. } => clients[*client].restart(),
            Incident::Flush { .. }
            | Incident::Copy { .. }
            | Incident::Evict { .. }
            | Incident::Forget { .. }
            | Incident::Step { .. } => {}
        }
    }

    fn set_traffic(&self, traffic: Traffic) {
        self.0.network.set_traffic(Direction::Requests, traffic);
        self.0.network.set_traffic(Direction::Replies, traffic);
    }
}
