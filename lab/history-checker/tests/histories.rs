//! The checks on histories that are written by hand: a correct one, and one with each kind of violation.
#![allow(clippy::unwrap_used)] // a panic is a failed test

use redlock_history_checker::{
    Event, FaultLine, History, HoldId, Interval, Key, Mode, Violation, around, check, overview,
};

/// Two clients that follow the rules: locks one after the other, two readers at once, tokens that increase, a release,
/// a loss, an extension, a lease that is left, one that is never acquired, and one that ends with its process.
const CORRECT: &str = r#"
{"time":10,"process":"a","hold":1,"resource":"lock","event":"acquire","mode":"exclusive","ttl":100}
{"time":20,"process":"a","hold":1,"resource":"lock","event":"acquired","valid_until":100}
{"time":40,"process":"a","hold":1,"resource":"lock","event":"extend","ttl":100}
{"time":45,"process":"a","hold":1,"resource":"lock","event":"extended","valid_until":138}
{"time":130,"process":"a","hold":1,"resource":"lock","event":"release"}
{"time":140,"process":"a","hold":1,"resource":"lock","event":"released","outcome":"released"}
{"time":15,"process":"b","hold":1,"resource":"lock","event":"acquire","mode":"exclusive","ttl":200}
{"time":135,"process":"b","hold":1,"resource":"lock","event":"acquired","valid_until":200}
{"time":170,"process":"b","hold":1,"resource":"lock","event":"lost","reason":"revoked"}
{"time":180,"process":"b","hold":2,"resource":"lock","event":"acquire","mode":"exclusive","ttl":100}
{"time":190,"process":"b","hold":2,"resource":"lock","event":"not-acquired","reason":"contended"}
{"time":150,"process":"a","hold":2,"resource":"lock","event":"acquire","mode":"exclusive","ttl":900}
{"time":171,"process":"a","hold":2,"resource":"lock","event":"acquired","valid_until":900}
{"time":200,"process":"a","hold":3,"resource":"rw","event":"acquire","mode":"read","ttl":100}
{"time":210,"process":"a","hold":3,"resource":"rw","event":"acquired","valid_until":290}
{"time":211,"process":"a","hold":3,"resource":"rw","event":"left"}
{"time":220,"process":"b","hold":3,"resource":"rw","event":"acquire","mode":"read","ttl":100}
{"time":225,"process":"b","hold":3,"resource":"rw","event":"acquired","valid_until":300}
{"time":240,"process":"b","hold":3,"resource":"rw","event":"release"}
{"time":250,"process":"b","hold":4,"resource":"rw","event":"acquire","mode":"write","ttl":150}
{"time":290,"process":"b","hold":4,"resource":"rw","event":"acquired","valid_until":390,"token":7}
{"time":300,"process":"b","hold":4,"resource":"rw","event":"release"}
{"time":310,"process":"b","hold":5,"resource":"rw","event":"acquire","mode":"write","ttl":100}
{"time":320,"process":"b","hold":5,"resource":"rw","event":"acquired","valid_until":400,"token":8}
{"time":330,"process":"b","hold":5,"resource":"rw","event":"release"}
{"time":420,"process":"b","hold":6,"resource":"lock","event":"acquire","mode":"exclusive","ttl":100}
{"time":430,"process":"b","hold":6,"resource":"lock","event":"acquired","valid_until":500}
"#;

const FAULTS: &str = r#"
{"time":60,"number":0,"kind":"unplug","phase":"begin","targets":["s1"]}
{"time":90,"number":0,"kind":"unplug","phase":"end","targets":["s1"]}
{"time":400,"number":1,"kind":"kill-client","phase":"begin","targets":["a"]}
"#;

const KEYS: &str = r#"
{"server":"s1","key":"redlock:admission","ttl":-1}
{"server":"s1","key":"redlock:fence:rw","ttl":86000000}
{"server":"s2","key":"redlock:nodes:other","ttl":20}
"#;

fn parsed<T: serde::de::DeserializeOwned>(lines: &str) -> Vec<T> {
    lines.trim().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Builds a history of the lines above, with one replacement in its events.
fn history(find: &str, replace: &str) -> Result<History, String> {
    assert_eq!(1, CORRECT.matches(find).count(), "{find}");
    let events = parsed::<Event>(&CORRECT.replace(find, replace));
    History::new(events, parsed::<FaultLine>(FAULTS), parsed::<Key>(KEYS))
}

fn violations(find: &str, replace: &str) -> Vec<Violation> {
    check(&history(find, replace).unwrap()).unwrap().1
}

fn id(process: &str, hold: u64) -> HoldId {
    HoldId { process: process.to_owned(), hold }
}

fn error(find: &str, replace: &str) -> String {
    history(find, replace).unwrap_err()
}

#[test]
fn a_correct_history_has_no_violations() {
    let history = history("{\"time\":10,", "{\"time\":10,").unwrap();
    let (figures, violations) = check(&history).unwrap();
    assert_eq!(Vec::<Violation>::new(), violations);
    let figures = figures.to_string();
    for row in [
        "client processes 2",
        "acquired: exclusive 4",
        "acquired: write 2",
        "acquired: read 2",
        "acquired: with a fencing token 2",
        "not acquired: contended 1",
        "extensions: extended 1",
        "releases: left to expire 1",
        "releases: released 1",
        "leases that ended without release: revoked 1",
        "faults: link down 1",
        "faults: client killed 1",
        "readers at the same time 1",
        "overlaps 0",
    ] {
        let found = figures.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == row);
        assert!(found, "{row} is not in\n{figures}");
    }
}

