//! The world of a run: a network with servers and clients, drawn from the seed.

use std::time::Duration;

use redlock_testkit::sim::{Clock, Simulation};

use super::client::{self, Client, Protected};
use super::fault_injector::FaultInjector;
use super::{Experiment, LATE_BY, NODE_TIMEOUT, SHORTEST_TTL, SHORTEST_WATCHED_TTL, waiting};
use crate::history::{EventKind, FaultKind, Place};
use crate::invariant::Assumption;
use crate::network::{Direction, Network, Notifications, Traffic, Transport};
use crate::plan::Faults;
use crate::server::Server;

/// The network of a run, with everything that is connected to it.
pub(super) struct World {
    pub(super) simulation: Simulation,
    pub(super) network: Network,
    pub(super) servers: Vec<Server>,
    pub(super) clients: Vec<Client>,
    pub(super) injector: FaultInjector,
}

/// The simulated time between two checks of a run.
const SLICE: Duration = Duration::from_millis(50);

/// The maximum drift of a clock: half of the drift factor of 1 %, so that two clocks differ by at most the factor.
const DRIFT_PPM: i32 = 4_900;

/// The maximum drift of a clock if clients watch the clocks of servers, less than half of the 0.25 % that they tolerate.
const WATCHED_DRIFT_PPM: i32 = 1_200;

/// The maximum drift of a client whose watch is to notice every jump that matters.
const WATCHING_DRIFT_PPM: i32 = 500;

/// The longest delay of usual messages in runs about clocks, in microseconds.
const WATCHED_DELAY: u64 = 3_000;

impl World {
    /// Creates the world of an experiment. The order of the draws is part of what a seed means.
    pub(super) fn new(experiment: &Experiment) -> Self {
        let chance = &mut fastrand::Rng::with_seed(experiment.seed);
        let simulation = Simulation::new(experiment.seed);
        let streams = chance.bool() || experiment.scripts.is_some();
        let transport = match (experiment.whole, streams) {
            (true, _) => Transport::Bytes,
            (false, true) => Transport::Streams,
            (false, false) => Transport::Datagrams,
        };
        let network = Network::new(&simulation, transport);
        if let Some(notifications) = experiment.notifications() {
            network.set_notifications(notifications);
        }
        if !experiment.keeps_places() {
            network.forget_places();
        }
        if experiment.is_about_waiting() {
            // The expected times do not cover the search for a connection that is lost without a notice.
            network.report_breaks();
        }
        if experiment.whole && experiment.seed % 4 == 1 {
            network.reorder_pushes();
        }
        if experiment.has_admission() {
            network.set_longest_ttl(experiment.longest_ttl());
        }
        let start = |number| experiment.server(number, &network, chance);
        let servers: Vec<_> = (0..experiment.servers).map(start).collect();
        let traffic = experiment.traffic(chance);
        network.set_traffic(Direction::Requests, traffic);
        network.set_traffic(Direction::Replies, traffic);
        let protected = experiment.is_fenced().then(|| {
            Protected::new(simulation.process("resources"), network.recorder().clone(), experiment.resources)
        });
        let create = |number| experiment.client(number, &simulation, &network, chance, protected.clone());
        let clients: Vec<_> = (0..experiment.clients).map(create).collect();
        let (resources, everything) =
            (experiment.resources, (network.clone(), servers.clone(), clients.clone()));
        let injector = FaultInjector::new(everything.0, everything.1, everything.2, resources, traffic);
        Self { simulation, network, servers, clients, injector }
    }

    /// Lets time pass while `proceeds` returns `true` for the number of events. Returns `None` if it does not.
    pub(super) fn pass(&self, time: Duration, mut proceeds: impl FnMut(usize) -> bool) -> Option<()> {
        let end = self.simulation.now() + time;
        while self.simulation.now() < end {
            self.simulation.run_for(SLICE.min(end.saturating_duration_since(self.simulation.now())));
            proceeds(self.network.recorder().len()).then_some(())?;
        }
        Some(())
    }

    /// Lets time pass until all programs have ended, at most `patience`. Otherwise same as [`pass`](World::pass).
    pub(super) fn pass_until_ended(
        &self,
        patience: Duration,
        mut proceeds: impl FnMut(usize) -> bool,
    ) -> Option<()> {
        let deadline = self.simulation.now() + patience;
        while self.simulation.now() < deadline && !self.clients.iter().all(Client::has_ended) {
            self.pass(SLICE, &mut proceeds)?;
        }
        Some(())
    }
}

/// Servers and their connections refer to each other.
impl Drop for World {
    fn drop(&mut self) {
        self.servers.iter().for_each(Server::disconnect_all);
    }
}

