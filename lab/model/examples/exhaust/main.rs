//! Explores every model and its broken variants, and prints the results.
//!
//! Usage: `exhaust [admission|clocks|keeping|change|order] [sound|variants|traces] [--write]`. The default
//! is everything, which takes half an hour. `traces` prints the shortest trace to each violation. `--write` also writes
//! the tables into `docs/internals/explored-scopes.md`.

#![allow(clippy::print_stdout)] // the program prints its results

mod table;

use std::process::ExitCode;

use redlock_model::{Explored, Rule, admission, change, clocks, keep, order};

use crate::table::{each_is_found, nothing_is_violated};

/// The explorations that the arguments select.
#[allow(clippy::struct_excessive_bools)] // independent arguments
struct Selection {
    sound: bool,
    variants: bool,
    traces: bool,
    /// True if the tables are written into the page.
    writes: bool,
}

/// Explores one model. Returns true if all results are as expected.
type Explore = fn(&Selection) -> bool;

const MODELS: [(&str, Explore); 5] = [
    ("admission", |selection| explore("admission", &admission::EXPLORED, selection)),
    ("clocks", |selection| explore("clocks", &clocks::EXPLORED, selection)),
    ("keeping", |selection| explore("keeping", &keep::EXPLORED, selection)),
    ("change", |selection| explore("change", &change::EXPLORED, selection)),
    ("order", |selection| explore("order", &order::EXPLORED, selection)),
];

const USAGE: &str =
    "usage: exhaust [admission|clocks|keeping|change|order] [sound|variants|traces] [--write]";

fn explore<M: Rule>(name: &str, explored: &Explored<M>, selection: &Selection) -> bool {
    let Explored { title, scopes, broken, holes, harmless } = explored;
    let mark = |table: &str| selection.writes.then(|| format!("{name}: {table}"));
    let mut as_expected = true;
    if selection.sound {
        println!("\n{title}: every interleaving.\n");
        let scopes = scopes.iter().map(|scope| (scope.to_string(), M::new(*scope)));
        as_expected &= nothing_is_violated("scope", scopes, mark("scopes").as_deref());
    }
    if selection.variants {
        println!("\n{title}: broken variants, and the shortest trace to a violation.\n");
        as_expected &= each_is_found(broken, selection.traces, mark("variants").as_deref());
        if !holes.is_empty() {
            println!("\n{title}: known holes of the rule itself, and the shortest trace to a violation.\n");
            as_expected &= each_is_found(holes, selection.traces, mark("holes").as_deref());
        }
    }
    if selection.variants && !selection.traces && !harmless.is_empty() {
        println!("\n{title}: other rules, which violate nothing in their scope.\n");
        let rules = harmless
            .iter()
            .map(|rule| (format!("{:?}: {} ({})", rule.variant, rule.does, rule.scope), rule.model()));
        as_expected &= nothing_is_violated("rule", rules, mark("rules").as_deref());
    }
    as_expected
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |argument: &str| arguments.iter().any(|given| given == argument);
    let known = |argument: &str| {
        MODELS.iter().any(|(name, _)| *name == argument)
            || ["sound", "variants", "traces", "--write"].contains(&argument)
    };
    if let Some(unknown) = arguments.iter().find(|argument| !known(argument)) {
        println!("{unknown}: {USAGE}");
        return ExitCode::FAILURE;
    }
    let traces = has("traces");
    let (sound, variants) = (!has("variants") && !traces, !has("sound"));
    let selection = Selection { sound, variants, traces, writes: has("--write") };
    let all = !MODELS.iter().any(|(name, _)| has(name));
    let chosen = MODELS.iter().filter(|(name, _)| all || has(name));
    // Every model is explored, even if an earlier one is not as expected.
    let results: Vec<bool> = chosen.map(|(_, explore)| explore(&selection)).collect();
    if results.iter().all(|as_expected| *as_expected) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
