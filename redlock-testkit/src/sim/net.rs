//! A simulated network between clients and servers.
//!
//! Every message has a fate drawn from the seed: how long it is under way, whether it is lost, arrives twice, or is held
//! up far longer than others. There are two kinds of way:
//!
//! - [`Streams`](Transport::Streams), as TCP: what is sent over one connection arrives in order and once; a loss breaks
//!   the connection, and what was under way on it may still arrive later, after the next one was made. A node shows
//!   which connection it has.
//! - [`Datagrams`](Transport::Datagrams): messages overtake each other and arrive twice. A node shows no connection.
//!
//! A message that meets a partition is lost. What is held up by more than a node timeout, or arrives twice, no
//! client can undo: the history says so of each request that is carried out.

mod link;
mod remote;
mod traffic;
mod watch;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redlock_core::{Instant, LockNode, Runtime};

use self::remote::Remote;
pub use self::traffic::{Direction, Traffic};
pub use self::watch::Tidings;
use super::Simulation;
use super::process::{Clock, Process};
use super::server::Server;
use crate::history::{Place, Recorder, Trouble, What};

/// A network, the servers in it and the history of both. Clones are handles to the same one.
///
/// ```
/// use std::time::Duration;
/// use redlock_core::Redlock;
/// use redlock_testkit::sim::{Keeps, Network, Simulation, Transport};
///
/// let simulation = Simulation::new(7);
/// let network = Network::new(&simulation, Transport::Streams);
/// let servers = network.servers(3);
/// let client = simulation.process("client");
/// let redlock = Redlock::builder(client.clone()).nodes(network.nodes(0)).build()?;
///
/// servers[0].crash(Keeps::Nothing);
/// servers[1].hang();
/// simulation.block_on(&client, async move {
///     assert!(redlock.lock("a", Duration::from_secs(10)).await.is_err(), "one of three is no quorum");
/// });
/// # Ok::<(), redlock_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Network(Arc<Shared>);

struct Shared {
    transport: Transport,
    world: Process,
    recorder: Recorder,
    state: Mutex<State>,
}

struct State {
    chance: fastrand::Rng,
    servers: Vec<Server>,
    requests: Traffic,
    replies: Traffic,
    /// How servers tell of changes; `None` where they do not.
    tidings: Option<Tidings>,
    /// Numbers requests.
    calls: u64,
    /// Who gets nothing through to whom.
    cut: BTreeSet<(usize, usize, Direction)>,
}

/// What messages travel over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Connections that keep the order, and break.
    Streams,
    /// Single messages that keep no order.
    Datagrams,
}

impl Network {
    /// A network without servers, in which messages take up to 2 ms and nothing goes wrong.
    pub fn new(simulation: &Simulation, transport: Transport) -> Self {
        let world = simulation.process("network");
        let recorder = Recorder::new(world.clone());
        // A stream of its own: a fate more or less does not change what clients draw.
        let chance = fastrand::Rng::with_seed(simulation.seed() ^ 0x006e_6574_776f_726b);
        let (requests, replies) = (Traffic::default(), Traffic::default());
        let (servers, cut, tidings) = (Vec::new(), BTreeSet::new(), None);
        let state = State { chance, servers, requests, replies, tidings, calls: 0, cut };
        Self(Arc::new(Shared { transport, world, recorder, state: Mutex::new(state) }))
    }

    /// Adds a server whose clock differs from true time.
    pub fn server(&self, clock: Clock) -> Server {
        let mut state = self.state();
        let number = state.servers.len();
        let server = Server::new(number, clock, self.0.world.clone(), self.0.recorder.clone());
        state.servers.push(server.clone());
        server
    }

    /// Adds so many servers whose clocks are right.
    pub fn servers(&self, count: usize) -> Vec<Server> {
        (0..count).map(|_| self.server(Clock::default())).collect()
    }

    /// All servers as one client's nodes: new connections, under that client's number in the history.
    pub fn nodes(&self, client: usize) -> Vec<Arc<dyn LockNode>> {
        let servers = self.state().servers.clone();
        let node = |server| Arc::new(Remote::new(self.clone(), client, server)) as Arc<dyn LockNode>;
        servers.into_iter().map(node).collect()
    }

    /// How messages travel from now on.
    pub fn set_traffic(&self, direction: Direction, traffic: Traffic) {
        let mut state = self.state();
        match direction {
            Direction::Requests => state.requests = traffic,
            Direction::Replies => state.replies = traffic,
        }
    }

    /// How servers tell of changes from now on: [`LockNode::watch`]. They do not, unless this is called.
    pub fn set_tidings(&self, tidings: Tidings) {
        self.state().tidings = Some(tidings);
    }

    /// Lets nothing through from a client to a server, or back.
    pub fn cut(&self, client: usize, server: usize, direction: Direction) {
        let mut state = self.state();
        let already = state.cut.iter().any(|(from, to, _)| (*from, *to) == (client, server));
        state.cut.insert((client, server, direction));
        drop(state);
        if !already {
            self.0.recorder.record(What::Strikes(Place::Between(client, server), Trouble::Partition));
        }
    }

    /// Lets everything through again between a client and a server.
    pub fn heal(&self, client: usize, server: usize) {
        let mut state = self.state();
        let before = state.cut.len();
        state.cut.retain(|(from, to, _)| (*from, *to) != (client, server));
        let healed = state.cut.len() < before;
        drop(state);
        if healed {
            self.0.recorder.record(What::Passes(Place::Between(client, server), Trouble::Partition));
        }
    }

    /// Ends all partitions.
    pub fn heal_all(&self) {
        let cut: BTreeSet<_> =
            self.state().cut.iter().map(|(client, server, _)| (*client, *server)).collect();
        for (client, server) in cut {
            self.heal(client, server);
        }
    }

    /// True time.
    pub fn now(&self) -> Instant {
        self.0.world.now()
    }

    /// Where everything is written down that happens.
    pub fn recorder(&self) -> &Recorder {
        &self.0.recorder
    }

    fn is_cut(&self, client: usize, server: usize, direction: Direction) -> bool {
        self.state().cut.contains(&(client, server, direction))
    }

    fn next_call(&self) -> u64 {
        let mut state = self.state();
        state.calls += 1;
        state.calls
    }

    /// A duration below `most`.
    fn draw(&self, most: Duration) -> Duration {
        traffic::below(&mut self.state().chance, most)
    }

    fn coin(&self) -> bool {
        self.state().chance.bool()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("transport", &self.0.transport)
            .field("servers", &self.state().servers.len())
            .finish_non_exhaustive()
    }
}
