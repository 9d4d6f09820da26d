//! Servers whose wall clocks step forward or run fast, and clients that watch them.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlock_core::node::{LockNode, Quarantine, QuarantineReason, Request};
use redlock_core::runtime::{BoxFuture, Instant, Runtime};
use redlock_core::{ErrorKind, Guard, IntoResource, LeaseState, Redlock};
use redlock_simulation::experiment::{Experiment, Totals};
use redlock_simulation::invariant::{Assumption, Invariant};
use redlock_simulation::network::{Direction, Network, Transport};
use redlock_simulation::plan::Faults;
use redlock_simulation::server::Server;
use redlock_testkit::sim::{Process, Simulation};

const LONGEST_TTL: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

fn experiment(seed: u64) -> Experiment {
    let servers = if seed % 2 == 0 { 3 } else { 5 };
    Experiment::new(seed).servers(servers).faults(Faults::Clocks)
}

#[test]
fn clocks_that_step_forward_or_run_fast_violate_nothing() {
    let totals = Totals::without_defects(40, experiment);
    assert!(totals.grants > 250, "{totals}");
    for fault in ["clock step", "clock drift", "crash", "older copy", "flush"] {
        assert!(totals.faults[fault] > 20, "{fault}: {totals}");
    }
}

#[test]
fn fenced_locks_violate_nothing() {
    let totals = Totals::without_defects(24, |seed| experiment(seed).fenced(true));
    assert!(totals.fenced_grants > 100, "{totals}");
}

#[test]
fn readers_and_writers_violate_nothing() {
    let totals = Totals::without_defects(24, |seed| experiment(seed).sharing());
    assert!(totals.grants > 200, "{totals}");
}

#[test]
fn kept_locks_violate_nothing() {
    Totals::without_defects(24, |seed| experiment(seed).keeping());
}

#[test]
fn without_a_watch_locks_overlap() {
    let totals = Totals::without_defects(100, |seed| experiment(seed).without_admission());
    let violations = |broken| totals.violations_of(Invariant::Exclusion, broken);
    assert!(
        violations(Assumption::ClocksAreNotSet) + violations(Assumption::ClocksRunEvenly) > 5,
        "{totals}"
    );
}

struct World {
    simulation: Simulation,
    network: Network,
    server: Server,
}

/// A client of the only server.
struct Client {
    process: Process,
    node: Arc<dyn LockNode>,
}

impl World {
    fn new(transport: Transport) -> Self {
        let simulation = Simulation::new(1);
        let network = Network::new(&simulation, transport);
        let server = network.servers(1).remove(0);
        network.set_longest_ttl(LONGEST_TTL);
        Self { simulation, network, server }
    }

    /// Starts a client, which looks at the server at once.
    fn client(&self) -> Client {
        let process = self.simulation.process("client");
        let client = Client { node: self.network.nodes_on(0, &process.runtime()).remove(0), process };
        self.pass(SECOND / 10);
        client
    }

    fn pass(&self, time: Duration) {
        self.simulation.run_for(time);
    }

    /// Sends a vote. Returns the quarantine behind it.
    fn vote(&self, Client { process, node }: &Client) -> Option<Quarantine> {
        let node = Arc::clone(node);
        self.simulation.block_on(process, async move {
            node.call(Request::Inspect("a".into_resource().unwrap())).await.unwrap();
            node.status().quarantine
        })
    }
}

fn reason(quarantine: Option<Quarantine>) -> Option<QuarantineReason> {
    quarantine.map(|quarantine| quarantine.reason)
}

fn reasons(nodes: &[Arc<dyn LockNode>]) -> Vec<Option<QuarantineReason>> {
    nodes.iter().map(|node| reason(node.status().quarantine)).collect()
}

const JUMPED: Option<QuarantineReason> = Some(QuarantineReason::ClockJumped);

#[test]
fn a_vote_after_a_step_does_not_count_until_the_quarantine_is_over() {
    for transport in [Transport::Streams, Transport::Datagrams] {
        let world = World::new(transport);
        let client = world.client();
        assert_eq!(None, world.vote(&client));
        world.server.step_clock(50);
        let quarantine = world.vote(&client).unwrap();
        assert_eq!(QuarantineReason::ClockJumped, quarantine.reason);
        world.pass(SECOND / 10);
        let remaining = client.node.status().quarantine.and_then(|quarantine| quarantine.remaining);
        let wait = Quarantine::duration(LONGEST_TTL);
        assert!(remaining.is_some_and(|left| left <= wait && left + SECOND > wait), "{remaining:?}");
        world.pass(LONGEST_TTL);
        assert_eq!(JUMPED, reason(world.vote(&client)));
        world.pass(SECOND);
        assert_eq!(None, world.vote(&client));
    }
}

