//! The explorations. The ignored ones take minutes, or print tables.

#![allow(clippy::print_stdout)] // the ignored tests print tables

use std::collections::{BTreeSet, HashMap};

use redlock_model::{Exploration, Model, explore_for};

use crate::round::exploration::broken::Variant;
use crate::round::exploration::catalog::{
    ALONE, CATALOG, EXTENSION, Entry, LARGE_CATALOG, LOCKS, READER_AND_WRITER, READERS, TOKENS, datagrams,
    extended, faults, fenced, only, token_faults,
};
use crate::round::exploration::model::Rounds;
use crate::round::exploration::property::{OF_LOCKS, OF_TOKENS, Property};
use crate::round::exploration::scope::{Keys, Scope};
use crate::round::exploration::step::{Path, Step};

/// The attempt of one client, with tokens, where keys may vanish.
const TOKEN: Scope = Scope { attempts: [1, 0], ..TOKENS };

/// The attempt of one reader.
const READER: Scope = Scope { attempts: [1, 0], ..READERS };

fn properties(scope: Scope) -> &'static [Property] {
    if scope.keys == Keys::Timed { OF_LOCKS } else { OF_TOKENS }
}

/// Explores the rounds that ship.
fn explored(scope: Scope) -> Exploration<Property, Step> {
    let properties = properties(scope);
    let rounds = Rounds { scope, variant: Variant::Sound };
    let found = explore_for(rounds, properties);
    if let Some(violation) = &found.violation {
        panic!("{:?} in {scope}: {:#?}", violation.property, rounds.describe(&violation.trace));
    }
    found
}

fn nothing_is_violated(scope: Scope, states: usize) {
    assert_eq!(states, explored(scope).states, "the number of states has changed: {scope}");
}

#[test]
fn an_attempt_with_faults_violates_nothing() {
    nothing_is_violated(faults(2, ALONE), 3_921);
    nothing_is_violated(faults(1, fenced(ALONE)), 23_563);
}

#[test]
fn an_attempt_over_datagrams_with_faults_violates_nothing() {
    nothing_is_violated(faults(2, datagrams(ALONE)), 6_403);
}

#[test]
fn an_extension_with_a_fault_violates_nothing() {
    nothing_is_violated(faults(1, EXTENSION), 13_732);
    nothing_is_violated(faults(1, datagrams(EXTENSION)), 16_874);
    nothing_is_violated(fenced(EXTENSION), 15_222);
}

#[test]
fn two_attempts_of_one_client_violate_nothing() {
    nothing_is_violated(Scope { attempts: [2, 0], ..ALONE }, 37_959);
}

#[test]
fn two_clients_violate_nothing() {
    nothing_is_violated(LOCKS, 76_895);
}

#[test]
fn two_clients_over_datagrams_violate_nothing() {
    nothing_is_violated(datagrams(LOCKS), 113_587);
}

#[test]
fn readers_and_writers_violate_nothing() {
    nothing_is_violated(READER_AND_WRITER, 105_775);
    nothing_is_violated(datagrams(READER_AND_WRITER), 150_358);
    nothing_is_violated(READERS, 143_816);
    nothing_is_violated(Scope { attempts: [2, 0], ..READERS }, 113_665);
    nothing_is_violated(faults(1, extended([1, 0], READER)), 19_229);
    nothing_is_violated(faults(1, datagrams(extended([1, 0], READER))), 25_727);
}

#[test]
fn tokens_violate_nothing_even_if_keys_vanish() {
    nothing_is_violated(TOKENS, 269_620);
    nothing_is_violated(token_faults(2, TOKEN), 5_609);
    nothing_is_violated(token_faults(2, extended([1, 0], TOKEN)), 28_794);
    nothing_is_violated(token_faults(1, extended([2, 0], TOKEN)), 92_224);
}

#[test]
fn broken_variants_are_detected_by_the_property_they_violate() {
    for entry in CATALOG {
        let rounds = Rounds { scope: entry.scope, variant: entry.variant };
        let violation = explore_for(rounds, &[entry.violates]).violation;
        let violation = violation.unwrap_or_else(|| panic!("{:?} survives: {}", entry.variant, entry.does));
        let end = violation.trace.iter().fold(Path::FIRST, |path, step| {
            let mut steps = Vec::new();
            rounds.steps(&path, &mut steps);
            assert!(steps.contains(step), "an impossible step in the trace");
            path.then(*step)
        });
        assert!(
            !rounds.holds(entry.violates, &end),
            "{:?}: no violation at the end of the trace",
            entry.variant
        );
    }
}

#[test]
fn each_property_can_fail() {
    for property in OF_LOCKS.iter().chain(OF_TOKENS) {
        assert!(CATALOG.iter().any(|entry| entry.violates == *property), "no variant violates {property:?}");
    }
}

#[test]
fn the_shortest_trace_to_two_holders_if_a_grant_counts_twice() {
    let rounds = Rounds { scope: LOCKS, variant: Variant::GrantCountsTwice };
    let trace = explore_for(rounds, &[Property::Exclusion]).violation.unwrap().trace;
    let lines = rounds.describe(&trace);
    assert_eq!(6, lines.len(), "{lines:?}");
    // Threads explore at the same time, so the client that begins may be either of the two. It is called A here.
    let renamed = if lines[0].starts_with('B') { lines[0].replacen('B', "A", 1) } else { lines[0].clone() };
    assert_eq!("A begins an attempt", renamed);
    assert!(lines[5].starts_with("the reply of n"), "{lines:?}");
}

