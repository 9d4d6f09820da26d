//! The admission rule with clocks that step or run fast.

use redlock_model::admission::{Admission, Broken, Property};
use redlock_model::clocks::{CATALOG, HARMLESS, HOLES, SCOPES};

use crate::table::{self, Case};

fn cases(catalog: &[Broken]) -> impl Iterator<Item = Case<Admission>> {
    catalog.iter().map(|broken| Case {
        name: format!("{:?}", broken.variant),
        does: broken.does,
        violates: Property::Exclusion,
        scope: broken.scope.to_string(),
        model: Admission::broken(broken.scope, broken.variant),
    })
}

/// Returns true if all results are as expected.
pub(crate) fn explore(sound: bool, variants: bool, traces: bool) -> bool {
    let mut as_expected = true;
    if sound {
        println!("\nClocks that step or run fast: every interleaving.\n");
        let scopes = SCOPES.iter().map(|scope| (scope.to_string(), Admission::new(*scope)));
        as_expected &= table::nothing_is_violated("scope", scopes, Admission::describe);
    }
    if variants {
        println!("\nBroken variants of the guard against clocks, and the shortest trace to a violation.\n");
        as_expected &= table::each_is_found(cases(CATALOG), traces, Admission::describe);
        println!("\nKnown holes of the guard itself, and the shortest trace to a violation.\n");
        as_expected &= table::each_is_found(cases(HOLES), traces, Admission::describe);
    }
    if variants && !traces {
        println!("\nOther rules, which hold.\n");
        let rules = HARMLESS.iter().map(|rule| {
            let name = format!("{:?}: {} ({})", rule.variant, rule.does, rule.scope);
            (name, Admission::broken(rule.scope, rule.variant))
        });
        as_expected &= table::nothing_is_violated("rule", rules, Admission::describe);
    }
    as_expected
}
