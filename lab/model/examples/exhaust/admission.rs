//! The admission rule.

use redlock_model::admission::{
    Admission, CATALOG, HARMLESS, Loss, Property, SMALL, Scope, Start, Transport,
};

use crate::table::{self, Case};

const fn extended(scope: Scope) -> Scope {
    Scope { extensions: [1, 1], ..scope }
}

const fn losses(losses: u8, scope: Scope) -> Scope {
    Scope { losses, ..scope }
}

const fn ttl(ttl: u8, scope: Scope) -> Scope {
    Scope { ttl: [ttl, ttl], ..scope }
}

const fn nodes(nodes: usize, scope: Scope) -> Scope {
    Scope { nodes, ..scope }
}

const fn looking(scope: Scope) -> Scope {
    Scope { transport: Transport::Looks, ..scope }
}

/// The largest scopes that take only minutes.
const SCOPES: &[Scope] = &[
    SMALL,
    extended(SMALL),
    losses(2, SMALL),
    losses(2, extended(SMALL)),
    Scope { start: Start::NewClients, ..SMALL },
    Scope { start: Start::NewNodes, ..SMALL },
    ttl(3, extended(SMALL)),
    ttl(4, extended(SMALL)),
    ttl(3, losses(2, SMALL)),
    Scope { attempts: [2, 2], ..extended(SMALL) },
    Scope { attempts: [2, 1], ..extended(SMALL) },
    Scope { extensions: [2, 0], ..SMALL },
    Scope { remembers: true, ..extended(SMALL) },
    Scope { rechecks: true, ..extended(SMALL) },
    Scope { kinds: Loss::WITHOUT_COPIES, ..losses(3, SMALL) },
    nodes(4, SMALL),
    nodes(4, extended(SMALL)),
    nodes(5, SMALL),
    looking(losses(2, SMALL)),
    looking(extended(SMALL)),
];

/// Returns true if all results are as expected.
pub(crate) fn explore(sound: bool, variants: bool, traces: bool) -> bool {
    let mut as_expected = true;
    if sound {
        println!("\nThe admission rule: every interleaving.\n");
        let scopes = SCOPES.iter().map(|scope| (scope.to_string(), Admission::new(*scope)));
        as_expected &= table::nothing_is_violated("scope", scopes, Admission::describe);
    }
    if variants {
        println!("\nBroken variants of the admission rule, and the shortest trace to a violation.\n");
        let cases = CATALOG.iter().map(|broken| Case {
            name: format!("{:?}", broken.variant),
            does: broken.does,
            violates: Property::Exclusion,
            scope: broken.scope.to_string(),
            model: Admission::broken(broken.scope, broken.variant),
        });
        as_expected &= table::each_is_found(cases, traces, Admission::describe);
    }
    if variants && !traces {
        println!("\nOther rules, which hold in smaller worlds.\n");
        let rules = HARMLESS.iter().map(|rule| {
            let name = format!("{:?}: {} ({})", rule.variant, rule.does, rule.scope);
            (name, Admission::broken(rule.scope, rule.variant))
        });
        as_expected &= table::nothing_is_violated("rule", rules, Admission::describe);
    }
    as_expected
}
