//! Waiting with the real core, on servers that notify of all changes, of hardly any, without a cause, or late.

use std::time::Duration;

use redlock_core::Redlock;
use redlock_core::runtime::Runtime;
use redlock_simulation::experiment::Experiment;
use redlock_simulation::history::EventKind;
use redlock_simulation::network::{Network, Notifications, Transport};
use redlock_simulation::plan::Faults;
use redlock_testkit::Operation;
use redlock_testkit::sim::{Process, Simulation};

const TTL: Duration = Duration::from_secs(10);

fn waiting(servers: usize, faults: Faults, seeds: u64) {
    let (mut grants, mut watches) = (0, 0);
    for seed in 0..seeds {
        let report = Experiment::new(seed).servers(servers).faults(faults).waiting().run();
        assert!(report.defects().next().is_none(), "{report}");
        grants += report.history.grants();
        let is_watch = |kind: &EventKind| matches!(kind, EventKind::Sent(request) if request.operation == Operation::Watch);
        watches += report.history.0.iter().filter(|event| is_watch(&event.kind)).count();
    }
    assert!(
        grants > 100 * usize::try_from(seeds).unwrap_or(1) && watches > grants,
        "{grants} locks, {watches} watches"
    );
}

#[test]
fn three_servers_serve_all_waiters() {
    waiting(3, Faults::Bounded, 40);
}

#[test]
fn five_servers_serve_all_waiters() {
    waiting(5, Faults::Bounded, 40);
}

#[test]
fn servers_that_lose_data_serve_all_waiters() {
    waiting(3, Faults::Losses, 64);
}

/// The holder releases at any moment from before the request of the waiter until after the beginning of its sleep, in steps
/// of 50 us. Every message takes up to 2 ms.
#[test]
fn a_release_at_any_moment_around_the_sleep_notifies_the_waiter() {
    for transport in [Transport::Streams, Transport::Datagrams] {
        for step in 0..240 {
            let simulation = Simulation::new(step);
            let network = Network::new(&simulation, transport);
            network.set_notifications(Notifications::default());
            let servers = network.servers(3);
            let (holds, waits) = (simulation.process("holder"), simulation.process("waiter"));
            let redlock = |process: &Process, client| {
                Redlock::builder(process.clone()).nodes(network.nodes(client)).build().expect("labels differ")
            };
            let (holder, waiter) = (redlock(&holds, 0), redlock(&waits, 1));
            let guard = simulation.block_on(&holds, async move { holder.lock("a", TTL).await });
            let guard = guard.expect("there is no contention");
            simulation.run_for(Duration::from_millis(10));
            assert!(servers.iter().all(|server| server.len() == 1));
            let at = Duration::from_micros(50 * step);
            let timer = holds.clone();
            holds.spawn(Box::pin(async move {
                timer.sleep(at).await;
                drop(guard.release().await);
            }));
            let begun = simulation.now();
            let guard = simulation.block_on(&waits, async move { waiter.lock("a", TTL).max_wait(TTL).await });
            let took = simulation.now().saturating_duration_since(begun + at);
            assert!(
                guard.is_ok() && took < Duration::from_millis(30),
                "{transport:?}, {at:?}: {took:?} later"
            );
        }
    }
}
