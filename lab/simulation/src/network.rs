//! A simulated network between clients and servers.
//!
//! The fate of every message is drawn from the seed. It has a random delay, and may be lost, arrive twice, or be held up
//! far longer than others. There are two transports:
//!
//! - [`Streams`](Transport::Streams), like TCP: messages of one connection arrive in order and once. A loss breaks the
//!   connection. Messages in flight on it may still arrive later, after the next connection was made. A node reports
//!   its connection.
//! - [`Datagrams`](Transport::Datagrams): messages overtake each other and arrive twice. A node reports no connection.
//! - [`Bytes`](Transport::Bytes): the whole stack. The nodes are those of `redlock-wire`, and send commands over
//!   connections of bytes. The servers run the scripts of the library. The client of a connection that breaks notices that
//!   soon, or never.
//!
//! Clients may check whether a server has lost locks ([`Network::set_longest_ttl`]). They look at the stamp of the server
//! over every connection, and once a second. On streams they are notified of losses and of changes of the stamp, before later
//! replies. With datagrams, a look follows each request. They also read the wall clock of the server behind every vote and
//! every look.
//!
//! A message that meets a partition is lost. A client cannot clean up after a message that is delayed by more than a
//! node timeout, or that arrives twice. The history records this for each request that is carried out.

mod bytes;
mod gate;
mod link;
mod looks;
mod notifications;
mod remote;
mod traffic;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redlock_core::node::LockNode;
use redlock_core::runtime::{Instant, Runtime};
use redlock_server::Settings;
use redlock_testkit::sim::{Clock, Process, Simulation};

pub(crate) use self::bytes::{Calls, Connection, Effect, RESERVED};
pub use self::notifications::Notifications;
pub(crate) use self::remote::EXACT;
use self::remote::Remote;
pub use self::traffic::{Direction, Traffic};
use crate::history::{EventKind, FaultKind, Place, Recorder};
use crate::server::Server;

/// A network, its servers, and the history of both. Clones are handles to the same network.
///
/// ```
/// use std::time::Duration;
/// use redlock_core::Redlock;
/// use redlock_simulation::network::{Network, Transport};
/// use redlock_simulation::server::Persistence;
/// use redlock_testkit::sim::Simulation;
///
/// let simulation = Simulation::new(7);
/// let network = Network::new(&simulation, Transport::Streams);
/// let servers = network.servers(3);
/// let client = simulation.process("client");
/// let redlock = Redlock::builder(client.clone()).nodes(network.nodes(0)).build()?;
///
/// servers[0].crash(Persistence::Nothing);
/// servers[1].hang();
/// simulation.block_on(&client, async move {
///     assert!(redlock.lock("a", Duration::from_secs(10)).await.is_err(), "one node of three is no quorum");
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
    /// True if clients notice each broken connection soon, if servers receive bytes.
    breaks_are_noticed: bool,
    /// True if clients do not rely on the order of pushes and replies, if servers receive bytes.
    pushes_are_unordered: bool,
    /// The notifications of changes; `None` if servers send none.
    notifications: Option<Notifications>,
    /// True if servers keep the places of waiting requests. Servers that receive bytes always do.
    keeps_places: bool,
    /// The longest TTL, if clients check whether servers may have lost locks.
    longest_ttl: Option<Duration>,
    /// The number of the last request.
    calls: u64,
    /// The requests about claims that no server has carried out, if servers receive bytes.
    calls_of_claims: Arc<Mutex<Calls>>,
    /// The connections that are cut: client, server and direction.
    cut: BTreeSet<(usize, usize, Direction)>,
}

/// The transport of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Connections that keep the order, and may break.
    Streams,
    /// Single messages without an order.
    Datagrams,
    /// Connections of bytes, over which `redlock-wire` sends its commands.
    Bytes,
}

impl Network {
    /// Creates a network without servers, with delays of up to 2 ms and no faults.
    pub fn new(simulation: &Simulation, transport: Transport) -> Self {
        let world = simulation.process("network");
        let recorder = Recorder::new(world.clone());
        // A separate generator: an additional message does not change the random numbers of clients.
        let chance = fastrand::Rng::with_seed(simulation.seed() ^ 0x006e_6574_776f_726b);
        let (requests, replies) = (Traffic::default(), Traffic::default());
        let (servers, cut, notifications, longest_ttl) = (Vec::new(), BTreeSet::new(), None, None);
        let state = State {
            chance,
            servers,
            requests,
            replies,
            breaks_are_noticed: false,
            pushes_are_unordered: false,
            notifications,
            keeps_places: true,
            longest_ttl,
            calls: 0,
            calls_of_claims: Arc::default(),
            cut,
        };
        Self(Arc::new(Shared { transport, world, recorder, state: Mutex::new(state) }))
    }

