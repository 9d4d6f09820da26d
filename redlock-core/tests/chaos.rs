//! Random operations under random faults, with the invariants checked throughout.
//!
//! Each seed is a world of its own: a few [clients](world::client), each behind a [network](world::network) of its own, lock the same
//! resources on the same nodes, give up wherever they like, and are stopped now and then. No node loses data and no clock
//! runs wrong. So at any moment at most one lease of a resource is valid and a quorum has its keys for longer than it is
//! ([`world`]); nobody waits for longer than for one node, and nobody is told that a lock is lost while it is not
//! ([`client`]); and when the faults have ended, a lock can be had, and nothing is left behind: no key and no task.
//!
//! `REDLOCK_SEEDS=10000` tries more seeds, `REDLOCK_SEED=7` replays one.
#![allow(clippy::unwrap_used)] // a panic fails the test

mod common;
mod world;

use std::sync::Arc;
use std::time::Duration;

use redlock_core::runtime::Runtime;
use redlock_testkit::MemoryNode;
use redlock_testkit::sim::{Process, Simulation};

use crate::world::client::Client;
use crate::world::{Score, World};

/// The number of seeds of a normal run.
const SEEDS: u64 = 300;

/// The time during which operations and faults begin.
const STORM: Duration = Duration::from_millis(500);

/// The time after the storm within which all operations end and their cleanup completes.
const CALM: Duration = Duration::from_secs(2);

#[test]
fn invariants_hold_under_random_operations_and_faults() {
    let variable = |name| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let seeds = match variable("REDLOCK_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..variable("REDLOCK_SEEDS").unwrap_or(SEEDS),
    };
    let (mut tried, mut total) = (0, Score::default());
    for seed in seeds {
        let replay = Replay(seed);
        let score = run(seed);
        drop(replay);
        tried += 1;
        total.granted += score.granted;
        total.extended += score.extended;
    }
    // A run without locks cannot violate mutual exclusion.
    assert!(tried < 100 || (total.granted > 9 * tried && total.extended > 5 * tried), "{total:?} in {tried}");
}

/// Prints the command that replays a failed seed.
struct Replay(u64);

impl Drop for Replay {
    #[allow(clippy::print_stderr)] // the output of a failed test
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay: REDLOCK_SEED={} cargo test -p redlock-core --test chaos", self.0);
        }
    }
}

fn run(seed: u64) -> Score {
    let simulation = Simulation::new(seed).max_polls(1_000_000);
    let world = Arc::new(World::new(simulation.process("outside")));
    let client = |number| Client::new(&world, simulation.process(&format!("client-{number}")));
    let clients: Vec<_> = (0..2 + die(&world.outside, 2)).map(client).collect();
    let processes: Vec<_> = clients.iter().map(|client| client.process.clone()).collect();

    clients.iter().for_each(Client::start);
    world.outside.spawn(Box::pin(world.clone().watch()));
    simulation.run_for(STORM + CALM);
    for process in &processes {
        assert_eq!(0, process.tasks(), "{process:?}: a task is still running after the faults");
    }

    let score = world.forget();
    let recovery = async move {
        for client in clients {
            client.recover().await;
        }
    };
    simulation.block_on(&world.outside, recovery);
    // Clients that were not closed get time for their cleanup.
    simulation.run_for(CALM);
    for process in &processes {
        assert_eq!(0, process.tasks(), "{process:?}: a task outlives the last handle");
    }
    assert!(world.nodes.iter().all(MemoryNode::is_empty), "keys are left: {:?}", world.nodes);
    score
}

/// Returns a number below `sides` that depends on the seed.
fn die(process: &Process, sides: usize) -> usize {
    let mut bytes = [0; size_of::<usize>()];
    process.fill_random(&mut bytes);
    usize::from_le_bytes(bytes) % sides
}

/// Returns a number of milliseconds below `sides` that depends on the seed.
fn millis(process: &Process, sides: usize) -> Duration {
    Duration::from_millis(die(process, sides) as u64)
}
