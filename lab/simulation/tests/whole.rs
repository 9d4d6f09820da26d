//! The whole stack: core, `redlock-wire` and its scripts, in simulated time. Bounded faults violate nothing.
//!
//! `scripts/simulate --whole` runs more seeds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redlock_core::Redlock;
use redlock_core::runtime::Runtime;
use redlock_server::{Release, Settings};
use redlock_simulation::experiment::{Experiment, Totals};
use redlock_simulation::history::EventKind;
use redlock_simulation::invariant::{Assumption, Invariant};
use redlock_simulation::network::{Direction, Network, Transport};
use redlock_simulation::plan::Faults;
use redlock_testkit::sim::{Clock, Simulation};

const TTL: Duration = Duration::from_secs(2);

fn bounded_faults(servers: usize) {
    let totals = Totals::without_defects(25, |seed| Experiment::new(seed).servers(servers).whole());
    assert!(totals.grants > 250 && totals.grants_of_several > 25, "{totals}");
    for fault in ["crash", "hang", "partition", "storm", "kill", "disconnect", "straggler", "read-only"] {
        assert!(totals.faults.get(fault).is_some_and(|count| *count > 5), "{fault}: {totals}");
    }
}

#[test]
fn bounded_faults_on_three_servers_violate_nothing() {
    bounded_faults(3);
}

#[test]
fn bounded_faults_on_four_servers_violate_nothing() {
    bounded_faults(4);
}

#[test]
fn bounded_faults_on_five_servers_violate_nothing() {
    bounded_faults(5);
}

#[test]
fn losses_of_data_violate_nothing_under_restart_admission() {
    let losses = |seed| Experiment::new(seed).servers(3).faults(Faults::Losses);
    let totals = Totals::without_defects(25, |seed| losses(seed).whole());
    assert!(totals.grants > 150 && totals.faults.get("flush").is_some_and(|count| *count > 5), "{totals}");
    let totals = Totals::without_defects(25, |seed| losses(seed).without_admission().whole());
    assert!(totals.violations_of(Invariant::Exclusion, Assumption::DataIsKept) > 0, "{totals}");
}

#[test]
fn clocks_that_jump_violate_nothing_under_restart_admission() {
    let clocks = |seed| Experiment::new(seed).servers(3).faults(Faults::Clocks);
    let totals = Totals::without_defects(25, |seed| clocks(seed).whole());
    assert!(
        totals.grants > 100 && totals.faults.get("clock step").is_some_and(|count| *count > 5),
        "{totals}"
    );
    let overlaps = |seed| {
        let totals = Totals::without_defects(1, |_| clocks(seed).without_admission().whole());
        totals.violations_of(Invariant::Exclusion, Assumption::ClocksAreNotSet) > 0
    };
    assert!((0..300).any(overlaps), "without it, clocks that jump break exclusion");
}

#[test]
fn fencing_tokens_stay_in_order_although_locks_overlap() {
    let totals =
        Totals::without_defects(25, |seed| Experiment::new(seed).servers(3).faults(Faults::Fencing).whole());
    assert!(totals.fenced_grants > 200 && totals.writes_rejected > 5, "{totals}");
    assert!(totals.violations_of(Invariant::Exclusion, Assumption::DataIsKept) > 0, "{totals}");
}

#[test]
fn readers_and_writers_exclude_each_other() {
    let (mut readers, mut grants) = (0, 0);
    for seed in 0..20 {
        let report = Experiment::new(seed).servers(3).clients(5).sharing().whole().run();
        assert!(report.defects().next().is_none(), "{report}");
        let reads = |kind: &EventKind| matches!(kind, EventKind::Reads { .. });
        readers += report.history.0.iter().filter(|event| reads(&event.kind)).count();
        grants += report.history.grants();
    }
    assert!(readers > 200 && grants - readers > 50, "{readers} readers of {grants}");
}

#[test]
fn no_client_acquires_a_kept_lock() {
    let totals = Totals::without_defects(20, |seed| Experiment::new(seed).servers(3).keeping().whole());
    assert!(totals.grants > 150, "{totals}");
}

#[test]
fn all_waiters_are_served() {
    let totals = Totals::without_defects(16, |seed| Experiment::new(seed).servers(3).waiting().whole());
    assert!(totals.grants > 500, "{totals}");
}

/// Such a server rejects the release of a claim on several resources. Its claims must not wait for that.
#[test]
fn cleanup_ends_on_a_server_without_scripts() {
    let simulation = Simulation::new(1);
    let network = Network::new(&simulation, Transport::Bytes);
    for number in 0..3 {
        let denied = if number == 0 { BTreeSet::from(["eval", "evalsha"]) } else { BTreeSet::new() };
        let settings = Settings { release: Release::Valkey9, denied, ..Settings::default() };
        network.server_of_commands(Clock::default(), settings);
    }
    let client = simulation.process("client");
    let nodes = network.nodes_on(0, &client.runtime());
    let redlock = Redlock::builder(client.clone()).nodes(nodes).build().unwrap();
    simulation.block_on(&client, {
        let redlock = redlock.clone();
        async move { drop(redlock.lock("a", TTL).await.unwrap()) }
    });
    // The connection to it is there, and breaks.
    simulation.run_for(Duration::from_millis(100));
    network.cut(0, 0, Direction::Replies);
    simulation.block_on(&client, {
        let redlock = redlock.clone();
        async move { drop(redlock.lock(["a", "b"], TTL).await.unwrap()) }
    });
    network.heal_all();
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    client.spawn(Box::pin(async move {
        redlock.close().await;
        end.store(true, Ordering::Relaxed);
    }));
    simulation.run_for(Duration::from_secs(30));
    assert!(ended.load(Ordering::Relaxed), "the cleanup has not ended:\n{}", network.recorder().history());
}

#[test]
fn the_printed_command_repeats_the_run() {
    let report = Experiment::new(7).servers(3).whole().run();
    assert_eq!("scripts/simulate --nodes 3 --clients 3 --whole --seed 7", report.replay());
}
