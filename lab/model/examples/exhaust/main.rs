//! Explores the protocol, the fencing rule, the admission rule without and with clocks that step, readers and writers,
//! kept locks, and the order of waiters. Also explores their broken variants, and prints the results.
//!
//! Usage: `exhaust [locks|fencing|admission|clocks|sharing|keeping|order] [sound|variants|traces]`. The default is everything, which
//! takes half an hour. `traces` prints the shortest trace to each violation.

#![allow(clippy::print_stdout)] // the program prints its results

mod admission;
mod clocks;
mod fencing;
mod keeping;
mod locks;
mod order;
mod sharing;
mod table;

use std::process::ExitCode;

/// Explores one model: its sound scopes, its variants, with or without traces.
type Explore = fn(bool, bool, bool) -> bool;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |argument: &str| arguments.iter().any(|given| given == argument);
    let parts: [(&str, Explore); 7] = [
        ("locks", locks::explore),
        ("fencing", fencing::explore),
        ("admission", admission::explore),
        ("clocks", clocks::explore),
        ("sharing", sharing::explore),
        ("keeping", keeping::explore),
        ("order", order::explore),
    ];
    let known = |argument: &str| {
        parts.iter().any(|(name, _)| *name == argument) || ["sound", "variants", "traces"].contains(&argument)
    };
    if let Some(unknown) = arguments.iter().find(|argument| !known(argument)) {
        println!(
            "{unknown}: usage: exhaust [locks|fencing|admission|clocks|sharing|keeping|order] [sound|variants|traces]"
        );
        return ExitCode::FAILURE;
    }
    let traces = has("traces");
    let (sound, variants) = (!has("variants") && !traces, !has("sound"));
    let all = !parts.iter().any(|(name, _)| has(name));
    let chosen = parts.iter().filter(|(name, _)| all || has(name));
    // Every part runs, even if an earlier one is not as expected.
    let results: Vec<bool> = chosen.map(|(_, explore)| explore(sound, variants, traces)).collect();
    if results.iter().all(|as_expected| *as_expected) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