impl Experiment {
    /// Draws the notifications of servers, in every other run, with a separate generator.
    fn notifications(&self) -> Option<Notifications> {
        if self.is_about_waiting() {
            return Some(waiting::notifications(self.seed));
        }
        if let Some(notifies) = self.notifies {
            return notifies.then(Notifications::default);
        }
        let mut chance = fastrand::Rng::with_seed(self.seed ^ 0x7469_6469_6e67_7321);
        let notifications = Notifications {
            lost: chance.u32(..100),
            spurious: chance.u32(..100),
            late: chance.u32(..100),
            late_by: LATE_BY,
        };
        chance.bool().then_some(if self.faults == Faults::None {
            Notifications::default()
        } else {
            notifications
        })
    }

    /// Returns whether servers keep the places of waiting requests. In every fourth run, they do not.
    pub(super) fn keeps_places(&self) -> bool {
        self.whole || (self.seed / 4) % 4 != 3
    }

    fn server(&self, number: usize, network: &Network, chance: &mut fastrand::Rng) -> Server {
        let wild = self.faults.breaks(Assumption::ClocksRunEvenly);
        let drift_ppm =
            if wild { chance.i32(-300_000..=300_000) } else { self.drift(chance, self.server_drift()) };
        if wild || self.drifts_too_much() {
            let place = Place::Server(number);
            network.recorder().record(EventKind::FaultBegins(place, FaultKind::Drift(drift_ppm)));
        }
        let clock = Clock { drift_ppm, offset: self.skew(chance) };
        let server =
            if self.whole { self.whole_server(number, clock, network) } else { network.server(clock) };
        if self.timeless && !self.whole {
            server.count_from_one();
        }
        server
    }

    /// Returns how far the clock of a server is ahead from the beginning.
    fn skew(&self, chance: &mut fastrand::Rng) -> Duration {
        match self.faults {
            // No fencing token depends on the skew.
            Faults::Fencing => Duration::from_millis(chance.u64(..100_000)),
            _ if self.faults.is_about_fencing() => Duration::from_millis(chance.u64(..500)),
            _ => Duration::ZERO,
        }
    }

    fn traffic(&self, chance: &mut fastrand::Rng) -> Traffic {
        let longest = if self.faults == Faults::Clocks { WATCHED_DELAY } else { 20_000 };
        let most = Duration::from_micros(chance.u64(200..longest));
        let calm = Traffic { most, ..Traffic::default() };
        if let Some((least, most)) = self.delays {
            return Traffic { least, most, ..calm };
        }
        if self.faults == Faults::None {
            return calm;
        }
        let (lost, twice, late) = (chance.u32(..15), chance.u32(..30), chance.u32(..20));
        Traffic { lost, twice, late, late_by: LATE_BY, ..calm }
    }

    fn client(
        &self,
        number: usize,
        simulation: &Simulation,
        network: &Network,
        chance: &mut fastrand::Rng,
        protected: Option<Protected>,
    ) -> Client {
        let offset = Duration::from_millis(chance.u64(..100_000));
        let clock = Clock { offset, drift_ppm: self.drift(chance, self.client_drift()) };
        let behavior = client::Behavior {
            resources: self.resources,
            shortest_ttl: self.shortest_ttl_of_clients(),
            longest_ttl: self.longest_random_ttl(),
            node_timeout: NODE_TIMEOUT,
            does: self.activity,
            drift_factor: self.drift_factor,
            careless: self.faults.breaks(Assumption::HoldersCheckLeases),
            reads_first: self.reads_first,
            script: self.scripts.as_ref().and_then(|scripts| scripts.get(number).copied()),
        };
        let lists = self.change.clone().map(|lists| {
            let times = lists.times(self.seed, number, self.lasts);
            (lists, times)
        });
        Client::new(simulation, network.clone(), number, clock, chance.u64(..), behavior, (protected, lists))
    }

    pub(super) fn shortest_ttl_of_clients(&self) -> Duration {
        self.shortest_ttl.unwrap_or(match self.faults {
            Faults::Clocks => SHORTEST_WATCHED_TTL,
            _ => SHORTEST_TTL,
        })
    }

    /// Returns the drift of a clock within the bounds. In half of the cases, it is the maximum.
    fn drift(&self, chance: &mut fastrand::Rng, usual: i32) -> i32 {
        let most = self.drift_ppm.unwrap_or(usual);
        match chance.u32(..4) {
            0 => most,
            1 => -most,
            2 => 0,
            _ => chance.i32(-most..=most),
        }
    }

    fn server_drift(&self) -> i32 {
        if self.has_admission() || self.faults == Faults::Clocks { WATCHED_DRIFT_PPM } else { DRIFT_PPM }
    }

    fn client_drift(&self) -> i32 {
        if self.faults == Faults::Clocks { WATCHING_DRIFT_PPM } else { self.server_drift() }
    }

    /// Returns whether the requested drift lets two clocks differ by more than the clients allow for.
    fn drifts_too_much(&self) -> bool {
        self.drift_ppm.is_some_and(|most| f64::from(2 * most) > self.drift_factor * 1e6)
    }
}
