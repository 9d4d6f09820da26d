//! What is particular to a run about waiting: what servers tell of changes, for how long, and what may be expected then.

use std::time::Duration;

use crate::invariant::Expectations;
use crate::sim::{Keeps, Server, Simulation, Tidings};

/// For so long the clients contend when nothing goes wrong any more but that minorities are gone for a moment.
const MINUTE: Duration = Duration::from_secs(60);

/// When a server tells nothing, who waits for it tries after so long (core's safety poll).
const SAFETY: Duration = Duration::from_secs(5);

/// Long enough for a lost connection to be noticed, a delay between two attempts, and a collision or two.
const SOON: Duration = Duration::from_millis(1_500);

/// What all of the last faults have left behind is over by then.
const SETTLED_AFTER: Duration = Duration::from_secs(25);

const LATE_BY: Duration = Duration::from_millis(300);

/// Four kinds of servers: such that tell everything, hardly anything, everything in vain, or most of it and late.
pub(super) fn tidings(seed: u64) -> Tidings {
    let all = Tidings::default();
    match seed % 4 {
        0 => all,
        1 => Tidings { lost: 600, ..all },
        2 => Tidings { spurious: 1_000, ..all },
        _ => Tidings { lost: 30, spurious: 30, late: 300, late_by: LATE_BY },
    }
}

pub(super) fn expectations(seed: u64) -> Expectations {
    let tidings = tidings(seed);
    let woken_within = if tidings.lost == 0 { SOON } else { SAFETY + SOON };
    // Who is told of hardly anything has to be lucky: others try at the right moment.
    let served_within = if tidings.lost > 500 { MINUTE } else { MINUTE / 2 };
    Expectations { settled_after: SETTLED_AFTER, woken_within, served_within, blind: tidings.spurious > 0 }
}

/// Where little is told, keys outlive the time after which who waits tries all the same.
pub(super) fn longest_ttl(seed: u64) -> Duration {
    if tidings(seed).lost > 500 { 2 * SAFETY + SAFETY / 2 } else { super::LONGEST_TTL }
}

/// Lets the clients go on, while minorities of the servers are gone for a moment, one after the other.
pub(super) fn contend(simulation: &Simulation, servers: &[Server]) {
    simulation.run_for(SETTLED_AFTER);
    let minority = (servers.len() - 1) / 2;
    let (mut gone, over) = (0, simulation.now() + MINUTE);
    while simulation.now() < over {
        let away = || (0..minority).map(|turn| &servers[(gone + turn) % servers.len()]);
        away().for_each(|server| server.crash(Keeps::All));
        simulation.run_for(Duration::from_secs(2));
        away().for_each(Server::restart);
        simulation.run_for(Duration::from_secs(1));
        gone += minority;
    }
}
