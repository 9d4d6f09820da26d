//! Explores every model and its broken variants, and prints the results.
//!
//! Usage: `exhaust [admission|clocks|keeping|change|order] [sound|variants|traces] [--write]`. The default
//! is everything, which takes half an hour. `traces` prints the shortest trace to each violation. `--write` also writes
//! the tables into `docs/internals/explored-scopes.md`.

#![allow(clippy::print_stdout)] // the program prints its results

use std::process::ExitCode;

use redlock_model::{Selection, admission, change, clocks, keep, order};

/// Explores one model. Returns true if all results are as expected.
type Explore = fn(Selection) -> bool;

const MODELS: [(&str, Explore); 5] = [
    ("admission", |selection| admission::EXPLORED.run("admission", selection)),
    ("clocks", |selection| clocks::EXPLORED.run("clocks", selection)),
    ("keeping", |selection| keep::EXPLORED.run("keeping", selection)),
    ("change", |selection| change::EXPLORED.run("change", selection)),
    ("order", |selection| order::EXPLORED.run("order", selection)),
];

const USAGE: &str =
    "usage: exhaust [admission|clocks|keeping|change|order] [sound|variants|traces] [--write]";

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
    let results: Vec<bool> = chosen.map(|(_, explore)| explore(selection)).collect();
    if results.iter().all(|as_expected| *as_expected) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
