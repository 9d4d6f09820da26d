//! `redlock run --slots`.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{Cluster, output, text, wait};

/// Writes the slot into a file, and runs until there is a file with the given name.
fn until(name: &str, end: &str) -> String {
    format!("echo $REDLOCK_SLOT > {name}; until [ -e {end} ]; do sleep 0.01; done")
}

#[test]
fn one_run_holds_each_slot() {
    let cluster = Cluster::new();
    let first = cluster.run("first", &["--slots", "2"], &until("one", "end-one"));
    let second = cluster.run("second", &["--slots", "2"], &until("two", "end-two"));
    let (one, two) = (cluster.number("one"), cluster.number("two"));
    assert_eq!(1, one + two, "the slots 0 and 1: {one} {two}");

    let denied = cluster.run("denied", &["--slots", "2", "-n"], "echo > never").end();
    assert_eq!((Some(75), Some("conflict")), (denied.code(), denied.report["outcome"].as_str()));
    assert!(denied.stderr.contains("all 2 slots of \"job\" are held, after "), "{denied:?}");
    let inspect = |count: &str| output(&mut cluster.redlock(["inspect", "--slots", count, "job"]));
    let (both, three) = (inspect("2"), inspect("3"));
    assert_eq!(
        (Some(75), 2),
        (both.status.code(), text(&both.stdout).matches("is held by").count()),
        "{both:?}"
    );
    assert!(text(&three.stdout).contains("\"job:slot:2\" is free"), "{three:?}");
    assert!(!cluster.path("never").exists());
    let name = format!("job:slot:{one}");
    assert_eq!(Some(75), output(&mut cluster.redlock(["run", "-n", &name, "true"])).status.code());

    let waiter = cluster.run("waiter", &["--slots", "2", "-w", "50"], &until("three", "end-three"));
    fs::write(cluster.path("end-two"), "").unwrap();
    assert_eq!(Some(0), second.end().code());
    assert_eq!(two, cluster.number("three"), "the slot that became free");
    fs::write(cluster.path("end-three"), "").unwrap();
    fs::write(cluster.path("end-one"), "").unwrap();
    let (first, waiter) = (first.end(), waiter.end());
    assert_eq!((Some(0), Some(0)), (first.code(), waiter.code()));
    assert_eq!(Some(i64::from(two)), waiter.report["slot"].as_i64());
}

#[test]
fn the_environment_of_the_command_has_the_slot() {
    let cluster = Cluster::new();
    let script = "echo \"$REDLOCK_HELD $REDLOCK_SLOT ${REDLOCK_FENCING_TOKEN:+fenced}\"; \
                  $REDLOCK run other bash -c 'echo \"$REDLOCK_HELD ${REDLOCK_SLOT-none}\"'";
    let words = ["run", "--slots", "1", "--fenced", "job", "bash", "-c", script];
    let found = output(&mut cluster.redlock(words));
    assert_eq!("job:slot:0 0 fenced\nother none\n", text(&found.stdout), "{found:?}");
}

#[test]
fn a_period_applies_to_each_slot() {
    let cluster = Cluster::new();
    let codes = [(); 3].map(|()| {
        let words = ["run", "--slots", "2", "--once-per", "1h", "job", "true"];
        output(&mut cluster.redlock(words)).status.code()
    });
    assert_eq!([Some(0), Some(0), Some(75)], codes);
}

#[test]
fn a_run_cannot_wait_for_the_slots_of_its_own_ancestors() {
    let cluster = Cluster::new();
    let nested = |slots: &str| {
        let run = format!("$REDLOCK run --slots {slots} job");
        output(&mut cluster.shell(&format!("{run} {run} true")))
    };
    let found = nested("1");
    assert!(found.status.code() == Some(64) && text(&found.stderr).contains("nested"), "{found:?}");
    assert_eq!(Some(0), nested("2").status.code());
    let _other = cluster.run("other", &["--slots", "2"], &until("held", "never"));
    cluster.lines("held");
    assert_eq!(Some(75), nested("2 -n").status.code(), "the other run may end");
}

#[test]
fn other_commands_support_slots() {
    let cluster = Cluster::new();
    let slots = ["--slots", "2"];
    let code =
        |words: &[&str]| output(&mut cluster.redlock([words, &slots, &["job"]].concat())).status.code();
    let locked = output(&mut cluster.redlock(["lock", "--ttl", "60", "--slots", "2", "job"]));
    let handle = text(&locked.stdout);
    assert!(locked.status.code() == Some(0) && handle.contains("\"job:slot:"), "{locked:?}");
    assert_eq!(Some(0), code(&["wait"]), "one of two is free");

    let mut holder = cluster.redlock(["hold", "--slots", "2", "job"]);
    let out = fs::File::create(cluster.path("out")).unwrap();
    let mut holder = holder.stdin(Stdio::piped()).stdout(out).spawn().unwrap();
    let held: Value = serde_json::from_str(&cluster.lines("out")[0]).unwrap();
    let name = format!("job:slot:{}", held["slot"]);
    assert_ne!(handle.contains("slot:0"), name.ends_with('0'), "{handle} {name}");
    assert_eq!(Some(75), output(&mut cluster.redlock(["inspect", &name])).status.code());
    for denied in [&["wait", "-w", "0.1"][..], &["lock", "-n", "--ttl", "60"], &["hold", "-n"]] {
        assert_eq!(Some(75), code(denied), "{denied:?}");
    }

    let mut waiter = cluster.redlock(["wait", "--slots", "2", "job"]).spawn().unwrap();
    assert_eq!(Some(0), output(cluster.redlock(["unlock"]).env("REDLOCK_HANDLE", &handle)).status.code());
    assert_eq!(Some(0), wait(&mut waiter).code());
    drop(holder.stdin.take());
    assert_eq!(Some(0), wait(&mut holder).code());
    assert_eq!(Some(64), code(&["wait", "another"]), "slots have a single name");
}