/// Returns the lines of an acquisition of another lock by another process, which begins 5 before its result.
fn lease(process: &str, mode: Mode, acquired: u64, valid_until: u64) -> String {
    let began = format!(r#"{{"event":"acquire","mode":"{mode}","ttl":1000}}"#);
    let known = format!(r#"{{"event":"acquired","valid_until":{valid_until}}}"#);
    event(process, acquired - 5, &began) + &event(process, acquired, &known)
}

/// Returns the line of an event of that lock.
fn event(process: &str, time: u64, event: &str) -> String {
    let rest = event.strip_prefix('{').unwrap();
    format!(r#"{{"time":{time},"process":"{process}","hold":1,"resource":"other",{rest}"#) + "\n"
}

/// Returns the time during which two of these leases overlap, if there is such a violation.
fn overlapping(lines: &[String]) -> Option<(u64, u64)> {
    let events = format!("{}\n{}", CORRECT.trim(), lines.concat());
    let killed = r#"{"time":60,"number":2,"kind":"kill-client","phase":"begin","targets":["k"]}"#;
    let faults = format!("{FAULTS}{killed}");
    let history = History::new(parsed(&events), parsed(&faults), parsed(KEYS)).unwrap();
    match &check(&history).unwrap().1[..] {
        [] => None,
        [Violation::Overlap { resource, both, .. }] if resource == "other" => Some((both.from, both.until)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_holders_are_found_until_the_end_of_the_validity() {
    let first = lease("x", Mode::Exclusive, 20, 100);
    assert_eq!(None, overlapping(&[first.clone(), lease("y", Mode::Exclusive, 100, 200)]));
    assert_eq!(Some((99, 100)), overlapping(&[first.clone(), lease("y", Mode::Exclusive, 99, 200)]));
    // An extension counts from its result on, and so does a look at a lease that is renewed in the background.
    let extended = event("x", 50, r#"{"event":"extend","ttl":1000}"#)
        + &event("x", 55, r#"{"event":"extended","valid_until":150}"#);
    let second = lease("y", Mode::Exclusive, 120, 200);
    assert_eq!(Some((120, 150)), overlapping(&[first.clone(), extended, second.clone()]));
    let looked = event("x", 90, r#"{"event":"held","valid_until":130}"#);
    assert_eq!(Some((120, 130)), overlapping(&[first.clone(), looked, second]));
    // A lease that is left remains valid.
    let left = event("x", 30, r#"{"event":"left"}"#);
    assert_eq!(Some((99, 100)), overlapping(&[first, left, lease("y", Mode::Exclusive, 99, 200)]));
}

#[test]
fn two_holders_are_found_until_a_release_a_loss_or_the_death_of_the_process() {
    let release = event("x", 60, r#"{"event":"release"}"#);
    let lost = event("x", 60, r#"{"event":"lost","reason":"revoked"}"#);
    for (process, end) in [("x", release), ("x", lost), ("k", String::new())] {
        let with_second = |acquired| {
            let leases = [(process, 20, 100), ("y", acquired, 200)];
            let [first, second] =
                leases.map(|(process, acquired, until)| lease(process, Mode::Exclusive, acquired, until));
            overlapping(&[first, end.clone(), second])
        };
        assert_eq!(None, with_second(60), "{process} {end}");
        assert_eq!(Some((59, 60)), with_second(59), "{process} {end}");
    }
}

#[test]
fn a_pair_of_holders_counts_once() {
    let look = |process, time| event(process, time, r#"{"event":"held","valid_until":100}"#);
    let leases = [lease("x", Mode::Exclusive, 20, 100), lease("y", Mode::Exclusive, 30, 100)];
    let looks = [look("x", 35), look("y", 40), look("x", 45), look("y", 50)];
    assert_eq!(Some((30, 100)), overlapping(&[leases.concat(), looks.concat()]));
}

#[test]
fn a_reader_beside_a_writer_is_found_in_either_order() {
    let two = |first, second| overlapping(&[lease("x", first, 20, 100), lease("y", second, 90, 200)]);
    assert_eq!(Some((90, 100)), two(Mode::Read, Mode::Write));
    assert_eq!(Some((90, 100)), two(Mode::Write, Mode::Read));
    assert_eq!(Some((90, 100)), two(Mode::Write, Mode::Write));
    assert_eq!(None, two(Mode::Read, Mode::Read));
}

#[test]
fn tokens_that_do_not_increase_are_found() {
    for token in [7, 6] {
        let expected = Violation::Token {
            resource: "rw".to_owned(),
            first: (id("b", 4), 7),
            second: (id("b", 5), token),
            between: Interval { from: 290, until: 310 },
        };
        assert_eq!([expected], violations("\"token\":8", &format!("\"token\":{token}"))[..]);
    }
}

#[test]
fn tokens_of_acquisitions_in_flight_at_the_same_time_may_be_in_any_order_but_not_equal() {
    let concurrent = |token| {
        let lines = CORRECT.replace("{\"time\":310,\"process\":\"b\"", "{\"time\":280,\"process\":\"c\"");
        let lines = lines.replace("\"process\":\"b\",\"hold\":5", "\"process\":\"c\",\"hold\":5");
        let lines = lines.replace("\"token\":8", token);
        let history = History::new(parsed(&lines), parsed(FAULTS), parsed(KEYS)).unwrap();
        check(&history).unwrap().1
    };
    assert_eq!(Vec::<Violation>::new(), concurrent("\"token\":6"));
    assert!(matches!(concurrent("\"token\":7")[..], [Violation::Token { .. }]));
}

#[test]
fn leftover_keys_are_found() {
    let with = |keys: &str| {
        let history = History::new(parsed(CORRECT), parsed(FAULTS), parsed(keys)).unwrap();
        check(&history).map(|(_, violations)| violations)
    };
    let found = with(&format!("{KEYS}{{\"server\":\"s3\",\"key\":\"lock\",\"ttl\":-1}}")).unwrap();
    assert_eq!([Violation::Leftover { server: "s3".to_owned(), key: "lock".to_owned(), ttl: -1 }], found[..]);
    assert!(with("").unwrap_err().contains("keys at the end"));
}

#[test]
fn a_history_that_cannot_show_a_violation_is_an_error() {
    let without = |parts: &[&str]| {
        let lines: Vec<_> =
            CORRECT.lines().filter(|line| !parts.iter().any(|part| line.contains(part))).collect();
        let history = History::new(parsed(&lines.join("\n")), parsed(FAULTS), parsed(KEYS)).unwrap();
        check(&history).unwrap_err()
    };
    let [writers, others] = ["\"b\",\"hold\":4", "\"b\",\"hold\":5"];
    let readers = ["\"a\",\"hold\":3", "\"b\",\"hold\":3"];
    assert!(without(&["\"resource\":\"lock\""]).contains("no lease with the mode exclusive"));
    assert!(without(&[writers, others]).contains("no lease with the mode write"));
    assert!(without(&readers).contains("no lease with the mode read"));
    assert!(without(&readers[..1]).contains("no readers at the same time"));
    let tokenless = CORRECT.replace(",\"token\":7", "").replace(",\"token\":8", "");
    let history = History::new(parsed(&tokenless), parsed(FAULTS), parsed(KEYS)).unwrap();
    assert!(check(&history).unwrap_err().contains("no fencing token"));
}

#[test]
fn a_malformed_history_is_an_error() {
    let acquire = "\"event\":\"acquire\",\"mode\":\"exclusive\",\"ttl\":200";
    assert!(error(acquire, "\"event\":\"release\"").contains("an unknown acquisition"));
    assert!(error("{\"time\":45,", "{\"time\":39,").contains("time runs backward"));
    assert!(error("\"event\":\"extend\",\"ttl\":100", "\"event\":\"left\"").contains("without a beginning"));
    let again =
        error("{\"time\":180,\"process\":\"b\",\"hold\":2", "{\"time\":180,\"process\":\"b\",\"hold\":1");
    assert!(again.contains("began before"), "{again}");
    assert!(
        error("\"event\":\"not-acquired\",\"reason\":\"contended\"", "\"event\":\"release\"")
            .contains("not acquired")
    );
    let other = error("\"resource\":\"lock\",\"event\":\"lost\"", "\"resource\":\"rw\",\"event\":\"lost\"");
    assert!(other.contains("another resource"), "{other}");
}

#[test]
fn a_violation_is_drawn_with_its_leases_and_faults() {
    // In milliseconds, because a picture shows at least a second before and after.
    let slow = |lines: &str| -> String {
        let slow = |line: &str| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            for name in ["time", "valid_until", "ttl"] {
                if let Some(time) = line.get_mut(name) {
                    *time = (time.as_u64().unwrap() * 1_000_000).into();
                }
            }
            format!("{line}\n")
        };
        lines.trim().lines().map(slow).collect()
    };
    let events = slow(&CORRECT.replace("{\"time\":135,", "{\"time\":65,"));
    let history = History::new(parsed(&events), parsed(&slow(FAULTS)), parsed(KEYS)).unwrap();
    let violations = check(&history).unwrap().1;
    let picture = around(&violations[0], &history).unwrap();
    for part in ["a#1 (exclusive) and b#1 (exclusive)", "a#1 exclusive", "link down: s1", "==="] {
        assert!(picture.contains(part), "{part} is not in\n{picture}");
    }
    assert!(!picture.contains("rw"), "{picture}");
    let overview = overview(&history, &violations);
    assert!(overview.contains('!') && overview.contains("link down"), "{overview}");
}
