//! The scenarios of the literature, each with and without a violated assumption of the lock. The violation must name the
//! assumption.
//!
//! - Kleppmann, "How to do distributed locking" (2016): the long pause, the clock step.
//! - The article that introduced Redlock: the restart without data, the lost reply, the split vote.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::time::Duration;

use redlock_core::runtime::{BoxFuture, Runtime};
use redlock_core::{ErrorKind, Guard, Redlock};
use redlock_simulation::history::{EventKind, FaultKind, Place, TokenNumber};
use redlock_simulation::invariant::{Assumption, Invariant, Rules, Violation, check};
use redlock_simulation::network::{Direction, Network, Traffic, Transport};
use redlock_simulation::server::{Persistence, Server};
use redlock_testkit::sim::{Process, Simulation};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(200);

struct World {
    simulation: Simulation,
    network: Network,
    servers: Vec<Server>,
}

/// A client whose actions are recorded.
#[derive(Clone)]
struct Client {
    number: usize,
    process: Process,
    redlock: Redlock,
    network: Network,
}

impl World {
    fn new(servers: usize) -> Self {
        let simulation = Simulation::new(1);
        let network = Network::new(&simulation, Transport::Streams);
        let servers = network.servers(servers);
        Self { simulation, network, servers }
    }

    fn client(&self, number: usize) -> Client {
        let process = self.simulation.process(&format!("c{number}"));
        let builder = Redlock::builder(process.clone()).nodes(self.network.nodes(number));
        let redlock = builder.node_timeout(NODE_TIMEOUT).build().unwrap();
        Client { number, process, redlock, network: self.network.clone() }
    }

    fn run<T: Send + 'static>(
        &self,
        client: &Client,
        work: impl FnOnce(Client) -> BoxFuture<T> + Send + 'static,
    ) -> T {
        self.simulation.block_on(&client.process, work(client.clone()))
    }

    fn all_violations(&self) -> Vec<Violation> {
        let rules = Rules {
            servers: self.servers.len(),
            node_timeout: NODE_TIMEOUT,
            settled_after: 100 * TTL,
            admission: false,
            watches_clocks: false,
            changes_nodes: false,
        };
        check(&self.network.recorder().history(), &rules)
    }

    fn violations(&self) -> Vec<(Invariant, Option<Assumption>)> {
        self.all_violations().into_iter().map(|violation| (violation.invariant, violation.broken)).collect()
    }
}

impl Client {
    /// Makes one attempt to acquire the resource.
    async fn acquire(&self, ttl: Duration) -> Result<(Guard, TokenNumber), ErrorKind> {
        let (client, resources) = (self.number, vec![0]);
        self.record(EventKind::Requested {
            client,
            resources: resources.clone(),
            ttl,
            once: true,
            fenced: false,
        });
        let why = match self.redlock.lock("a", ttl).try_now().await {
            Ok(Some(guard)) => {
                let token = self.network.recorder().number_of(&guard.fingerprint());
                let until = self.network.now() + guard.remaining();
                self.record(EventKind::Granted { client, resources, token, until, fence: None });
                return Ok((guard, token));
            }
            Ok(None) => ErrorKind::Contended,
            Err(error) => error.kind(),
        };
        self.record(EventKind::NotGranted { client, why: Some(why) });
        Err(why)
    }

    /// Records an action under the lock.
    fn act(&self, token: TokenNumber) {
        self.record(EventKind::Acted { client: self.number, token });
    }

    /// Acquires the resource and never releases it.
    async fn acquire_and_keep(&self) -> Result<TokenNumber, ErrorKind> {
        let (guard, token) = self.acquire(TTL).await?;
        std::mem::forget(guard);
        Ok(token)
    }

    async fn release(&self, guard: Guard, token: TokenNumber) {
        self.record(self.network.recorder().releasing(self.number, token, true));
        let outcome = guard.release().await.map_err(|error| error.kind());
        self.record(EventKind::Released { client: self.number, token, outcome });
    }

    fn pause(&self) {
        self.record(EventKind::FaultBegins(Place::Client(self.number), FaultKind::Pause));
        self.process.pause();
    }

    fn resume(&self) {
        self.process.resume();
        self.record(EventKind::FaultEnds(Place::Client(self.number), FaultKind::Pause));
    }

