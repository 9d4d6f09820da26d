//! A simulated world of one run, and its moments.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redlock_core::runtime::{Instant, Runtime};
use redlock_simulation::history::{EventKind, FaultKind, Place, TokenNumber};
use redlock_simulation::network::{Direction, Network, Traffic, Transport};
use redlock_simulation::server::{Persistence, Server};
use redlock_testkit::sim::{Process, Simulation};

use crate::calls;
use crate::client::{Client, Listed};

pub(crate) const NODES: usize = 3;

/// The bounds of a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The number of servers.
    pub(crate) servers: usize,
    /// The number of lost messages of 1,000, at most.
    pub(crate) lost: u32,
    /// The number of requests of 1,000 that arrive twice, at most. Connections repeat none.
    pub(crate) twice: u32,
}

/// Few losses and no repetitions.
pub(crate) const USUAL: Bounds = Bounds { servers: NODES, lost: 60, twice: 1 };

/// The time limit of a request.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_millis(100);

/// The time between two observations of the servers, at least.
const SLICE: Duration = Duration::from_millis(1);

/// The network between the core and the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Requests of the core over single messages without an order.
    Datagrams,
    /// Requests of the core over connections.
    Streams,
    /// The commands of `redlock-wire` over connections of bytes, and servers that execute its scripts.
    Whole,
}

pub(crate) struct World {
    simulation: Simulation,
    pub(crate) network: Network,
    pub(crate) servers: Vec<Server>,
    pub(crate) chance: fastrand::Rng,
}

/// A moment of a run.
pub(crate) struct Moment {
    pub(crate) at: Instant,
    pub(crate) happened: Happened,
    /// The tokens on each server now, or a little later.
    later: Arc<Tokens>,
}

#[derive(Debug)]
pub(crate) enum Happened {
    Event(EventKind),
    /// The servers have these tokens.
    Observed(Arc<Tokens>),
}

/// The tokens on each server.
pub(crate) type Tokens = Vec<BTreeSet<TokenNumber>>;

impl World {
    pub(crate) fn new(seed: u64, layer: Layer, bounds: Bounds) -> Self {
        let simulation = Simulation::new(seed);
        let network = Network::new(
            &simulation,
            match layer {
                Layer::Datagrams => Transport::Datagrams,
                Layer::Streams => Transport::Streams,
                Layer::Whole => Transport::Bytes,
            },
        );
        let servers = network.servers(bounds.servers);
        let mut chance = fastrand::Rng::with_seed(seed);
        let most = Duration::from_micros(chance.u64(200..20_000));
        // In one run of three, no message is lost or late.
        let faulty = u32::from(chance.u32(..3) > 0);
        let traffic = Traffic {
            most,
            lost: faulty * chance.u32(..bounds.lost),
            twice: faulty * chance.u32(..bounds.twice),
            late: faulty * chance.u32(..60),
            late_by: 4 * NODE_TIMEOUT,
            ..Traffic::default()
        };
        network.set_traffic(Direction::Requests, traffic);
        network.set_traffic(Direction::Replies, traffic);
        Self { simulation, network, servers, chance }
    }

    /// Starts the program of a client on a machine of its own. The client lists all servers.
    pub(crate) fn start<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        number: usize,
        program: impl FnOnce(Client) -> F,
    ) {
        let all: Vec<_> = (0..self.servers.len()).collect();
        self.start_listing(number, Listed { nodes: &all, previous: None, places: false }, program);
    }

    /// Same as [`start`](World::start), for a client whose requests wait in the order of their places.
    pub(crate) fn start_in_order<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        number: usize,
        program: impl FnOnce(Client) -> F,
    ) -> Process {
        let all: Vec<_> = (0..self.servers.len()).collect();
        self.start_listing(number, Listed { nodes: &all, previous: None, places: true }, program)
    }

    /// Kills the program of a client after a time.
    pub(crate) fn kill(&mut self, number: usize, program: Process, after: Duration) {
        let (killer, recorder) = (self.simulation.process("fault"), self.network.recorder().clone());
        let sleep = killer.sleep(after);
        killer.spawn(Box::pin(async move {
            sleep.await;
            program.kill();
            recorder.record(EventKind::FaultBegins(Place::Client(number), FaultKind::Kill));
        }));
    }

    /// Same as [`start`](World::start), for a client that lists these servers.
    pub(crate) fn start_listing<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        number: usize,
        listed: Listed<'_>,
        program: impl FnOnce(Client) -> F,
    ) -> Process {
        let process = self.simulation.process(&format!("c{number}"));
        let (network, chance) = (self.network.clone(), self.chance.fork());
        let client = Client::new(number, process.clone(), network, chance, listed);
        process.spawn(Box::pin(program(client)));
        process
    }

    /// Makes a server lose its data at a random moment before this time.
    pub(crate) fn lose_data(&mut self, before: Duration) {
        let server = self.servers[self.chance.usize(..self.servers.len())].clone();
        let process = self.simulation.process("fault");
        let lost = process.sleep(before.mul_f64(self.chance.f64()));
        process.spawn(Box::pin(async move {
            lost.await;
            server.crash(Persistence::Nothing);
            server.restart();
        }));
    }

    /// Lets time pass, and returns what has happened.
    pub(crate) fn run(self, lasts: Duration) -> Vec<Moment> {
        let recorder = self.network.recorder();
        let (end, mut seen) = (self.simulation.now() + lasts, 0);
        let mut observed: Vec<(usize, Instant, Arc<Tokens>)> = Vec::new();
        while self.simulation.now() < end {
            self.simulation.run_for(SLICE);
            let tokens = self.servers.iter().map(|server| server.locks().into_iter().collect()).collect();
            if recorder.len() > seen || observed.last().is_none_or(|(_, _, before)| **before != tokens) {
                seen = recorder.len();
                observed.push((seen, self.simulation.now(), Arc::new(tokens)));
            }
        }
        let (mut moments, mut history) = (Vec::new(), recorder.history().0);
        calls::correct(&mut history);
        let mut events = history.into_iter().enumerate().peekable();
        for (position, at, later) in observed {
            while let Some((_, event)) = events.next_if(|(number, _)| *number < position) {
                let (happened, later) = (Happened::Event(event.kind), Arc::clone(&later));
                moments.push(Moment { at: event.at, happened, later });
            }
            moments.push(Moment { at, happened: Happened::Observed(Arc::clone(&later)), later });
        }
        moments
    }
}

impl Moment {
    /// Returns true if a token is on a server now, or a little later.
    pub(crate) fn has_later(&self, server: usize, token: TokenNumber) -> bool {
        self.later[server].contains(&token)
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {:?}", self.at.elapsed_since_origin(), self.happened)
    }
}