/// The result of a state: its violations and the digests of its successors, without itself.
type Future = (Vec<bool>, BTreeSet<Vec<u64>>);

fn future(rounds: Rounds, path: &Path, digest: &[u64]) -> (Future, Vec<Path>) {
    let mut steps = Vec::new();
    rounds.steps(path, &mut steps);
    let next: Vec<Path> = steps.iter().map(|step| path.then(*step)).collect();
    let digests = next.iter().map(|path| rounds.key(path).as_ref().to_vec());
    let others = digests.filter(|other| other != digest).collect();
    let holds = properties(rounds.scope).iter().map(|property| rounds.holds(*property, path)).collect();
    ((holds, others), next)
}

/// The exploration visits one of the worlds with the same digest. This visits all that differ by one step, up to a depth.
fn equal_digests_have_equal_futures(scope: Scope, depth: usize) {
    let rounds = Rounds { scope, variant: Variant::Sound };
    let mut seen: HashMap<Vec<u64>, (Future, Path)> = HashMap::new();
    let (mut level, mut merged, mut steps) = (vec![Path::FIRST], 0, 0);
    while !level.is_empty() && steps <= depth {
        let mut following = Vec::new();
        for path in level {
            let digest = rounds.key(&path).as_ref().to_vec();
            let (future, next) = future(rounds, &path, &digest);
            match seen.get(&digest) {
                None => {
                    following.extend(next);
                    seen.insert(digest, (future, path));
                }
                Some((known, other)) => {
                    merged += 1;
                    let traces = [other, &path].map(|path| rounds.describe(path.steps()));
                    assert!(*known == future, "different futures after {traces:#?}");
                }
            }
        }
        (level, steps) = (following, steps + 1);
    }
    assert!(merged > 100, "only {merged} worlds were compared");
}

#[test]
fn states_that_are_merged_have_the_same_futures() {
    for scope in [faults(2, ALONE), faults(1, datagrams(ALONE)), EXTENSION, fenced(ALONE)] {
        equal_digests_have_equal_futures(scope, usize::MAX);
    }
    equal_digests_have_equal_futures(token_faults(1, TOKEN), usize::MAX);
    equal_digests_have_equal_futures(extended([2, 0], TOKEN), 12);
    equal_digests_have_equal_futures(extended([1, 0], READER), usize::MAX);
    equal_digests_have_equal_futures(LOCKS, 8);
    equal_digests_have_equal_futures(READER_AND_WRITER, 8);
    equal_digests_have_equal_futures(READERS, 8);
}

/// These take minutes.
const LARGE: &[Scope] = &[
    faults(1, LOCKS),
    faults(1, datagrams(LOCKS)),
    extended([1, 0], LOCKS),
    faults(2, EXTENSION),
    faults(2, datagrams(EXTENSION)),
    faults(1, fenced(EXTENSION)),
    extended([2, 0], faults(1, ALONE)),
    Scope { attempts: [2, 0], ..faults(1, ALONE) },
    only(faults(2, LOCKS)),
    only(faults(1, extended([1, 0], LOCKS))),
    only(faults(2, READER_AND_WRITER)),
    only(faults(1, datagrams(READER_AND_WRITER))),
    extended([1, 0], READER_AND_WRITER),
    extended([0, 1], READER_AND_WRITER),
    faults(1, datagrams(READERS)),
    extended([1, 0], READERS),
    extended([1, 0], TOKENS),
    token_faults(3, extended([1, 0], TOKEN)),
    token_faults(1, TOKENS),
    token_faults(1, extended([1, 0], TOKENS)),
];

#[test]
#[ignore = "takes minutes"]
fn large_scopes_violate_nothing() {
    println!("| scope | states | transitions | depth | time | violations |");
    println!("|---|---:|---:|---:|---:|---:|");
    for scope in LARGE {
        let found = explored(*scope);
        let (states, transitions, depth, took) = (found.states, found.transitions, found.depth, found.took);
        println!("| {scope} | {states} | {transitions} | {depth} | {took:.1?} | 0 |");
    }
    for scope in [LOCKS, READER_AND_WRITER, READERS, faults(1, EXTENSION)] {
        equal_digests_have_equal_futures(scope, usize::MAX);
    }
}

#[test]
#[ignore = "prints the table of variants, with their traces"]
fn variants_and_their_traces() {
    println!("| variant | what is wrong | violates | steps | states | scope |");
    println!("|---|---|---|---:|---:|---|");
    let mut traces = Vec::new();
    for Entry { variant, does, violates, scope } in CATALOG.iter().chain(LARGE_CATALOG).copied() {
        let rounds = Rounds { scope, variant };
        let found = explore_for(rounds, &[violates]);
        let violation = found.violation.unwrap_or_else(|| panic!("{variant:?} survives: {does}"));
        let trace = violation.trace;
        let (length, states) = (trace.len(), found.states);
        println!("| {variant:?} | {does} | {violates:?} | {length} | {states} | {scope} |");
        traces.push((variant, rounds.describe(&trace)));
    }
    for (variant, lines) in traces {
        println!("\n{variant:?}:\n  {}", lines.join("\n  "));
    }
}