    /// Adds a server whose clock differs from true time.
    pub fn server(&self, clock: Clock) -> Server {
        if self.0.transport == Transport::Bytes {
            return self.server_of_commands(clock, Settings::default());
        }
        let mut state = self.state();
        let number = state.servers.len();
        let server = Server::new(number, clock, self.0.world.clone(), self.0.recorder.clone());
        state.servers.push(server.clone());
        server
    }

    /// Adds a server that receives commands, with settings of its own. The transport must be [`Bytes`](Transport::Bytes).
    pub fn server_of_commands(&self, clock: Clock, settings: Settings) -> Server {
        let mut state = self.state();
        let (number, calls) = (state.servers.len(), Arc::clone(&state.calls_of_claims));
        let server = Server::of_commands(number, clock, self, calls, settings);
        state.servers.push(server.clone());
        server
    }

    /// Adds `count` servers whose clocks are right.
    pub fn servers(&self, count: usize) -> Vec<Server> {
        (0..count).map(|_| self.server(Clock::default())).collect()
    }

    /// Returns all servers as the nodes of one client whose clock is right.
    ///
    /// The nodes have new connections, under the number of that client in the history.
    pub fn nodes(&self, client: usize) -> Vec<Arc<dyn LockNode>> {
        self.nodes_on(client, &(Arc::new(self.0.world.clone()) as Arc<dyn Runtime>))
    }

    /// Returns all servers as the nodes of one client, which checks them by the clock and with the tasks of this runtime.
    ///
    /// Same as [`nodes`](Network::nodes) otherwise.
    pub fn nodes_on(&self, client: usize, runtime: &Arc<dyn Runtime>) -> Vec<Arc<dyn LockNode>> {
        let servers = self.state().servers.clone();
        let node = |server| match self.0.transport {
            Transport::Streams | Transport::Datagrams => {
                let node = Remote::new(self.clone(), client, server, Arc::clone(runtime));
                Arc::new(node) as Arc<dyn LockNode>
            }
            Transport::Bytes => bytes::node(self, client, server, runtime),
        };
        servers.into_iter().map(node).collect()
    }

    /// Sets the behavior of messages in one direction from now on.
    pub fn set_traffic(&self, direction: Direction, traffic: Traffic) {
        let mut state = self.state();
        match direction {
            Direction::Requests => state.requests = traffic,
            Direction::Replies => state.replies = traffic,
        }
    }

    /// Sets how servers notify of changes from now on ([`Request::Watch`](redlock_core::node::Request::Watch)).
    ///
    /// By default they send no notifications.
    pub fn set_notifications(&self, notifications: Notifications) {
        self.state().notifications = Some(notifications);
    }

    /// Makes servers keep no places of waiting requests, like a custom backend without an order.
    ///
    /// It has no effect on servers that receive bytes.
    pub(crate) fn forget_places(&self) {
        self.state().keeps_places = false;
    }

    /// Makes clients notice each broken connection soon.
    pub(crate) fn report_breaks(&self) {
        self.state().breaks_are_noticed = true;
    }

    /// Makes clients not rely on the order of pushes and replies, as some clients of Redis reorder them.
    pub(crate) fn reorder_pushes(&self) {
        self.state().pushes_are_unordered = true;
    }

    /// Makes clients check whether servers may have lost locks, with this longest TTL.
    ///
    /// See [restart admission](redlock_core::node#restart-admission).
    ///
    /// It applies to nodes that are created from now on. By default they do not check.
    pub fn set_longest_ttl(&self, longest_ttl: Duration) {
        self.state().longest_ttl = Some(longest_ttl);
    }

    /// Cuts the connection from a client to a server in one direction.
    pub fn cut(&self, client: usize, server: usize, direction: Direction) {
        let mut state = self.state();
        let already = state.cut.iter().any(|(from, to, _)| (*from, *to) == (client, server));
        state.cut.insert((client, server, direction));
        drop(state);
        if !already {
            self.0
                .recorder
                .record(EventKind::FaultBegins(Place::Between(client, server), FaultKind::Partition));
        }
    }

    /// Ends the partition between a client and a server.
    pub fn heal(&self, client: usize, server: usize) {
        let mut state = self.state();
        let before = state.cut.len();
        state.cut.retain(|(from, to, _)| (*from, *to) != (client, server));
        let healed = state.cut.len() < before;
        drop(state);
        if healed {
            self.0
                .recorder
                .record(EventKind::FaultEnds(Place::Between(client, server), FaultKind::Partition));
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

    /// Returns the true time.
    pub fn now(&self) -> Instant {
        self.0.world.now()
    }

    /// Returns the recorder of the history.
    pub fn recorder(&self) -> &Recorder {
        &self.0.recorder
    }

    fn is_cut(&self, client: usize, server: usize, direction: Direction) -> bool {
        self.state().cut.contains(&(client, server, direction))
    }

    /// Returns the process of the network, whose clock is right.
    pub(crate) fn world(&self) -> &Process {
        &self.0.world
    }

    fn next_call(&self) -> u64 {
        let mut state = self.state();
        state.calls += 1;
        state.calls
    }

    /// Returns a random duration below `most`.
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
