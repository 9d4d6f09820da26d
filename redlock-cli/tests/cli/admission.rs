//! Servers that may have lost locks.

use std::process::Output;

use redlock_testkit::RedisServer;
use serde_json::Value;

use crate::common::{Cluster, output, text};

/// The TTL is longer than any test, so a quarantine ends only by `vouch`.
const LONGEST: [&str; 2] = ["--longest-ttl", "1h"];

fn redlock(cluster: &Cluster, args: &[&str]) -> Output {
    let (command, rest) = args.split_at(1);
    output(&mut cluster.redlock([command, &LONGEST, rest].concat()))
}

fn labels(cluster: &Cluster) -> Vec<String> {
    cluster.servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect()
}

/// Ends the quarantine of new servers.
fn admit(cluster: &Cluster) {
    let labels = labels(cluster);
    let words: Vec<_> = ["vouch"].into_iter().chain(labels.iter().map(String::as_str)).collect();
    let found = redlock(cluster, &words);
    assert_eq!(Some(0), found.status.code(), "{found:?}");
    let (stdout, stderr) = (text(&found.stdout), text(&found.stderr));
    assert_eq!((3, 3), (stdout.lines().count(), stderr.matches("you assert that").count()), "{found:?}");
}

fn json(found: &Output) -> Value {
    serde_json::from_slice(&found.stdout).unwrap_or_else(|error| panic!("{error}: {found:?}"))
}

/// Checks a quarantine in JSON.
fn is_quarantine(node: &Value) {
    let quarantine = &node["quarantine"];
    assert!(!quarantine["reason"].as_str().unwrap().is_empty(), "{node}");
    assert!((1..=3_636_002).contains(&quarantine["remaining_ms"].as_u64().unwrap()), "{node}");
}

#[test]
fn new_servers_do_not_count_until_an_operator_vouches_for_them() {
    let cluster = Cluster::new();
    assert_eq!(Some(0), output(&mut cluster.redlock(["health"])).status.code(), "without a longest TTL");
    let found = redlock(&cluster, &["health", "--json"]);
    let health = json(&found);
    assert_eq!((Some(69), Some(0)), (found.status.code(), health["healthy"].as_u64()), "{health}");
    health["nodes"].as_array().unwrap().iter().for_each(is_quarantine);
    let found = redlock(&cluster, &["run", "-n", "job", "true"]);
    assert!(
        found.status.code() == Some(69) && text(&found.stderr).contains("may have lost locks"),
        "{found:?}"
    );

    admit(&cluster);
    assert_eq!(Some(0), redlock(&cluster, &["health", "--all"]).status.code());
    assert_eq!(Some(0), redlock(&cluster, &["run", "-n", "job", "true"]).status.code());
    let again = redlock(&cluster, &["vouch", &labels(&cluster)[0]]);
    assert_eq!((Some(0), "", ""), (again.status.code(), &*text(&again.stdout), &*text(&again.stderr)));
}

#[test]
fn a_restarted_server_is_in_quarantine() {
    let cluster = Cluster::new();
    admit(&cluster);
    cluster.servers[1].restart();
    let code = |words: &[&str]| redlock(&cluster, words).status.code();
    assert_eq!((Some(0), Some(69)), (code(&["health"]), code(&["health", "--all"])), "two of three");
    let shown = text(&redlock(&cluster, &["health"]).stdout);
    assert!(shown.contains("2 of 3 nodes healthy") && shown.contains("counts again in "), "{shown}");
    is_quarantine(&json(&redlock(&cluster, &["health", "--json"]))["nodes"][1]);

    // The two others disagree, so the inspection needs the reply of the restarted server.
    cluster.servers[0].command(&["SET", "job", "web-1#0000", "PX", "3600000"]);
    let inspection = json(&redlock(&cluster, &["inspect", "--json", "job"]));
    let restarted = &inspection["nodes"][1];
    assert_eq!(
        ("undecided", "quarantined"),
        (inspection["status"].as_str().unwrap(), restarted["outcome"].as_str().unwrap())
    );
    is_quarantine(restarted);
    cluster.servers[0].kill();
    let shown = text(&redlock(&cluster, &["inspect", "job"]).stderr);
    assert!(shown.contains("may have lost locks"), "{shown}");
}

