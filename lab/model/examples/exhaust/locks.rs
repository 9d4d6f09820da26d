//! The protocol of locks.

use redlock_model::{CATALOG, Protocol, Scope, Step, Transport};

use crate::table::{self, Case};

const fn scope(transport: Transport, attempts: [u8; 2], extensions: [u8; 2], faults: u8) -> Scope {
    Scope { transport, attempts, extensions, faults, quarantine: false }
}

/// The largest scopes that take only minutes.
const SCOPES: &[Scope] = &[
    scope(Transport::Streams, [1, 1], [0, 0], 2),
    scope(Transport::Streams, [2, 1], [0, 0], 0),
    scope(Transport::Streams, [1, 1], [1, 0], 1),
    scope(Transport::Streams, [1, 1], [1, 1], 0),
    scope(Transport::Streams, [1, 1], [2, 0], 1),
    scope(Transport::Datagrams, [1, 1], [0, 0], 1),
    scope(Transport::Datagrams, [1, 1], [1, 0], 1),
    Scope { quarantine: true, ..scope(Transport::Streams, [1, 1], [1, 0], 1) },
];

/// Returns true if all results are as expected.
pub(crate) fn explore(sound: bool, variants: bool, traces: bool) -> bool {
    let describe = |_: &Protocol, trace: &[Step]| trace.iter().map(ToString::to_string).collect();
    let mut as_expected = true;
    if sound {
        println!("The protocol: two clients, three nodes, every interleaving.\n");
        let scopes = SCOPES.iter().map(|scope| (scope.to_string(), Protocol::new(*scope)));
        as_expected &= table::nothing_is_violated("scope", scopes, describe);
    }
    if variants {
        println!("\nBroken variants, and the shortest trace to a violation.\n");
        let cases = CATALOG.iter().map(|broken| Case {
            name: format!("{:?}", broken.variant),
            does: broken.does,
            violates: broken.violates,
            scope: broken.scope.to_string(),
            model: Protocol::broken(broken.scope, broken.variant),
        });
        as_expected &= table::each_is_found(cases, traces, describe);
    }
    as_expected
}
