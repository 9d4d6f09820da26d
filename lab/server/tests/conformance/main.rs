//! The simulated server replies as a real one does: to the commands and scripts of the library, and to their errors.
//!
//! Each case of `cases.txt` runs on both, and so do random sequences. Times are compared roughly, because the real server
//! has its own clock.
//!
//! The real server is `redis-server`, or the program in the environment variable `REDLOCK_SERVER`. The simulated server is
//! then of the release that has the same commands. `scripts/servers` runs this with all versions that Debian has.

mod pair;

use std::collections::BTreeMap;

use redlock_wire::fuzzing::scripts;
use sha1_smol::Sha1;

use self::pair::Pair;

/// A line is a connection and a command, or a condition of the server behind `!`. In a command, `@name` is the text of a
/// script, and `#name` its SHA-1. Names of cases follow `==`.
const CASES: &str = include_str!("cases.txt");

fn words(line: &str) -> Vec<Vec<u8>> {
    let all: BTreeMap<_, _> = scripts().into_iter().collect();
    let text = |name: &str| all.get(name).unwrap_or_else(|| panic!("no script: {name}")).as_bytes().to_vec();
    let word = |word: &str| match word.split_at(1) {
        ("@", name) => text(name),
        ("#", name) => Sha1::from(text(name)).hexdigest().into_bytes(),
        _ if word == "''" => Vec::new(),
        _ => word.as_bytes().to_vec(),
    };
    line.split_whitespace().map(word).collect()
}

#[test]
fn the_cases_have_equal_replies() {
    let mut pair = Pair::start();
    let (mut cases, mut compared) = (0, 0);
    for case in CASES.split("== ").skip(1) {
        let (name, lines) = case.split_once('\n').expect("a name and lines");
        pair.begin();
        cases += 1;
        for line in lines.lines().filter(|line| !line.is_empty() && !line.starts_with("--")) {
            let context = format!("{name}: {line}");
            match line.split_once(' ').expect("a connection or `!`") {
                ("!", condition) => pair.condition(condition),
                ("gone", key) => pair.wait_until_gone(key),
                (connection, command) => {
                    let connection = connection.parse().expect("the number of a connection");
                    pair.send(connection, &words(command), &context);
                    compared += 1;
                }
            }
        }
        pair.end();
    }
    pair.finish();
    assert!(cases > 20 && compared > 150, "{cases} cases, {compared} replies");
}

#[test]
fn every_script_has_a_case() {
    for (name, _) in scripts() {
        assert!(CASES.contains(&format!("@{name} ")), "{name}");
    }
}

/// Random sequences over few names, tokens and times, so that every branch of the scripts is taken.
#[test]
fn random_sequences_have_equal_replies() {
    let mut pair = Pair::start();
    for seed in 0..150 {
        let mut chance = fastrand::Rng::with_seed(seed);
        pair.begin();
        if chance.u32(..8) == 0 {
            pair.condition("memory 1");
        }
        for step in 0..20 {
            let line = random(&mut chance);
            pair.send(chance.usize(..2), &words(&line), &format!("seed {seed}, step {step}: {line}"));
        }
        pair.end();
    }
    pair.finish();
}

fn random(chance: &mut fastrand::Rng) -> String {
    let (keys, tokens, times) = (["a", "b"], ["one", "two", "x"], ["900000", "700000", "500000"]);
    let (key, other) = (keys[chance.usize(..2)], keys[chance.usize(..2)]);
    let (token, time) = (tokens[chance.usize(..3)], times[chance.usize(..3)]);
    let counters = ["1700000000000", "5", "9007199254740991", "99999999999999999"];
    let number = counters[chance.usize(..4)];
    let fenced = format!("{time} 99000000");
    let counter = |key: &str| format!("redlock:fence:{{{key}}}");
    match chance.u32(..24) {
        0 => format!("SET {key} {token} NX PX {time} GET"),
        1 => format!("SET {key} {token} NX PX {time}"),
        2 => format!("EVAL @acquire 1 {key} {token} {time}"),
        3 => format!("EVAL @acquire 2 {key} {other} {token} {time}"),
        4 => format!("EVAL @extend 1 {key} {token} {time}"),
        5 => format!("EVAL @extend 2 {key} {other} {token} {time}"),
        6 | 7 => format!("EVAL @release 1 {key} {token}"),
        8 => format!("EVAL @release 2 {key} {other} {token}"),
        9 => format!("EVAL @inspect 1 {key}"),
        10 => format!("EVAL @keep 1 {key} {token} {time}"),
        11 => format!("EVAL @share 2 {key} {other} {token} {time}"),
        12 => format!("EVAL @share 2 {key} gate {token} {time}"),
        13 => format!("EVAL @acquire_fenced 2 {key} {} {token} {fenced}", counter(key)),
        14 => format!("EVAL @acquire_fenced 4 a b {} {} {token} {fenced}", counter("a"), counter("b")),
        15 => format!("EVAL @confirm 2 {key} {} {token} {fenced} {number}", counter(key)),
        16 => format!("EVAL @refill 4 a b {} {} {token} {fenced} {number}", counter("a"), counter("b")),
        17 => format!("SET {} {number} PX 900000", counter(key)),
        18 => format!("PTTL {key}"),
        19 => format!("DEL {key}"),
        20 => format!("ZREVRANGE {key} 0 9 WITHSCORES"),
        21 => format!("ZREVRANK {key} {token}"),
        22 => format!("ZCARD {key}"),
        _ => format!("TYPE {key}"),
    }
}
