//! Further explorations of locks that are kept for a time.

use redlock_model::keep::{Keeping, Property, Request, RequestKind, Scope, Step, Variant};
use redlock_model::{Rule, explore_for};

/// A late renewal shortens the life only if its connection broke: otherwise the node carries it out before the keep.
#[test]
fn the_shortest_trace_to_a_shortened_life_breaks_a_connection() {
    let explore = |faults| {
        let scope = Scope { extensions: 1, faults };
        explore_for(Keeping::broken(scope, Variant::RenewalSetsTheLife), &[Property::Exclusion]).violation
    };
    assert!(explore(0).is_none());
    let trace = explore(1).unwrap().trace;
    let position = |wanted: fn(&Step) -> bool| trace.iter().position(wanted).unwrap();
    let breaks = position(|step| matches!(step, Step::Break { .. }));
    let extended = position(|step| matches!(step, Step::Carry(Request { kind: RequestKind::Extend(_), .. })));
    assert!(breaks < extended, "{trace:?}");
    assert_eq!(16, trace.len(), "{trace:?}");
}
