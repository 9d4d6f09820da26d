//! `--shared` and `--writer`.

use std::fs;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Cluster, beats, eventually, output, text, wait};

/// Reports its start, and runs until there is a file with the given name.
fn until(name: &str, end: &str) -> String {
    format!("echo > {name}; until [ -e {end} ]; do sleep 0.01; done")
}

/// Waits until a writer has locked the gate.
fn gate_is_locked(cluster: &Cluster) {
    let has_gate = |server: &redlock_testkit::RedisServer| server.command(&["EXISTS", "job:writer"]) == "1";
    let on_all = || cluster.servers.iter().all(has_gate).then_some(());
    eventually("a waiting writer", on_all);
}

/// Starts a command, and waits until its output shows that it holds the lock.
fn hold(cluster: &Cluster, name: &str, options: &[&str]) -> Child {
    let mut command = cluster.redlock([&["hold"], options, &["job"]].concat());
    let out = fs::File::create(cluster.path(name)).unwrap();
    let holder = command.stdin(Stdio::piped()).stdout(out).spawn().unwrap();
    cluster.lines(name);
    holder
}

fn release(mut holder: Child) {
    drop(holder.stdin.take());
    assert_eq!(Some(0), wait(&mut holder).code());
}

fn code(command: &mut Command) -> Option<i32> {
    output(command).status.code()
}

#[test]
fn readers_run_beside_each_other_and_a_plain_run_waits_for_them() {
    let cluster = Cluster::new();
    let first = cluster.run("first", &["--shared"], &until("one", "end-one"));
    cluster.lines("one");
    let second = cluster.run("second", &["-s"], &until("two", "end-two"));
    cluster.lines("two");
    let denied = cluster.run("denied", &["-n"], "echo > never").end();
    assert_eq!((Some(75), Some("conflict")), (denied.code(), denied.report["outcome"].as_str()));
    assert!(denied.stderr.contains("locked by readers"), "{denied:?}");
    assert!(!cluster.path("never").exists());

    let waiter = cluster.run("waiter", &["-v", "-w", "50"], "exit 4");
    cluster.says("waiter", "waiting");
    let ends = [("end-one", first), ("end-two", second)].map(|(file, run)| {
        fs::write(cluster.path(file), "").unwrap();
        run.end()
    });
    let waiter = waiter.end();
    assert_eq!(Some(4), waiter.code(), "{waiter:?}");
    for end in ends {
        assert_eq!(Some(0), end.code(), "{end:?}");
        assert!(end.at("ended_at") < waiter.at("granted_at"), "{end:?} {waiter:?}");
    }
}

#[test]
fn a_reader_waits_for_a_plain_run_and_for_a_writer() {
    for options in [&["--owner", "web-1"][..], &["--owner", "web-1", "--writer"]] {
        let cluster = Cluster::new();
        let holder = cluster.run("holder", options, &until("held", "end"));
        cluster.lines("held");
        for (options, code) in [(&["-n"][..], 75), (&["-w", "0.2"], 75), (&["-n", "-E", "9"], 9)] {
            let end = cluster.run("denied", &[&["--shared"], options].concat(), "echo > never").end();
            assert_eq!((Some(code), Some("conflict")), (end.code(), end.report["outcome"].as_str()));
            assert!(end.stderr.contains("web-1#"), "{end:?}");
        }
        let waiter = cluster.run("waiter", &["--shared", "-v", "-w", "50"], "exit 4");
        cluster.says("waiter", "waiting");
        fs::write(cluster.path("end"), "").unwrap();
        let (holder, waiter) = (holder.end(), waiter.end());
        assert_eq!((Some(0), Some(4)), (holder.code(), waiter.code()));
        assert!(holder.at("ended_at") < waiter.at("granted_at"), "{holder:?} {waiter:?}");
        assert!(!cluster.path("never").exists());
    }
}

