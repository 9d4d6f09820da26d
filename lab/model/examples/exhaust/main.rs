//! Explores the protocol, the fencing rule, and every broken variant of them, and prints what was found.
//!
//! usage: exhaust [locks|fencing] [sound|variants|traces]: everything if not given, in minutes; `traces` shows the
//! shortest way to each violation.

#![allow(clippy::print_stdout)] // it is what the program is for

mod fencing;
mod locks;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let asks = |what: &str| asked.iter().any(|asked| asked == what);
    let known = ["locks", "fencing", "sound", "variants", "traces"];
    if let Some(unknown) = asked.iter().find(|asked| !known.contains(&asked.as_str())) {
        println!("{unknown}: usage: exhaust [locks|fencing] [sound|variants|traces]");
        return ExitCode::FAILURE;
    }
    let traces = asks("traces");
    let (sound, variants) = (!asks("variants") && !traces, !asks("sound"));
    let mut as_expected = true;
    if !asks("fencing") {
        as_expected &= locks::explore(sound, variants, traces);
    }
    if !asks("locks") {
        as_expected &= fencing::explore(sound, variants, traces);
    }
    if as_expected { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
