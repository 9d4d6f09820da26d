//! The explorations. The ignored ones take minutes, and write the tables of `docs/internals/explored-scopes.md`.

use std::collections::{BTreeSet, HashMap};

use redlock_model::{Explored, Model, Rule, Selection, explore_for};

use crate::round::exploration::broken::Variant;
use crate::round::exploration::catalog::{
    ALONE, CATALOG, EXTENSION, LOCKS, READER_AND_WRITER, READERS, TOKENS, datagrams, extended, faults,
    fenced, only, token_faults, twice_at_once,
};
use crate::round::exploration::model::Rounds;
use crate::round::exploration::property::Property;
use crate::round::exploration::scope::Scope;
use crate::round::exploration::step::Path;

/// The attempt of one client, with tokens, where keys may vanish.
const TOKEN: Scope = Scope { attempts: [1, 0], ..TOKENS };

/// The attempt of one reader.
const READER: Scope = Scope { attempts: [1, 0], ..READERS };

/// The scopes, of which the last ones take minutes.
const SCOPES: &[Scope] = &[
    faults(2, ALONE),
    faults(2, datagrams(ALONE)),
    faults(1, fenced(ALONE)),
    faults(1, EXTENSION),
    faults(1, datagrams(EXTENSION)),
    fenced(EXTENSION),
    faults(2, EXTENSION),
    faults(2, datagrams(EXTENSION)),
    faults(1, fenced(EXTENSION)),
    extended([2, 0], faults(1, ALONE)),
    twice_at_once(faults(1, ALONE)),
    datagrams(twice_at_once(ALONE)),
    fenced(twice_at_once(ALONE)),
    Scope { attempts: [2, 0], ..ALONE },
    LOCKS,
    datagrams(LOCKS),
    faults(1, extended([1, 0], READER)),
    faults(1, datagrams(extended([1, 0], READER))),
    twice_at_once(READER),
    Scope { attempts: [2, 0], ..READERS },
    READERS,
    READER_AND_WRITER,
    datagrams(READER_AND_WRITER),
    token_faults(2, TOKEN),
    token_faults(2, extended([1, 0], TOKEN)),
    token_faults(3, extended([1, 0], TOKEN)),
    token_faults(1, twice_at_once(TOKEN)),
    TOKENS,
    Scope { attempts: [2, 0], ..faults(1, ALONE) },
    faults(1, LOCKS),
    faults(1, datagrams(LOCKS)),
    extended([1, 0], LOCKS),
    only(faults(2, LOCKS)),
    only(faults(1, extended([1, 0], LOCKS))),
    only(faults(2, twice_at_once(ALONE))),
    faults(1, datagrams(twice_at_once(ALONE))),
    faults(1, datagrams(READERS)),
    extended([1, 0], READERS),
    faults(1, READER_AND_WRITER),
    only(faults(2, READER_AND_WRITER)),
    only(faults(1, datagrams(READER_AND_WRITER))),
    extended([1, 0], READER_AND_WRITER),
    extended([0, 1], READER_AND_WRITER),
    extended([1, 0], TOKENS),
    token_faults(1, TOKENS),
    token_faults(1, extended([1, 0], TOKENS)),
];

/// The explorations of the rounds.
const EXPLORED: Explored<Rounds> =
    Explored { title: "Rounds of the core", scopes: SCOPES, broken: CATALOG, holes: &[], harmless: &[] };

/// The greatest number of states that is explored again, which takes about a minute for all rows of the page.
const SMALL: usize = 270_000;

#[test]
fn the_page_has_the_scopes_and_the_variants_of_the_rounds() {
    EXPLORED.compare("rounds", SMALL);
}

#[test]
fn each_property_can_fail() {
    for property in Property::ALL {
        assert!(
            CATALOG.iter().any(|broken| broken.violates == *property),
            "no variant violates {property:?}"
        );
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
    let holds = Property::ALL.iter().map(|property| rounds.holds(*property, path)).collect();
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
    equal_digests_have_equal_futures(twice_at_once(TOKEN), 12);
    equal_digests_have_equal_futures(twice_at_once(ALONE), 12);
    equal_digests_have_equal_futures(TOKENS, 8);
    equal_digests_have_equal_futures(extended([1, 0], READER), usize::MAX);
    equal_digests_have_equal_futures(LOCKS, 8);
    equal_digests_have_equal_futures(READER_AND_WRITER, 8);
    equal_digests_have_equal_futures(READERS, 8);
}

fn selection(sound: bool) -> Selection {
    let writes = std::env::var_os("REDLOCK_WRITE_DOCS").is_some();
    Selection { sound, variants: !sound, traces: !sound, writes }
}

#[test]
#[ignore = "takes an hour"]
fn large_scopes_violate_nothing() {
    assert!(EXPLORED.run("rounds", selection(true)));
    for scope in [LOCKS, READER_AND_WRITER, READERS, faults(1, EXTENSION), twice_at_once(ALONE)] {
        equal_digests_have_equal_futures(scope, usize::MAX);
    }
}

#[test]
#[ignore = "takes a minute, and prints the traces"]
fn variants_and_their_traces() {
    assert!(EXPLORED.run("rounds", selection(false)));
}