    fn record(&self, kind: EventKind) {
        self.network.recorder().record(kind);
    }
}

/// A holder is paused for longer than its TTL, between a check of its lease and an action.
fn long_pause(checks_again: bool) -> World {
    let world = World::new(5);
    let (first, second) = (world.client(0), world.client(1));
    let me = first.clone();
    first.process.spawn(Box::pin(async move {
        let (guard, token) = me.acquire(TTL).await.unwrap();
        assert!(guard.is_held());
        me.act(token);
        me.process.sleep(3 * SECOND).await;
        if !checks_again || guard.is_held() {
            me.act(token);
        }
        std::mem::forget(guard);
    }));
    world.simulation.run_for(2 * SECOND);
    first.pause();
    world.simulation.run_for(TTL);
    let (guard, token) = world.run(&second, |me| Box::pin(async move { me.acquire(TTL).await.unwrap() }));
    second.act(token);
    world.simulation.run_for(SECOND);
    first.resume();
    world.simulation.run_for(2 * SECOND);
    world.run(&second, move |me| Box::pin(async move { me.release(guard, token).await }));
    world
}

#[test]
fn a_long_pause_breaks_exclusion_unless_the_holder_checks_its_lease() {
    assert_eq!(Vec::<(Invariant, Option<Assumption>)>::new(), long_pause(true).violations());
    let broken = Some(Assumption::HoldersCheckLeases);
    assert_eq!(vec![(Invariant::Exclusion, broken)], long_pause(false).violations());
}

/// The first holder has grants of servers 0, 1 and 2 of five. Then the clock of server 2 is set.
fn clock_jump(millis: i64) -> (World, Result<TokenNumber, ErrorKind>) {
    let world = World::new(5);
    let (first, second) = (world.client(0), world.client(1));
    for server in [3, 4] {
        world.network.cut(0, server, Direction::Requests);
    }
    world.run(&first, |me| Box::pin(async move { me.acquire_and_keep().await.unwrap() }));
    world.simulation.run_for(SECOND);
    world.servers[2].step_clock(millis);
    let second = world.run(&second, |me| Box::pin(async move { me.acquire_and_keep().await }));
    (world, second)
}

#[test]
fn a_clock_step_forward_on_one_server_admits_a_second_holder() {
    let (world, second) = clock_jump(10_000);
    assert!(second.is_ok());
    let broken = Some(Assumption::ClocksAreNotSet);
    assert_eq!(vec![(Invariant::Validity, broken), (Invariant::Exclusion, broken)], world.violations());
}

#[test]
fn a_clock_step_back_on_one_server_violates_nothing() {
    let (world, second) = clock_jump(-10_000);
    assert_eq!(Err(ErrorKind::Contended), second);
    assert!(world.violations().is_empty());
}

/// The first holder has grants of servers 0, 1 and 2 of five. Then server 2 loses its data and restarts.
fn restart_without_data(after: Duration) -> (World, Result<TokenNumber, ErrorKind>) {
    let world = World::new(5);
    let (first, second) = (world.client(0), world.client(1));
    for server in [3, 4] {
        world.network.cut(0, server, Direction::Requests);
    }
    let holder = world.run(&first, |me| Box::pin(async move { me.acquire_and_keep().await.unwrap() }));
    world.simulation.run_for(SECOND);
    world.servers[2].crash(Persistence::Nothing);
    let me = first.clone();
    first.process.spawn(Box::pin(async move {
        me.process.sleep(SECOND / 2).await;
        me.act(holder);
    }));
    world.simulation.run_for(after);
    world.servers[2].restart();
    let second = world.run(&second, |me| Box::pin(async move { me.acquire_and_keep().await }));
    (world, second)
}

#[test]
fn a_restart_without_data_admits_a_second_holder() {
    let (world, second) = restart_without_data(SECOND);
    assert!(second.is_ok());
    let broken = Some(Assumption::DataIsKept);
    assert_eq!(vec![(Invariant::Validity, broken), (Invariant::Exclusion, broken)], world.violations());
}

#[test]
fn a_restart_without_data_after_a_ttl_violates_nothing() {
    let (world, second) = restart_without_data(TTL);
    assert!(second.is_ok(), "the first lease has expired");
    assert!(world.violations().is_empty());
}

