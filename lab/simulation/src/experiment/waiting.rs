//! Runs about waiting: the notifications of servers, the phases, and the expectations.

use std::time::Duration;

use redlock_testkit::sim::Simulation;

use crate::invariant::Expectations;
use crate::network::Notifications;
use crate::server::{Persistence, Server};

/// The time for which clients contend after the last fault.
///
/// Minorities are briefly down meanwhile.
const MINUTE: Duration = Duration::from_secs(60);

/// The interval of waiters' polls without notifications (the core's safety poll).
const SAFETY: Duration = Duration::from_secs(5);

/// The time limit for waiters with notifications.
///
/// It covers the detection of a lost connection, a delay between two attempts, and a collision or two.
const SOON: Duration = Duration::from_millis(1_500);

/// The time after which the last faults have no effect any more.
const SETTLED_AFTER: Duration = Duration::from_secs(25);

const LATE_BY: Duration = Duration::from_millis(300);

/// Returns the notifications of a run.
///
/// There are four kinds of servers. They notify of all changes, of hardly any, without a cause, or of most changes late.
pub(super) fn notifications(seed: u64) -> Notifications {
    let all = Notifications::default();
    match seed % 4 {
        0 => all,
        1 => Notifications { lost: 600, ..all },
        2 => Notifications { spurious: 1_000, ..all },
        _ => Notifications { lost: 30, spurious: 30, late: 300, late_by: LATE_BY },
    }
}

pub(super) fn expectations(seed: u64) -> Expectations {
    let notifications = notifications(seed);
    let woken_within = if notifications.lost == 0 { SOON } else { SAFETY + SOON };
    // Waiters of different processes have no order, so the longest of all waits depends on chance: 29 s and 31 s in two
    // sets of 240 runs with notifications. With hardly any, a waiter succeeds only if it polls before the others.
    let served_within = if notifications.lost > 500 { MINUTE } else { MINUTE * 2 / 3 };
    Expectations {
        settled_after: SETTLED_AFTER,
        woken_within,
        served_within,
        blind: notifications.spurious > 0,
    }
}

/// Returns the longest TTL.
///
/// With few notifications, keys outlive the interval after which waiters poll anyway.
pub(super) fn longest_ttl(seed: u64) -> Duration {
    if notifications(seed).lost > 500 { 2 * SAFETY + SAFETY / 2 } else { super::LONGEST_TTL }
}

/// Lets the clients contend, while minorities of servers are briefly down in turn.
pub(super) fn contend(simulation: &Simulation, servers: &[Server]) {
    simulation.run_for(SETTLED_AFTER);
    let minority = (servers.len() - 1) / 2;
    let (mut gone, over) = (0, simulation.now() + MINUTE);
    while simulation.now() < over {
        let away = || (0..minority).map(|turn| &servers[(gone + turn) % servers.len()]);
        away().for_each(|server| server.crash(Persistence::All));
        simulation.run_for(Duration::from_secs(2));
        away().for_each(Server::restart);
        simulation.run_for(Duration::from_secs(1));
        gone += minority;
    }
}
