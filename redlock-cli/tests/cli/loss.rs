//! The lock cannot be kept.

use crate::common::{Cluster, beats, eventually, is_alive, sleep};

/// A command that ignores the first signal, with a descendant that leaves its group and its session.
fn stubborn() -> String {
    format!("trap '' TERM; setsid bash -c '{}' & {}", beats("far"), beats("near"))
}

#[test]
fn all_nodes_hang() {
    let cluster = Cluster::new();
    let first = cluster.run("first", &["--ttl", "6"], &stubborn());
    cluster.lines("near");
    cluster.lines("far");
    cluster.pause_all();
    let second =
        cluster.run("second", &["--unavailable", "wait"], "read t _ < /proc/uptime; echo $t > started");

    let end = first.end();
    assert_eq!(Some(79), end.code(), "{end:?}");
    assert_eq!("redlock: lock lost, command stopped: ", &end.stderr[..37]);
    assert_eq!(1, end.stderr.lines().count(), "{}", end.stderr);
    assert!(end.report["loss"].is_string() && end.at("boot_time") > 0.0, "{end:?}");
    // S_term = V - A - G, and S_kill = V - A, for A = 0.12 s and G = 1.5 s.
    assert!(end.at("term_sent_at") >= end.at("valid_until") - 1.62, "{end:?}");
    assert!(end.at("kill_sent_at") >= end.at("term_sent_at"), "{end:?}");
    for file in ["near", "far"] {
        assert!(
            cluster.last_beat(file) <= end.at("valid_until"),
            "{file} is dead before the validity ends: {end:?}"
        );
    }

    cluster.resume_all();
    assert_eq!(Some(0), second.end().code());
    let started = cluster.last_beat("started");
    for file in ["near", "far"] {
        assert!(
            cluster.last_beat(file) < started,
            "{file}: the second command started before the first was dead"
        );
    }
}

#[test]
fn a_hung_minority_has_no_effect() {
    let cluster = Cluster::new();
    let run = cluster.run("run", &["--ttl", "2"], "echo > running; sleep 3");
    cluster.lines("running");
    cluster.servers[1].pause();
    let end = run.end();
    assert_eq!((Some(0), ""), (end.code(), &*end.stderr), "{end:?}");
    cluster.servers[1].resume();
}

#[test]
fn a_majority_that_recovers_in_time_has_no_effect() {
    let cluster = Cluster::new();
    let run = cluster.run("run", &["--ttl", "6"], "echo > running; sleep 7");
    cluster.lines("running");
    cluster.pause_all();
    sleep(1.0);
    cluster.resume_all();
    let end = run.end();
    assert_eq!((Some(0), ""), (end.code(), &*end.stderr), "{end:?}");
}

#[test]
fn deleted_keys_no_longer_exclude_others_so_there_is_no_grace() {
    let cluster = Cluster::new();
    let script = "trap 'echo > stopping; exit 0' TERM; echo > running; while :; do sleep 0.01; done";
    let run = cluster.run("run", &["--ttl", "2"], script);
    cluster.lines("running");
    for server in &cluster.servers {
        server.command(&["FLUSHALL"]);
    }
    let end = run.end();
    assert_eq!(Some(79), end.code(), "{end:?}");
    assert!(!cluster.path("stopping").exists(), "SIGTERM was sent");
    assert_eq!(Some(9), end.report["command_signal"].as_i64().map(|signal| i32::try_from(signal).unwrap()));
}

#[test]
fn stolen_grace_allows_an_overlap() {
    let cluster = Cluster::new();
    let script = "trap 'echo > stopping; exit 0' TERM; echo > running; while :; do sleep 0.01; done";
    let run = cluster.run("run", &["--ttl", "2", "--stolen-grace", "30"], script);
    cluster.lines("running");
    for server in &cluster.servers {
        server.command(&["FLUSHALL"]);
    }
    assert_eq!(Some(79), run.end().code());
    cluster.lines("stopping");
}

#[test]
fn a_stopped_command_that_returns_success_counts_as_stopped() {
    let cluster = Cluster::new();
    let script = "trap 'echo > stopping; exit 0' TERM; echo > running; while :; do sleep 0.01; done";
    let run = cluster.run("run", &["--ttl", "2"], script);
    cluster.lines("running");
    cluster.pause_all();
    let end = run.end();
    assert_eq!((Some(79), Some(0)), (end.code(), end.report["command_code"].as_i64()), "{end:?}");
    cluster.lines("stopping");
    cluster.resume_all();
}

#[test]
fn a_renewal_after_the_first_signal_does_not_save_the_command() {
    let cluster = Cluster::new();
    let script = "trap 'echo > stopping' TERM; echo $$ > running; while :; do sleep 0.01; done";
    let run = cluster.run("run", &["--ttl", "8"], script);
    let pid = cluster.number("running");
    cluster.pause_all();
    cluster.lines("stopping");
    cluster.resume_all();
    let end = run.end();
    assert_eq!(Some(79), end.code(), "{end:?}");
    assert!(!is_alive(pid));
    // The lock is released, not left to its TTL: another run acquires it before the TTL would have passed.
    eventually("the release", || (cluster.keys() == 0).then_some(()));
}

#[test]
fn a_newer_claim_ends_a_fenced_run_in_time() {
    let cluster = Cluster::new();
    let run = cluster.run("run", &["--fenced", "--ttl", "3"], &format!("trap '' TERM; {}", beats("beats")));
    cluster.lines("beats");
    for server in &cluster.servers {
        server.command(&["INCR", "redlock:fence:{job}"]);
    }
    let end = run.end();
    assert_eq!(Some(79), end.code(), "{end:?}");
    assert!(end.report["loss"].as_str().is_some_and(|loss| loss.contains("newer claim")), "{end:?}");
    assert!(cluster.last_beat("beats") <= end.at("valid_until"), "{end:?}");
}

/// The servers have the node timeout to reply, so the run waits at least as long for the end of its lock.
#[test]
fn a_slow_release_is_awaited() {
    for options in [&[][..], &["--at-least", "1h"]] {
        let cluster = Cluster::new();
        let options = [&["--node-timeout", "50s", "--ttl", "1h"], options].concat();
        let run = cluster.run("run", &options, "echo > running; until [ -e go ]; do sleep 0.01; done");
        cluster.lines("running");
        cluster.pause_all();
        std::fs::write(cluster.path("go"), "").unwrap();
        sleep(3.0);
        cluster.resume_all();
        let end = run.end();
        assert_eq!((Some(0), ""), (end.code(), &*end.stderr), "{end:?}");
    }
}

#[test]
fn a_command_that_ends_by_itself_keeps_its_code() {
    let cluster = Cluster::new();
    let run =
        cluster.run("run", &["--ttl", "30"], "echo > running; until [ -e go ]; do sleep 0.01; done; exit 5");
    cluster.lines("running");
    cluster.pause_all();
    std::fs::write(cluster.path("go"), "").unwrap();
    let end = run.end();
    assert_eq!(Some(5), end.code(), "{end:?}");
    assert!(end.stderr.contains("release"), "{end:?}");
    cluster.resume_all();
}
