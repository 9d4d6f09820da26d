//! Slots and leadership with the real core, while servers and clients fail within the assumptions of a lock.
//!
//! Holders record their actions while their lease is valid. The tests check the record in true time. There are never more
//! than K holders of slots, and never two leaders. There is a new leader within the TTL and two seconds, or three if the
//! candidates poll.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlock_core::runtime::{BoxFuture, Instant, Runtime};
use redlock_core::{KeepAlive, Lease, Redlock};
use redlock_simulation::network::{Direction, Network, Notifications, Traffic, Transport};
use redlock_simulation::server::{Persistence, Server};
use redlock_testkit::sim::{Clock, Process, Simulation};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(2);
const SERVERS: usize = 5;
const CLIENTS: usize = 5;
const SLOTS: usize = 3;
const SEEDS: u64 = 15;

/// The actions of holders: the true time, the place (a slot, or 0 for the leader), and the number of the lease.
type Record = Arc<Mutex<Vec<(Instant, usize, u64)>>>;

/// Servers, a network and clients, with faults from a seed.
struct World {
    simulation: Simulation,
    network: Network,
    servers: Vec<Server>,
    chance: fastrand::Rng,
    record: Record,
    program: Program,
    clients: Vec<Process>,
    /// True if the servers notify waiters.
    notifies: bool,
}

/// The program of a client. It receives a recorder of its actions.
type Program = fn(Redlock, Witness) -> BoxFuture<()>;

/// The end of a client's record.
#[derive(Clone)]
struct Witness {
    process: Process,
    network: Network,
    record: Record,
}

impl Witness {
    /// Acts until the lease is lost, or until a time has passed. No time passes during an action.
    async fn act(&self, place: usize, is_held: impl Fn() -> bool, lease: u64, lasts: Duration) {
        let end = self.process.now() + lasts;
        while is_held() && self.process.now() < end {
            self.record.lock().unwrap().push((self.network.now(), place, lease));
            self.process.sleep(5 * MS).await;
        }
    }
}

impl World {
    fn new(seed: u64, program: Program) -> Self {
        let simulation = Simulation::new(seed);
        let mut chance = fastrand::Rng::with_seed(seed);
        let transport = if chance.bool() { Transport::Streams } else { Transport::Datagrams };
        let network = Network::new(&simulation, transport);
        let notifies = chance.bool();
        if notifies {
            network.set_notifications(Notifications::default());
        }
        let servers = (0..SERVERS).map(|_| network.server(clock(&mut chance))).collect();
        let traffic =
            Traffic { lost: chance.u32(..10), late: chance.u32(..10), late_by: SECOND, ..Traffic::default() };
        network.set_traffic(Direction::Requests, traffic);
        network.set_traffic(Direction::Replies, traffic);
        let clients = (0..CLIENTS)
            .map(|number| simulation.process_with_clock(&format!("c{number}"), clock(&mut chance)));
        let clients = clients.collect();
        let record = Record::default();
        let world = Self { simulation, network, servers, chance, record, program, clients, notifies };
        (0..CLIENTS).for_each(|number| world.start(number));
        world
    }

    fn start(&self, number: usize) {
        let process = self.clients[number].clone();
        let redlock = Redlock::builder(process.clone()).nodes(self.network.nodes(number)).build().unwrap();
        let (network, record) = (self.network.clone(), Arc::clone(&self.record));
        process.spawn((self.program)(redlock, Witness { process: process.clone(), network, record }));
    }

    /// Causes one fault after another. No server loses data, and no clock is set.
    fn cause_faults(&mut self, count: usize) {
        for _ in 0..count {
            let (a_while, number) = (MS * self.chance.u32(50..6_000), self.chance.usize(..CLIENTS));
            match self.chance.u32(..5) {
                0 => {
                    self.clients[number].pause();
                    self.simulation.run_for(a_while);
                    self.clients[number].resume();
                }
                1 => {
                    self.clients[number].suspend();
                    self.simulation.run_for(a_while);
                    self.clients[number].resume();
                }
                2 => {
                    self.clients[number].kill();
                    self.simulation.run_for(a_while);
                    self.clients[number] = self.clients[number].restart();
                    self.start(number);
                }
                3 => self.fail_servers(2, a_while),
                _ => self.fail_servers(3, a_while),
            }
            self.simulation.run_for(MS * self.chance.u32(..2_000));
        }
    }

    /// Makes servers fail, each by a crash without loss of data or by a stop.
    fn fail_servers(&mut self, count: usize, lasts: Duration) {
        let first = self.chance.usize(..SERVERS);
        let away: Vec<_> = (0..count).map(|turn| self.servers[(first + turn) % SERVERS].clone()).collect();
        let crashes = self.chance.bool();
        for server in &away {
            if crashes {
                server.crash(Persistence::All);
            } else {
                server.hang();
            }
        }
        self.simulation.run_for(lasts);
        for server in &away {
            if crashes {
                server.restart();
            } else {
                server.resume();
            }
        }
    }

    /// Returns the record, ordered by time.
    fn record(&self) -> Vec<(Instant, usize, u64)> {
        let mut record = self.record.lock().unwrap().clone();
        record.sort_unstable_by_key(|(time, ..)| *time);
        record
    }
}

fn clock(chance: &mut fastrand::Rng) -> Clock {
    Clock { offset: MS * chance.u32(..100_000), drift_ppm: chance.i32(-4_900..=4_900) }
}

