//! Simulated servers and networks, with the real core as their client.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::sync::Arc;
use std::time::Duration;

use redlock_core::node::{Claim, LockNode, NodeErrorKind, Reply, Request, Token, Ttl};
use redlock_core::runtime::Runtime;
use redlock_core::{ErrorKind, IntoResources, Redlock};
use redlock_simulation::history::EventKind;
use redlock_simulation::network::{Direction, Network, Traffic, Transport};
use redlock_simulation::server::{Persistence, Server};
use redlock_testkit::holder;
use redlock_testkit::sim::{Clock, Process, Simulation};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

struct World {
    simulation: Simulation,
    network: Network,
    servers: Vec<Server>,
    client: Process,
}

fn world(seed: u64, servers: usize, transport: Transport) -> World {
    let simulation = Simulation::new(seed);
    let network = Network::new(&simulation, transport);
    let servers = network.servers(servers);
    let client = simulation.process("client");
    World { simulation, network, servers, client }
}

impl World {
    fn node(&self, server: usize) -> Arc<dyn LockNode> {
        self.network.nodes(0)[server].clone()
    }

    fn redlock(&self) -> Redlock {
        Redlock::builder(self.client.clone()).nodes(self.network.nodes(0)).build().unwrap()
    }

    /// Runs work of the client to completion.
    fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.simulation.block_on(&self.client, work)
    }
}

fn claim(token: &str) -> Claim {
    Claim::new("a".into_resources().unwrap(), Token::from_bytes(token))
}

fn ttl(duration: Duration) -> Ttl {
    Ttl::new(duration).unwrap()
}

#[test]
fn servers_grant_deny_and_expire() {
    let world = world(1, 1, Transport::Streams);
    let (node, me) = (world.node(0), world.client.clone());
    world.run(async move {
        assert!(node.call(Request::Acquire(claim("x"), ttl(SECOND))).await.unwrap().is_grant());
        assert!(matches!(node.call(Request::Acquire(claim("y"), ttl(SECOND))).await, Ok(Reply::Denied(_))));
        me.sleep(SECOND).await;
        assert!(node.call(Request::Acquire(claim("y"), ttl(SECOND))).await.unwrap().is_grant());
        let released = node.call(Request::Release(claim("y"))).await;
        assert!(matches!(released, Ok(Reply::Deleted(true))));
    });
    assert!(world.servers[0].is_empty());
}

#[test]
fn read_only_servers_reply_to_inspections() {
    let world = world(1, 1, Transport::Streams);
    let (node, server) = (world.node(0), world.servers[0].clone());
    world.run(async move {
        let resource = &claim("x").resources()[0].clone();
        let inspect = async || holder(node.call(Request::Inspect(resource.clone())).await.unwrap());
        assert_eq!(None, inspect().await);
        node.call(Request::Acquire(claim("x"), ttl(SECOND))).await.unwrap();
        server.read_only(true);
        let found = inspect().await.unwrap();
        assert_eq!(Token::from_bytes("x"), found.token);
        assert!(found.remaining.is_some_and(|left| SECOND / 2 < left && left <= SECOND), "{found:?}");
    });
    assert_eq!(1, world.servers[0].len());
}

#[test]
fn a_stopped_server_carries_out_its_requests_when_it_resumes() {
    let world = world(1, 1, Transport::Streams);
    let (node, me, server) = (world.node(0), world.client.clone(), world.servers[0].clone());
    server.hang();
    world.client.spawn(Box::pin(async move {
        drop(node.call(Request::Acquire(claim("x"), ttl(SECOND))).await);
    }));
    world.simulation.run_for(5 * SECOND);
    assert!(server.is_empty());
    server.resume();
    assert_eq!(1, server.len(), "with its full TTL, long after");
    world.run(async move { me.sleep(SECOND).await });
    assert!(server.is_empty());
}

