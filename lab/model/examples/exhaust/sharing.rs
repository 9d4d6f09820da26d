//! Readers and writers.

use redlock_model::share::{CATALOG, Role, Scope, Sharing, Step};

use crate::table::{self, Case};

const fn scope(roles: [Role; 3], extensions: [u8; 3], faults: u8) -> Scope {
    Scope { roles, extensions, faults }
}

const PAIR: [Role; 3] = [Role::Reader, Role::Writer, Role::Absent];

/// The largest scopes that take only minutes.
const SCOPES: &[Scope] = &[
    scope(PAIR, [0; 3], 2),
    scope(PAIR, [2, 0, 0], 0),
    scope(PAIR, [1, 1, 0], 0),
    scope(PAIR, [0, 1, 0], 1),
    scope([Role::Reader, Role::Reader, Role::Writer], [0; 3], 0),
];

/// Returns true if all results are as expected.
pub(crate) fn explore(sound: bool, variants: bool, traces: bool) -> bool {
    let describe = |_: &Sharing, trace: &[Step]| trace.iter().map(Step::to_string).collect::<Vec<_>>();
    let mut as_expected = true;
    if sound {
        println!("\nReaders and writers: every interleaving.\n");
        let scopes = SCOPES.iter().map(|scope| (scope.to_string(), Sharing::new(*scope)));
        as_expected &= table::nothing_is_violated("scope", scopes, describe);
    }
    if variants {
        println!("\nBroken variants of readers and writers, and the shortest trace to a violation.\n");
        let cases = CATALOG.iter().map(|broken| Case {
            name: format!("{:?}", broken.variant),
            does: broken.does,
            violates: broken.violates,
            scope: broken.scope.to_string(),
            model: Sharing::broken(broken.scope, broken.variant),
        });
        as_expected &= table::each_is_found(cases, traces, describe);
    }
    as_expected
}
