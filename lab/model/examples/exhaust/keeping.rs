//! Locks that are kept for a time.

use redlock_model::keep::{CATALOG, Keeping, Scope, Step};

use crate::table::{self, Case};

const fn scope(extensions: u8, faults: u8) -> Scope {
    Scope { extensions, faults }
}

/// The largest scopes that take only minutes.
const SCOPES: &[Scope] =
    &[scope(0, 0), scope(0, 1), scope(0, 2), scope(1, 0), scope(1, 1), scope(1, 2), scope(2, 0), scope(2, 1)];

/// Returns true if all results are as expected.
pub(crate) fn explore(sound: bool, variants: bool, traces: bool) -> bool {
    let describe = |_: &Keeping, trace: &[Step]| trace.iter().map(Step::to_string).collect::<Vec<_>>();
    let mut as_expected = true;
    if sound {
        println!("\nLocks that are kept: every interleaving.\n");
        let scopes = SCOPES.iter().map(|scope| (scope.to_string(), Keeping::new(*scope)));
        as_expected &= table::nothing_is_violated("scope", scopes, describe);
    }
    if variants {
        println!("\nBroken variants of locks that are kept, and the shortest trace to a violation.\n");
        let cases = CATALOG.iter().map(|broken| Case {
            name: format!("{:?}", broken.variant),
            does: broken.does,
            violates: broken.violates,
            scope: broken.scope.to_string(),
            model: Keeping::broken(broken.scope, broken.variant),
        });
        as_expected &= table::each_is_found(cases, traces, describe);
    }
    as_expected
}