#[test]
fn a_longer_longest_ttl_of_another_program_is_a_note() {
    let cluster = Cluster::new();
    admit(&cluster);
    let shorter = |words: &[&str]| output(&mut cluster.redlock([words, &["--longest-ttl", "10s"]].concat()));
    let health = shorter(&["health"]);
    let shown = text(&health.stdout);
    let count = shown.matches("keeps a longest TTL of 3600s of another program").count();
    assert_eq!((Some(0), 3), (health.status.code(), count), "{shown}");
    let doctor = shorter(&["doctor", "--observe", "0", "--strict", "--json"]);
    let finding = &json(&doctor)["findings"][0];
    let nodes = finding["nodes"].as_array().unwrap().len();
    assert_eq!((Some(0), 3, "note"), (doctor.status.code(), nodes, finding["severity"].as_str().unwrap()));
    assert!(finding["problem"].as_str().unwrap().contains("longest TTL of 3600s"), "{finding}");
    assert!(!text(&redlock(&cluster, &["health"]).stdout).contains("longest TTL"), "its own");
}

#[test]
fn the_longest_ttl_comes_from_the_environment_and_bounds_ttls() {
    let cluster = Cluster::new();
    let code = |words: &[&str], value: &str| {
        output(cluster.redlock(words).env("REDLOCK_LONGEST_TTL", value)).status.code()
    };
    assert_eq!(Some(69), code(&["health"], "1h"));
    assert_eq!(Some(78), code(&["health"], "soon"));
    assert_eq!(Some(64), code(&["run", "--ttl", "30", "job", "true"], "10s"));
}

#[test]
fn an_operator_vouches_only_for_known_servers_that_reply() {
    let cluster = Cluster::new();
    let label = &labels(&cluster)[0];
    let unbounded = output(&mut cluster.redlock(["vouch", label]));
    assert!(
        unbounded.status.code() == Some(78) && text(&unbounded.stderr).contains("--longest-ttl"),
        "{unbounded:?}"
    );
    let unknown = redlock(&cluster, &["vouch", label, "10.9.9.9:1"]);
    assert!(unknown.status.code() == Some(64) && text(&unknown.stderr).contains(label), "{unknown:?}");
    let health = json(&redlock(&cluster, &["health", "--json"]));
    is_quarantine(&health["nodes"][0]);
    cluster.servers[0].kill();
    assert_eq!(Some(69), redlock(&cluster, &["vouch", label]).status.code());
}

#[test]
fn doctor_reports_quarantines_and_a_missing_longest_ttl() {
    let cluster = Cluster::of((0..3).map(|_| RedisServer::builder().persistent(true).start()).collect());
    let found = output(&mut cluster.redlock(["doctor", "--observe", "0"]));
    assert!(text(&found.stdout).contains("note: no longest TTL is set"), "{found:?}");

    let doctor = ["doctor", "--observe", "0", "--json"];
    let found = redlock(&cluster, &doctor);
    let first = &json(&found)["findings"][0];
    assert_eq!((Some(1), "error"), (found.status.code(), first["severity"].as_str().unwrap()), "{first}");
    assert!(first["problem"].as_str().unwrap().contains("may have lost locks"), "{first}");
    admit(&cluster);
    let found = redlock(&cluster, &doctor);
    assert!(found.status.code() == Some(0) && !text(&found.stdout).contains("longest TTL"), "{found:?}");
    cluster.servers[2].restart();
    let found = redlock(&cluster, &doctor);
    let first = &json(&found)["findings"][0];
    assert_eq!((Some(0), "warning"), (found.status.code(), first["severity"].as_str().unwrap()), "{first}");
}