#[test]
fn a_crash_loses_the_data_that_is_not_persistent() {
    for (persistence, left) in [(Persistence::All, 4), (Persistence::Part, 2), (Persistence::Nothing, 0)] {
        let world = world(1, 1, Transport::Streams);
        let (node, server) = (world.node(0), world.servers[0].clone());
        world.run(async move {
            for name in ["a", "b", "c", "d"] {
                let claim = Claim::new(name.into_resources().unwrap(), Token::from_bytes(name));
                node.call(Request::Acquire(claim.clone(), ttl(SECOND))).await.unwrap();
            }
        });
        server.crash(persistence);
        let node = world.node(0);
        let error = world.run(async move { node.call(Request::Release(claim("a"))).await.unwrap_err() });
        assert_eq!(NodeErrorKind::Unavailable, error.kind());
        server.restart();
        assert_eq!(left, server.len());
    }
}

#[test]
fn full_and_read_only_servers_reject() {
    let world = world(1, 1, Transport::Streams);
    let (node, server) = (world.node(0), world.servers[0].clone());
    world.run(async move {
        node.call(Request::Acquire(claim("x"), ttl(SECOND))).await.unwrap();
        server.out_of_memory(true);
        let error = node.call(Request::Acquire(claim("y"), ttl(SECOND))).await.unwrap_err();
        assert_eq!(NodeErrorKind::Rejected, error.kind());
        assert!(node.call(Request::Extend(claim("x"), ttl(SECOND))).await.unwrap().is_grant());
        server.out_of_memory(false);
        server.read_only(true);
        assert_eq!(
            NodeErrorKind::Rejected,
            node.call(Request::Release(claim("x"))).await.unwrap_err().kind()
        );
        server.read_only(false);
        server.flush();
        let released = node.call(Request::Release(claim("x"))).await;
        assert!(matches!(released, Ok(Reply::Deleted(false))));
    });
}

#[test]
fn a_request_in_a_partition_gets_no_reply_and_later_ones_are_not_sent() {
    let world = world(1, 1, Transport::Streams);
    let (node, me, network) = (world.node(0), world.client.clone(), world.network.clone());
    let kinds = world.run(async move {
        network.cut(0, 0, Direction::Requests);
        let first = node.call(Request::Acquire(claim("x"), ttl(SECOND))).await.unwrap_err().kind();
        let second = node.call(Request::Acquire(claim("x"), ttl(SECOND))).await.unwrap_err().kind();
        assert_eq!(None, node.status().connection);
        network.heal(0, 0);
        me.sleep(SECOND).await;
        node.call(Request::Acquire(claim("x"), ttl(SECOND))).await.unwrap();
        (first, second)
    });
    assert_eq!((NodeErrorKind::Unknown, NodeErrorKind::Unavailable), kinds);
}

#[test]
fn a_lost_reply_leaves_a_key_and_breaks_the_connection() {
    let world = world(1, 1, Transport::Streams);
    let (node, network) = (world.node(0), world.network.clone());
    world.run(async move {
        let before = node.status().connection;
        network.set_traffic(Direction::Replies, Traffic { lost: 1000, ..Traffic::default() });
        let error = node.call(Request::Acquire(claim("x"), ttl(SECOND))).await.unwrap_err();
        assert_eq!(NodeErrorKind::Unknown, error.kind());
        assert_ne!(before, node.status().connection);
    });
    assert_eq!(1, world.servers[0].len());
}

/// Returns the order in which a server carries out ten requests that were sent one after the other.
fn order(transport: Transport) -> Vec<u32> {
    let world = world(1, 1, transport);
    let slow = Traffic { twice: 300, ..Traffic::default() };
    world.network.set_traffic(Direction::Requests, slow);
    let node = world.node(0);
    for number in 0..10 {
        let (node, me) = (node.clone(), world.client.clone());
        world.client.spawn(Box::pin(async move {
            me.sleep(number * Duration::from_micros(10)).await;
            node.call(Request::Release(claim(&number.to_string()))).await.unwrap();
        }));
    }
    world.simulation.run_for(SECOND);
    let history = world.network.recorder().history();
    let carried = history.0.iter().filter_map(|event| match &event.kind {
        EventKind::CarriedOut { request, .. } => Some(request.token.0),
        _ => None,
    });
    carried.collect()
}

