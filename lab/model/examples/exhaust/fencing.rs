//! The fencing rule.

use redlock_model::fence::{CATALOG, Counters, Extensions, Fencing, HARMLESS, Scope};

use crate::table::{self, Case};

const fn scope(nodes: usize, attempts: usize, extensions: Extensions) -> Scope {
    Scope { nodes, attempts, counters: Counters::Any, extensions, forgets: false, lies: false }
}

const fn any_number(scope: Scope) -> Scope {
    Scope { forgets: true, ..scope }
}

const fn up_to(bound: u8, scope: Scope) -> Scope {
    Scope { counters: Counters::UpTo(bound), ..scope }
}

const fn lying(scope: Scope) -> Scope {
    Scope { lies: true, ..scope }
}

/// The largest scopes that take only minutes.
const SCOPES: &[Scope] = &[
    up_to(6, scope(3, 2, Extensions::Behind)),
    up_to(4, scope(3, 3, Extensions::Behind)),
    scope(3, 2, Extensions::Any),
    scope(3, 2, Extensions::Behind),
    scope(3, 3, Extensions::Behind),
    any_number(scope(3, 2, Extensions::Behind)),
    any_number(scope(3, 3, Extensions::Behind)),
    any_number(scope(3, 4, Extensions::Behind)),
    scope(4, 2, Extensions::None),
    scope(4, 2, Extensions::Behind),
    any_number(scope(4, 2, Extensions::Behind)),
    lying(up_to(6, scope(3, 2, Extensions::Behind))),
    lying(up_to(4, scope(3, 2, Extensions::Any))),
    lying(up_to(4, scope(3, 3, Extensions::Behind))),
];

/// The scope for the harmless variants.
const HARMLESS_IN: Scope = scope(3, 3, Extensions::Behind);

/// Returns true if all results are as expected.
pub(crate) fn explore(sound: bool, variants: bool, traces: bool) -> bool {
    let mut as_expected = true;
    if sound {
        println!("\nThe fencing rule: every interleaving.\n");
        let scopes = SCOPES.iter().map(|scope| (scope.to_string(), Fencing::new(*scope)));
        as_expected &= table::nothing_is_violated("scope", scopes, Fencing::describe);
    }
    if variants {
        println!("\nBroken variants of the fencing rule, and the shortest trace to a violation.\n");
        let cases = CATALOG.iter().map(|broken| Case {
            name: format!("{:?}", broken.variant),
            does: broken.does,
            violates: broken.violates,
            scope: broken.scope.to_string(),
            model: Fencing::broken(broken.scope, broken.variant),
        });
        as_expected &= table::each_is_found(cases, traces, Fencing::describe);
    }
    if variants && !traces {
        println!("\nOther rules, which violate no property of tokens: {HARMLESS_IN}.\n");
        let rules = HARMLESS
            .iter()
            .map(|(variant, does)| (format!("{variant:?}: {does}"), Fencing::broken(HARMLESS_IN, *variant)));
        as_expected &= table::nothing_is_violated("rule", rules, Fencing::describe);
    }
    as_expected
}