/// Returns a unique number of a lease, for the record.
fn number(process: &Process) -> u64 {
    let mut bytes = [0; 8];
    process.fill_random(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Returns the greatest number of leases that were active at once. A lease is active from its first to its last action.
fn most_at_once(record: &[(Instant, usize, u64)]) -> usize {
    let mut edges = Vec::new();
    let mut leases: Vec<u64> = record.iter().map(|(.., lease)| *lease).collect();
    leases.sort_unstable();
    leases.dedup();
    for lease in leases {
        let mut times = record.iter().filter(|(.., other)| *other == lease).map(|(time, ..)| *time);
        let first = times.next().unwrap();
        edges.push((first, 0, 1_isize));
        edges.push((times.next_back().unwrap_or(first), 1, -1));
    }
    edges.sort_unstable();
    let mut active = 0;
    let counts = edges.iter().map(|(.., edge)| {
        active += edge;
        active
    });
    usize::try_from(counts.max().unwrap_or(0)).unwrap()
}

/// Acquires slots repeatedly, and holds them for a while with keep-alive.
fn holds_slots(redlock: Redlock, witness: Witness) -> BoxFuture<()> {
    Box::pin(async move {
        let slots = redlock.slots("s", SLOTS).unwrap();
        loop {
            let request = slots.acquire(TTL).keep_alive(KeepAlive::new()).wait_unbounded();
            if let Ok(guard) = request.await {
                let number = number(&witness.process);
                let lasts = MS * u32::try_from(number % 4_000).unwrap();
                witness.act(guard.index(), || guard.is_held(), number, lasts).await;
                drop(guard.release().await);
            }
        }
    })
}

#[test]
fn slots_never_have_more_holders_than_one_each() {
    let mut fullest = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed, holds_slots);
        world.cause_faults(12);
        let record = world.record();
        let most = most_at_once(&record);
        assert!(most <= SLOTS, "seed {seed}: {most} holders");
        fullest = fullest.max(most);
        for slot in 0..SLOTS {
            let of_slot: Vec<_> = record.iter().filter(|(_, place, _)| *place == slot).copied().collect();
            assert!(!of_slot.is_empty() && most_at_once(&of_slot) == 1, "seed {seed}: slot {slot}");
        }
    }
    assert_eq!(SLOTS, fullest, "all slots were in use at once");
}

/// Leads until it is killed, and sometimes resigns.
fn leads(redlock: Redlock, witness: Witness) -> BoxFuture<()> {
    Box::pin(async move {
        let there = witness.clone();
        let work = |lease: Lease| {
            let (witness, number) = (there.clone(), number(&there.process));
            async move {
                witness
                    .act(0, || lease.is_held(), number, MS * u32::try_from(number % 20_000).unwrap())
                    .await;
                ControlFlow::<()>::Continue(())
            }
        };
        drop(redlock.lock("leader", TTL).lead().run(work).await);
    })
}

#[test]
fn there_are_never_two_leaders() {
    let mut leases = Vec::new();
    for seed in 0..SEEDS {
        let mut world = World::new(seed, leads);
        world.cause_faults(12);
        let record = world.record();
        assert_eq!(1, most_at_once(&record), "seed {seed}");
        leases.extend(record.iter().map(|(.., lease)| *lease));
    }
    leases.sort_unstable();
    leases.dedup();
    assert!(leases.len() > 60, "{} terms", leases.len());
}

/// A quorum of servers and two candidates stay healthy. All others fail together. They fail again only when there is a
/// leader, because a candidate that dies during its acquisition leaves keys for another TTL.
///
/// The keys of a dead leader expire with the TTL. Then candidates may split the votes, or meet votes whose release is
/// repeated, and one of them may be in a pause after a failure. Each candidate that has died in the last 12 s delays the
/// others by its reservation: 0.2 s, or about half a second for candidates that poll.
#[test]
fn there_is_a_new_leader_soon_after_the_ttl() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, leads);
        let limit = TTL + if world.notifies { 2 * SECOND } else { 3 * SECOND };
        world.network.set_traffic(Direction::Requests, Traffic::default());
        world.network.set_traffic(Direction::Replies, Traffic::default());
        world.simulation.run_for(TTL);
        for _ in 0..12 {
            let away = world.chance.usize(..CLIENTS);
            let lasts = MS * world.chance.u32(50..6_000);
            let victims = (0..3).map(|turn| (away + turn) % CLIENTS);
            if world.chance.bool() {
                victims.clone().for_each(|number| world.clients[number].pause());
                world.fail_servers(2, lasts);
                victims.for_each(|number| world.clients[number].resume());
            } else {
                victims.clone().for_each(|number| world.clients[number].kill());
                world.fail_servers(2, lasts);
                for number in victims {
                    world.clients[number] = world.clients[number].restart();
                    world.start(number);
                }
            }
            world.simulation.run_for(limit);
        }
        let times: Vec<_> = world.record().iter().map(|(time, ..)| *time).collect();
        let gaps = times.windows(2).map(|pair| pair[1].saturating_duration_since(pair[0]));
        let longest = gaps.max().unwrap();
        assert!(longest <= limit, "seed {seed}: {longest:?} without a leader");
        let until_end = world.simulation.now().saturating_duration_since(*times.last().unwrap());
        assert!(until_end <= limit, "seed {seed}: {until_end:?} without a leader at the end");
    }
}