#[test]
fn a_waiting_writer_has_precedence_over_new_readers() {
    let cluster = Cluster::new();
    let reader = cluster.run("reader", &["--shared"], &until("read", "end-reader"));
    cluster.lines("read");
    let writer = cluster.run("writer", &["--writer", "--fenced"], &until("written", "end-writer"));
    gate_is_locked(&cluster);
    let denied = cluster.run("denied", &["--shared", "-n"], "true").end();
    assert_eq!(Some(75), denied.code(), "beside a reader, but behind a writer: {denied:?}");
    assert_eq!(Some(75), code(&mut cluster.redlock(["wait", "--shared", "-w", "0.1", "job"])));

    let next = cluster.run("next", &["--shared", "-v"], "true");
    cluster.says("next", "waiting");
    fs::write(cluster.path("end-reader"), "").unwrap();
    cluster.lines("written");
    fs::write(cluster.path("end-writer"), "").unwrap();
    let (reader, writer, next) = (reader.end(), writer.end(), next.end());
    assert_eq!([Some(0); 3], [reader.code(), writer.code(), next.code()]);
    assert!(reader.at("ended_at") < writer.at("granted_at"), "{reader:?} {writer:?}");
    assert!(writer.at("ended_at") < next.at("granted_at"), "{writer:?} {next:?}");
    assert!(writer.report["fencing_token"].is_u64(), "{writer:?}");
    eventually("the release", || (cluster.keys() == 0).then_some(()));
}

#[test]
fn a_lost_read_lock_stops_the_command_in_time() {
    let cluster = Cluster::new();
    let script = format!("trap '' TERM; {}", beats("beats"));
    let reader = cluster.run("reader", &["--shared", "--ttl", "3"], &script);
    cluster.lines("beats");
    cluster.pause_all();
    let writer = cluster.run("writer", &["--writer", "--unavailable", "wait"], "true");
    let end = reader.end();
    assert_eq!(Some(79), end.code(), "{end:?}");
    assert!(end.at("term_sent_at") <= end.at("kill_sent_at"), "{end:?}");
    let last = cluster.last_beat("beats");
    assert!(last <= end.at("valid_until"), "dead before the validity ends: {end:?}");
    cluster.resume_all();
    let writer = writer.end();
    assert_eq!(Some(0), writer.code(), "{writer:?}");
    assert!(last < writer.at("granted_at"), "{writer:?}");
}

#[test]
fn deleted_readers_no_longer_exclude_others() {
    let cluster = Cluster::new();
    let script = "trap 'echo > stopping' TERM; echo > running; while :; do sleep 0.01; done";
    let reader = cluster.run("reader", &["--shared", "--ttl", "2"], script);
    cluster.lines("running");
    for server in &cluster.servers {
        server.command(&["DEL", "job"]);
    }
    let end = reader.end();
    assert_eq!(Some(79), end.code(), "{end:?}");
    assert!(!cluster.path("stopping").exists(), "SIGTERM was sent");
}

#[test]
fn a_killed_supervisor_ends_its_reader() {
    let cluster = Cluster::new();
    let reader = cluster.run("reader", &["--shared", "--ttl", "50"], &until("read", "never"));
    cluster.lines("read");
    reader.signal(Signal::KILL);
    assert_eq!(Some(0), cluster.run("writer", &["-w", "40"], "true").end().code());
}

#[test]
fn a_run_cannot_wait_for_its_own_reader() {
    let cluster = Cluster::new();
    let run = |script: &str| output(&mut cluster.shell(&script.replace("RUN", "$REDLOCK run")));
    for script in [
        "RUN -s job RUN job true",
        "RUN -s job RUN -w 50 job true",
        "RUN -s job RUN other RUN -w 50 --writer job true",
        "RUN -s job RUN -s other RUN -w 50 --also more job true",
        "RUN job RUN -s job true",
    ] {
        let found = run(script);
        assert_eq!(Some(64), found.status.code(), "{script}: {found:?}");
        assert!(text(&found.stderr).contains("nested"), "{found:?}");
    }
    assert_eq!(Some(0), run("RUN -s job RUN -s job true").status.code());
    let _other = cluster.run("other", &[], &until("held", "never"));
    cluster.lines("held");
    assert_eq!(Some(75), run("RUN -s another RUN -n job true").status.code());
}

