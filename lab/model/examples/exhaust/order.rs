//! The order of waiters.

use redlock_model::order::{CATALOG, SCOPES, Step, Turns};

use crate::table::{self, Case};

/// Returns true if all results are as expected.
pub(crate) fn explore(sound: bool, variants: bool, traces: bool) -> bool {
    let describe = |_: &Turns, trace: &[Step]| trace.iter().map(Step::to_string).collect::<Vec<_>>();
    let mut as_expected = true;
    if sound {
        println!("\nThe order of waiters: every interleaving.\n");
        let scopes = SCOPES.iter().map(|scope| (scope.to_string(), Turns::new(*scope)));
        as_expected &= table::nothing_is_violated("scope", scopes, describe);
    }
    if variants {
        println!("\nBroken variants of the order of waiters, and the shortest trace to a violation.\n");
        let cases = CATALOG.iter().map(|broken| Case {
            name: format!("{:?}", broken.variant),
            does: broken.does,
            violates: broken.violates,
            scope: broken.scope.to_string(),
            model: Turns::broken(broken.scope, broken.variant),
        });
        as_expected &= table::each_is_found(cases, traces, describe);
    }
    as_expected
}