#[test]
fn an_idle_client_notices_a_clock_that_runs_fast_and_others_learn_of_it() {
    let world = World::new(Transport::Streams);
    let (idle, other) = (world.client(), world.client());
    world.server.slew_clock(10_000);
    world.pass(3 * SECOND);
    assert_eq!(JUMPED, reason(idle.node.status().quarantine));
    world.server.slew_clock(0);
    drop((idle, other));
    let new = world.client();
    assert_eq!(Some(QuarantineReason::Recent), reason(new.node.status().quarantine), "the stamp is renewed");
}

/// The new client sends no request meanwhile, and its next regular look follows after a second.
#[test]
fn a_client_that_connects_after_a_step_learns_of_it_as_soon_as_another_one_does() {
    let world = World::new(Transport::Streams);
    let other = world.client();
    world.server.step_clock(50);
    let new = world.client();
    assert_eq!(None, reason(new.node.status().quarantine), "it has not seen the step");
    assert_eq!(JUMPED, reason(world.vote(&other)));
    world.pass(SECOND / 4);
    assert_eq!(Some(QuarantineReason::Recent), reason(new.node.status().quarantine), "the stamp is renewed");
}

#[test]
fn the_times_of_messages_are_no_jump() {
    let world = World::new(Transport::Streams);
    let client = world.client();
    world.server.hang();
    world.pass(3 * SECOND);
    world.server.resume();
    client.process.pause();
    world.pass(3 * SECOND);
    client.process.resume();
    world.pass(SECOND);
    assert_eq!(None, world.vote(&client));
    world.server.step_clock(-5_000);
    world.pass(SECOND);
    assert_eq!(None, world.vote(&client), "a step back");
}

/// Outside of the guarantee: nothing shows these steps.
#[test]
fn steps_that_no_reading_shows_are_not_noticed() {
    let world = World::new(Transport::Streams);
    let client = world.client();
    world.server.step_clock(-5_000);
    world.server.step_clock(5_000);
    assert_eq!(None, world.vote(&client), "back and forward between two readings");
    drop(client);
    world.server.step_clock(5_000);
    let new = world.client();
    assert_eq!(
        None,
        world.vote(&new),
        "a client that started after the step, and no other one renewed the stamp"
    );
}

/// Outside of the guarantee: the tolerated rate explains a step of 140 ms after a minute, and a lock of 10 s leaves only 102 ms
/// unused.
#[test]
fn a_long_interruption_hides_a_small_step_and_two_clients_hold_a_lock() {
    let simulation = Simulation::new(1);
    let network = Network::new(&simulation, Transport::Streams);
    let servers = network.servers(3);
    network.set_longest_ttl(LONGEST_TTL);
    let [holder, other] = [0, 1].map(|client| {
        let process = simulation.process("client");
        let nodes = network.nodes_on(client, &process.runtime());
        (Redlock::builder(process.clone()).nodes(nodes).build().unwrap(), process)
    });
    let cut = |client, server| {
        network.cut(client, server, Direction::Requests);
        network.cut(client, server, Direction::Replies);
    };
    simulation.run_for(3 * SECOND);
    cut(1, 0);
    cut(0, 2);
    simulation.run_for(60 * SECOND);
    let guard = simulation.block_on(&holder.1, holder.0.lock("a", LONGEST_TTL)).unwrap();
    // The holder would notice the step, and renew the stamp.
    cut(0, 0);
    servers[0].step_clock(140);
    network.heal(1, 0);
    simulation.run_for(Duration::from_millis(9_865));
    let second = simulation.block_on(&other.1, other.0.lock("a", LONGEST_TTL).try_now()).unwrap();
    assert!(guard.is_held() && second.is_some());
}

/// A program whose clock stands still whenever its machine is stopped.
#[derive(Clone, Debug)]
struct Guest {
    process: Process,
    /// The time for which the machine was stopped.
    stopped: Arc<Mutex<Duration>>,
}

impl Guest {
    /// Stops the machine for this time.
    fn stop(&self, simulation: &Simulation, time: Duration) {
        self.process.suspend();
        simulation.run_for(time);
        *self.stopped.lock().unwrap() += time;
        self.process.resume();
    }
}