#[test]
fn a_reader_inside_a_reader_does_not_wait_behind_a_writer() {
    let cluster = Cluster::new();
    let script = format!("{}; $REDLOCK run --shared job true", until("read", "go"));
    let reader = cluster.run("reader", &["--shared"], &script);
    cluster.lines("read");
    let writer = cluster.run("writer", &["--writer"], "true");
    gate_is_locked(&cluster);
    fs::write(cluster.path("go"), "").unwrap();
    let (reader, writer) = (reader.end(), writer.end());
    assert_eq!((Some(64), Some(0)), (reader.code(), writer.code()), "{reader:?}");
}

#[test]
fn other_commands_support_read_locks() {
    let cluster = Cluster::new();
    let holders = ["one", "two"].map(|name| hold(&cluster, name, &["--shared"]));
    for (words, expected) in [
        (&["hold", "-n"][..], 75),
        (&["hold", "-n", "--writer"], 75),
        (&["lock", "-n", "--writer", "--ttl", "60"], 75),
        (&["hold", "-n", "--slots", "2"], 0),
    ] {
        assert_eq!(Some(expected), code(&mut cluster.redlock([words, &["job"]].concat())), "{words:?}");
    }
    assert_eq!(Some(75), code(&mut cluster.redlock(["wait", "-w", "0.1", "job"])));
    assert_eq!(Some(0), code(&mut cluster.redlock(["wait", "--shared", "job"])));

    let found = output(&mut cluster.redlock(["inspect", "job"]));
    assert_eq!(Some(75), found.status.code());
    assert!(text(&found.stdout).starts_with("\"job\" is held by readers for at least "), "{found:?}");
    let found = output(&mut cluster.redlock(["inspect", "--json", "job"]));
    let json: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!((Some("held"), Some("readers")), (json["status"].as_str(), json["holder"].as_str()));
    let found = output(&mut cluster.redlock(["break", "job", "--holder", "readers"]));
    assert!(found.status.code() == Some(64) && text(&found.stderr).contains("readers hold"), "{found:?}");

    holders.into_iter().for_each(release);
    assert_eq!(Some(0), code(&mut cluster.redlock(["wait", "job"])));
    let writer = hold(&cluster, "writer", &["--writer"]);
    assert_eq!(Some(75), code(&mut cluster.redlock(["wait", "--shared", "-w", "0.1", "job"])));
    release(writer);
}

#[test]
fn options_that_readers_lack_are_wrong_usage() {
    let cluster = Cluster::new();
    for words in [
        &["run", "--shared", "--slots", "2", "job", "true"][..],
        &["run", "--shared", "--writer", "job", "true"],
        &["run", "--shared", "--also", "other", "job", "true"],
        &["run", "--shared", "--fenced", "job", "true"],
        &["run", "--shared", "--once-per", "1h", "job", "true"],
        &["run", "--shared", "--at-least", "1h", "job", "true"],
        &["hold", "--shared", "--fenced", "job"],
        &["hold", "--shared", "job", "other"],
        &["wait", "--shared", "job", "other"],
        &["lock", "--shared", "--ttl", "60", "job"],
    ] {
        let found = output(&mut cluster.redlock(words));
        assert_eq!(Some(64), found.status.code(), "{words:?}");
        assert!(text(&found.stderr).contains("--shared"), "{found:?}");
    }
    assert_eq!(0, cluster.keys());
}

#[test]
fn doctor_checks_the_rights_of_readers() {
    let cluster = Cluster::new();
    for server in &cluster.servers {
        server.command(&["ACL", "SETUSER", "default", "-zadd"]);
    }
    let doctor =
        |options: &[&str]| output(&mut cluster.redlock([&["doctor", "--observe", "0"], options].concat()));
    assert_eq!(Some(0), doctor(&[]).status.code());
    let found = doctor(&["--shared"]);
    assert_eq!(Some(1), found.status.code(), "{found:?}");
    assert!(
        text(&found.stdout).contains("the user may not run ZADD\n  consequence: read locks fail"),
        "{found:?}"
    );
}
