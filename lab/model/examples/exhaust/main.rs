//! Explores every model and its broken variants, and prints the results.
//!
//! Usage: `exhaust [locks|fencing|admission|clocks|sharing|keeping|order] [sound|variants|traces]`. The default is
//! everything, which takes half an hour. `traces` prints the shortest trace to each violation.

#![allow(clippy::print_stdout)] // the program prints its results

mod table;

use std::process::ExitCode;

use redlock_model::{Explored, Rule, admission, clocks, fence, keep, order, share};

use crate::table::{each_is_found, nothing_is_violated};

/// The explorations that the arguments select.
struct Selection {
    sound: bool,
    variants: bool,
    traces: bool,
}

/// Explores one model. Returns true if all results are as expected.
type Explore = fn(&Selection) -> bool;

const MODELS: [(&str, Explore); 7] = [
    ("locks", |selection| explore(&redlock_model::EXPLORED, selection)),
    ("fencing", |selection| explore(&fence::EXPLORED, selection)),
    ("admission", |selection| explore(&admission::EXPLORED, selection)),
    ("clocks", |selection| explore(&clocks::EXPLORED, selection)),
    ("sharing", |selection| explore(&share::EXPLORED, selection)),
    ("keeping", |selection| explore(&keep::EXPLORED, selection)),
    ("order", |selection| explore(&order::EXPLORED, selection)),
];

const USAGE: &str =
    "usage: exhaust [locks|fencing|admission|clocks|sharing|keeping|order] [sound|variants|traces]";

fn explore<M: Rule>(explored: &Explored<M>, selection: &Selection) -> bool {
    let Explored { title, scopes, broken, holes, harmless } = explored;
    let mut as_expected = true;
    if selection.sound {
        println!("\n{title}: every interleaving.\n");
        let scopes = scopes.iter().map(|scope| (scope.to_string(), M::new(*scope)));
        as_expected &= nothing_is_violated("scope", scopes);
    }
    if selection.variants {
        println!("\n{title}: broken variants, and the shortest trace to a violation.\n");
        as_expected &= each_is_found(broken, selection.traces);
        if !holes.is_empty() {
            println!("\n{title}: known holes of the rule itself, and the shortest trace to a violation.\n");
            as_expected &= each_is_found(holes, selection.traces);
        }
    }
    if selection.variants && !selection.traces && !harmless.is_empty() {
        println!("\n{title}: other rules, which violate nothing in their scope.\n");
        let rules = harmless
            .iter()
            .map(|rule| (format!("{:?}: {} ({})", rule.variant, rule.does, rule.scope), rule.model()));
        as_expected &= nothing_is_violated("rule", rules);
    }
    as_expected
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |argument: &str| arguments.iter().any(|given| given == argument);
    let known = |argument: &str| {
        MODELS.iter().any(|(name, _)| *name == argument)
            || ["sound", "variants", "traces"].contains(&argument)
    };
    if let Some(unknown) = arguments.iter().find(|argument| !known(argument)) {
        println!("{unknown}: {USAGE}");
        return ExitCode::FAILURE;
    }
    let traces = has("traces");
    let selection = Selection { sound: !has("variants") && !traces, variants: !has("sound"), traces };
    let all = !MODELS.iter().any(|(name, _)| has(name));
    let chosen = MODELS.iter().filter(|(name, _)| all || has(name));
    // Every model is explored, even if an earlier one is not as expected.
    let results: Vec<bool> = chosen.map(|(_, explore)| explore(&selection)).collect();
    if results.iter().all(|as_expected| *as_expected) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