#[test]
fn a_key_whose_reply_was_lost_is_cleaned_up() {
    let world = World::new(3);
    let client = world.client(0);
    world.network.set_traffic(Direction::Replies, Traffic { lost: 1000, ..Traffic::default() });
    let taken = world.run(&client, |me| Box::pin(async move { me.acquire_and_keep().await }));
    assert_eq!(Err(ErrorKind::NoQuorum), taken);
    assert!(world.servers.iter().any(|server| !server.is_empty()), "the request was carried out");
    world.network.set_traffic(Direction::Replies, Traffic::default());
    world.run(&client, |me| {
        Box::pin(async move {
            me.redlock.close().await;
            me.record(EventKind::Closed { client: me.number });
        })
    });
    assert!(world.servers.iter().all(Server::is_empty));
    world.servers.iter().for_each(Server::record_locks);
    assert!(world.violations().is_empty());
}

#[test]
fn a_split_vote_of_three_ends_with_one_holder_at_a_time() {
    let world = World::new(3);
    let clients = [0, 1, 2].map(|number| world.client(number));
    for client in &clients {
        // Each client reaches only its own server at first, so no client has a quorum.
        for server in 0..3 {
            if server != client.number {
                world.network.cut(client.number, server, Direction::Requests);
            }
        }
        let me = client.clone();
        client.process.spawn(Box::pin(async move {
            loop {
                if let Ok((guard, token)) = me.acquire(TTL).await {
                    me.act(token);
                    return me.release(guard, token).await;
                }
                let mut random = [0];
                me.process.fill_random(&mut random);
                me.process.sleep(MS * u32::from(random[0])).await;
            }
        }));
    }
    world.simulation.run_for(SECOND);
    assert_eq!(0, world.network.recorder().history().grants());
    world.network.heal_all();
    world.simulation.run_for(60 * SECOND);
    assert_eq!(3, world.network.recorder().history().grants(), "each client has held the lock once");
    assert!(world.violations().is_empty(), "{:?}", world.violations());
}

/// Another program has set a non-lock value on some of five servers.
fn wrong_type(servers: usize) -> Result<TokenNumber, ErrorKind> {
    let world = World::new(5);
    let client = world.client(0);
    assert!(world.servers[..servers].iter().all(|server| server.set_non_lock_value("a")));
    let taken = world.run(&client, |me| Box::pin(async move { me.acquire_and_keep().await }));
    assert!(world.violations().is_empty(), "{:?}", world.violations());
    taken
}

#[test]
fn a_non_lock_value_is_an_error_only_on_a_majority() {
    assert!(wrong_type(2).is_ok());
    assert_eq!(Err(ErrorKind::WrongType), wrong_type(3));
}

#[test]
fn no_lock_is_overwritten_by_another_program() {
    let world = World::new(1);
    let client = world.client(0);
    world.run(&client, |me| Box::pin(async move { me.acquire_and_keep().await.unwrap() }));
    assert!(!world.servers[0].set_non_lock_value("a"));
    world.simulation.run_for(TTL);
    assert!(world.servers[0].set_non_lock_value("a"), "the lock has expired");
    world.servers[0].remove_non_lock_value("a");
    assert!(world.run(&client, |me| Box::pin(async move { me.acquire_and_keep().await })).is_ok());
}

/// Some of five servers hang. Returns the result of an attempt, and its duration.
fn hung(servers: usize) -> (Result<TokenNumber, ErrorKind>, Duration) {
    let world = World::new(5);
    let client = world.client(0);
    world.servers[..servers].iter().for_each(Server::hang);
    let before = world.simulation.now();
    let taken = world.run(&client, |me| Box::pin(async move { me.acquire_and_keep().await }));
    let took = world.simulation.now().saturating_duration_since(before);
    assert!(world.violations().is_empty(), "{:?}", world.violations());
    (taken, took)
}

#[test]
fn a_hung_minority_causes_no_delay_and_a_hung_majority_a_node_timeout() {
    let (taken, took) = hung(2);
    assert!(taken.is_ok() && took < 5 * MS, "{took:?}");
    let (taken, took) = hung(3);
    assert_eq!(Err(ErrorKind::NoQuorum), taken);
    assert_eq!(NODE_TIMEOUT, took);
}
