//! Explorations of every model: the small scopes and the quickly found variants of `docs/internals/explored-scopes.md`,
//! and further ones. `scripts/exhaust` explores all rows of that page.

mod admission;
mod change;
mod clocks;
mod keeping;
mod order;

/// The greatest number of states that is explored again.
const SMALL: usize = 300_000;

#[test]
fn the_page_has_the_results_of_restart_admission() {
    redlock_model::admission::EXPLORED.compare("admission", SMALL);
}

#[test]
fn the_page_has_the_results_of_clocks() {
    redlock_model::clocks::EXPLORED.compare("clocks", SMALL);
}

#[test]
fn the_page_has_the_results_of_kept_locks() {
    redlock_model::keep::EXPLORED.compare("keeping", SMALL);
}

#[test]
fn the_page_has_the_results_of_changes() {
    redlock_model::change::EXPLORED.compare("change", SMALL);
}

#[test]
fn the_page_has_the_results_of_the_order() {
    redlock_model::order::EXPLORED.compare("order", SMALL);
}
