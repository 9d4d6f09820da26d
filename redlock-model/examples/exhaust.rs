//! Explores the protocol and every broken variant of it, and prints what was found.
//!
//! usage: exhaust [sound|variants|traces]: both if not given, in minutes; `traces` shows the shortest way to each violation.

#![allow(clippy::print_stdout)] // it is what the program is for

use std::process::ExitCode;

use redlock_model::{CATALOGUE, Protocol, Scope, Transport, explore, explore_for};

const fn scope(transport: Transport, attempts: [u8; 2], extensions: [u8; 2], faults: u8) -> Scope {
    Scope { transport, attempts, extensions, faults }
}

/// What is explored: each the largest that takes minutes.
const SCOPES: &[Scope] = &[
    scope(Transport::Streams, [1, 1], [0, 0], 2),
    scope(Transport::Streams, [2, 1], [0, 0], 0),
    scope(Transport::Streams, [1, 1], [1, 0], 1),
    scope(Transport::Streams, [1, 1], [1, 1], 0),
    scope(Transport::Streams, [1, 1], [2, 0], 1),
    scope(Transport::Datagrams, [1, 1], [0, 0], 1),
    scope(Transport::Datagrams, [1, 1], [1, 0], 1),
];

fn main() -> ExitCode {
    let what = std::env::args().nth(1).unwrap_or_default();
    let (sound, variants) = (what != "variants" && what != "traces", what != "sound");
    let mut as_expected = true;
    if sound {
        as_expected &= explore_scopes();
    }
    if variants {
        as_expected &= explore_variants(what == "traces");
    }
    if as_expected { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether nothing was found.
fn explore_scopes() -> bool {
    println!("The protocol: two clients, three nodes, every interleaving.\n");
    println!("| scope | states | transitions | depth | time | violations |");
    println!("|---|---:|---:|---:|---:|---:|");
    let mut sound = true;
    for scope in SCOPES {
        let found = explore(Protocol::new(*scope));
        let (states, transitions, depth, took) = (found.states, found.transitions, found.depth, found.took);
        let violations = usize::from(found.violation.is_some());
        println!("| {scope} | {states} | {transitions} | {depth} | {took:.1?} | {violations} |");
        if let Some(violation) = found.violation {
            println!("\n{} is violated:", violation.property);
            for step in violation.trace {
                println!("    {step}");
            }
            sound = false;
        }
    }
    sound
}

/// Whether each was found by what is expected to.
fn explore_variants(traces: bool) -> bool {
    println!("\nBroken variants, and the shortest trace to what they violate.\n");
    println!("| variant | what is wrong | violates | steps | states | time | scope |");
    println!("|---|---|---|---:|---:|---:|---|");
    let mut caught = true;
    for broken in CATALOGUE {
        let protocol = Protocol::broken(broken.scope, broken.variant);
        let found = explore_for(protocol, &[broken.violates]);
        let steps = found.violation.as_ref().map(|violation| violation.trace.len());
        let (states, took) = (found.states, found.took);
        let steps_text = steps.map_or("NOT FOUND".to_owned(), |steps| steps.to_string());
        let (variant, does, violates, scope) = (broken.variant, broken.does, broken.violates, broken.scope);
        println!("| {variant:?} | {does} | {violates} | {steps_text} | {states} | {took:.1?} | {scope} |");
        if let Some(violation) = found.violation.filter(|_| traces) {
            println!();
            for step in violation.trace {
                println!("    {step}");
            }
            println!();
        }
        caught &= steps.is_some();
    }
    caught
}