#[test]
fn streams_keep_the_order_and_datagrams_do_not() {
    assert_eq!((0..10).collect::<Vec<_>>(), order(Transport::Streams));
    let datagrams = order(Transport::Datagrams);
    assert!(datagrams.len() > 10, "some requests arrive twice");
    assert!(!datagrams.is_sorted());
}

#[test]
fn clocks_of_servers_differ_and_are_set() {
    let simulation = Simulation::new(1);
    let network = Network::new(&simulation, Transport::Streams);
    let server = network.server(Clock { drift_ppm: 100_000, ..Clock::default() });
    let client = simulation.process("client");
    let node = network.nodes(0)[0].clone();
    simulation.block_on(&client, async move {
        node.call(Request::Acquire(claim("x"), ttl(11 * SECOND))).await.unwrap();
    });
    simulation.run_for(9 * SECOND);
    assert_eq!(1, server.len());
    server.step_clock(-1_000);
    simulation.run_for(SECOND + 5 * MS);
    assert_eq!(1, server.len(), "10 s have passed, 11 s of a fast clock, less one");
    server.step_clock(1_000);
    assert_eq!(0, server.len());
}

#[test]
fn the_real_core_locks_over_the_network_and_the_history_records_it() {
    let world = world(3, 3, Transport::Streams);
    world.servers[0].hang();
    let (redlock, me) = (world.redlock(), world.client.clone());
    world.run(async move {
        let guard = redlock.lock("a", SECOND).await.unwrap();
        assert!(guard.is_held());
        guard.extend(SECOND).await.unwrap();
        guard.release().await.unwrap();
        me.sleep(SECOND).await;
    });
    world.servers[1].hang();
    let redlock = world.redlock();
    let error = world.run(async move { redlock.lock("a", SECOND).await.unwrap_err() });
    assert_eq!(ErrorKind::NoQuorum, error.kind());
    let text = world.network.recorder().history().to_string();
    assert!(text.contains("c0-n1 Acquire #0 (2) is carried out: granted until"), "{text}");
    assert!(text.contains("n0 ! hang"), "{text}");
}

/// Returns the counter of the next fenced claim.
fn counts(world: &World, token: &str) -> u64 {
    let (node, claim) = (world.node(0), claim(token));
    world.run(async move {
        let Reply::Counted(counter) =
            node.call(Request::AcquireFenced(claim.clone(), ttl(SECOND))).await.unwrap()
        else {
            panic!("{claim:?} is not granted");
        };
        node.call(Request::Release(claim.clone())).await.unwrap();
        counter.as_u64()
    })
}

#[test]
fn counters_are_lost_with_all_data_or_alone() {
    fn crash(server: &Server, persistence: Persistence) {
        server.crash(persistence);
        server.restart();
    }
    type Loss = (&'static str, fn(&Server), bool);
    let losses: [Loss; 6] = [
        ("part", |server| crash(server, Persistence::Part), false),
        ("counters", |server| crash(server, Persistence::Counters), false),
        ("nothing", |server| crash(server, Persistence::Nothing), true),
        ("evicted", Server::evict, false),
        ("forgot", Server::forget, true),
        ("flushed", Server::flush, true),
    ];
    for (name, lose, forgets) in losses {
        let world = world(1, 1, Transport::Streams);
        let (server, first) = (&world.servers[0], counts(&world, "x"));
        lose(server);
        let second = counts(&world, "y");
        assert_eq!(
            first + u64::from(!forgets),
            second,
            "{name}: the counter begins again at the same step of the clock"
        );
        let recorded = world.network.recorder().history();
        let recorded = recorded.faults().iter().any(|(fault, _)| *fault == "lost counters");
        assert_eq!(forgets, recorded, "{name}");
        server.count_from_one();
        server.forget();
        assert_eq!(1, counts(&world, "z"), "{name}");
    }
}
