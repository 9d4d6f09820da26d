//! Explores the protocol, the fencing rule and every broken variant of them, and prints the results.
//!
//! Usage: `exhaust [locks|fencing] [sound|variants|traces]`. The default is everything, which takes minutes. `traces`
//! prints the shortest trace to each violation.

#![allow(clippy::print_stdout)] // the program prints its results

mod fencing;
mod locks;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |argument: &str| arguments.iter().any(|given| given == argument);
    let known = ["locks", "fencing", "sound", "variants", "traces"];
    if let Some(unknown) = arguments.iter().find(|argument| !known.contains(&argument.as_str())) {
        println!("{unknown}: usage: exhaust [locks|fencing] [sound|variants|traces]");
        return ExitCode::FAILURE;
    }
    let traces = has("traces");
    let (sound, variants) = (!has("variants") && !traces, !has("sound"));
    let mut as_expected = true;
    if !has("fencing") {
        as_expected &= locks::explore(sound, variants, traces);
    }
    if !has("locks") {
        as_expected &= fencing::explore(sound, variants, traces);
    }
    if as_expected { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