impl Runtime for Guest {
    fn now(&self) -> Instant {
        self.process.now() - *self.stopped.lock().unwrap()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        self.process.sleep(duration)
    }

    fn spawn(&self, future: BoxFuture<()>) {
        self.process.spawn(future);
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.process.fill_random(bytes);
    }
}

/// Three servers, a holder whose clock may stand still, and another client.
struct Pair {
    simulation: Simulation,
    guest: Guest,
    nodes: Vec<Arc<dyn LockNode>>,
    nodes_of_other: Vec<Arc<dyn LockNode>>,
    holder: Redlock,
    other: (Redlock, Process),
}

impl Pair {
    fn new() -> Self {
        let simulation = Simulation::new(1);
        let network = Network::new(&simulation, Transport::Streams);
        network.servers(3);
        network.set_longest_ttl(LONGEST_TTL);
        let guest = Guest { process: simulation.process("guest"), stopped: Arc::default() };
        let runtime: Arc<dyn Runtime> = Arc::new(guest.clone());
        let nodes = network.nodes_on(0, &runtime);
        let holder = Redlock::builder(guest.clone()).nodes(nodes.clone()).build().unwrap();
        let process = simulation.process("other");
        let nodes_of_other = network.nodes_on(1, &process.runtime());
        let other = Redlock::builder(process.clone()).nodes(nodes_of_other.clone()).build().unwrap();
        simulation.run_for(3 * SECOND);
        Self { simulation, guest, nodes, nodes_of_other, holder, other: (other, process) }
    }

    fn hold(&self) -> Guard {
        self.simulation.block_on(&self.guest.process, self.holder.lock("a", LONGEST_TTL)).unwrap()
    }

    /// Returns the lock of the other client, if it acquires one now.
    fn second(&self) -> Option<Guard> {
        let (other, process) = &self.other;
        self.simulation.block_on(process, other.lock("a", LONGEST_TTL).try_now()).unwrap()
    }

    /// Returns the reasons for which nodes do not count for the holder.
    fn reasons(&self) -> Vec<Option<QuarantineReason>> {
        reasons(&self.nodes)
    }
}

/// The clock of a suspended machine counts the suspension, and no server seems to have jumped.
#[test]
fn a_client_that_is_suspended_loses_its_lock_and_excludes_no_node() {
    let pair = Pair::new();
    let guard = pair.hold();
    pair.guest.process.suspend();
    pair.simulation.run_for(LONGEST_TTL);
    pair.guest.process.resume();
    assert!(!guard.is_held() && pair.second().is_some());
    pair.simulation.run_for(3 * SECOND);
    assert_eq!([None; 3], pair.reasons()[..]);
}

/// Outside of the guarantee: the clock of the holder stood still, as if its host had stopped a virtual machine.
///
/// The holder relies on its lock for as long as the clock stood still, and at most for the TTL. It notices a jump of all
/// servers within about a second. It cannot know that they have not jumped, so it renews their stamps, and no client
/// acquires or extends a lock until the quarantine is over.
#[test]
fn a_client_whose_clock_stood_still_relies_on_a_lost_lock_and_quarantines_all_nodes() {
    let pair = Pair::new();
    let guard = pair.hold();
    pair.guest.stop(&pair.simulation, LONGEST_TTL);
    let second = pair.second();
    assert!(guard.is_held() && second.is_some());
    pair.simulation.run_for(SECOND + SECOND / 10);
    assert_eq!([JUMPED; 3], pair.reasons()[..]);
    let (process, lease) = (&pair.guest.process, guard.lease());
    let error =
        pair.simulation.block_on(process, async move { lease.extend(LONGEST_TTL).await }).unwrap_err();
    assert_eq!((ErrorKind::NoQuorum, LeaseState::AtRisk), (error.kind(), guard.state()));
    pair.simulation.run_for(2 * SECOND);
    assert_eq!([Some(QuarantineReason::Recent); 3], reasons(&pair.nodes_of_other)[..]);
    assert!(guard.remaining() > 6 * SECOND, "{:?}", guard.remaining());
    pair.simulation.run_for(guard.remaining());
    assert!(matches!(guard.state(), LeaseState::Lost(_)));
    pair.simulation.run_for(5 * SECOND);
    assert_eq!([None; 3], pair.reasons()[..]);
    assert_eq!([None; 3], reasons(&pair.nodes_of_other)[..]);
}
