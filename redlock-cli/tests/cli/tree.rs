//! All processes of the command end before the lock does.

use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;

use crate::common::{Cluster, eventually, is_alive, state};

#[test]
fn a_shell_that_becomes_its_child_leaves_no_process() {
    let cluster = Cluster::new();
    let run = cluster.run(
        "run",
        &["--ttl", "2"],
        "sleep 1000 & echo $! > child; echo $$ > running; exec sleep 1000",
    );
    let pids = [cluster.number("child"), cluster.number("running")];
    cluster.pause_all();
    assert_eq!(Some(79), run.end().code());
    assert!(!pids.into_iter().any(is_alive));
    cluster.resume_all();
}

#[test]
fn processes_that_fork_twice_and_begin_a_session_are_found() {
    let cluster = Cluster::new();
    let script = "( setsid bash -c 'trap \"\" TERM; echo $$ > far; exec sleep 1000' & ); until [ -s far ]; do sleep 0.01; done; exit 3";
    let end = cluster.run("run", &["--ttl", "4"], script).end();
    assert_eq!(Some(3), end.code(), "{end:?}");
    assert!(!is_alive(cluster.number("far")));
    assert!(
        end.at("ended_at") <= end.at("kill_sent_at") && end.at("kill_sent_at") <= end.at("tree_ended_at")
    );
    assert_eq!(0, cluster.keys());
}

#[test]
fn leftovers_can_be_awaited_under_the_lock() {
    let cluster = Cluster::new();
    let script = "( setsid bash -c 'echo $$ > far; until [ -e go ]; do sleep 0.01; done' & ); until [ -s far ]; do sleep 0.01; done";
    let run = cluster.run("run", &["--leftover", "wait"], script);
    let far = cluster.number("far");
    assert_eq!((true, 3), (is_alive(far), cluster.keys()));
    std::fs::write(cluster.path("go"), "").unwrap();
    assert_eq!(Some(0), run.end().code());
    assert!(!is_alive(far));
}

#[test]
fn leftovers_can_be_ignored() {
    let cluster = Cluster::new();
    let script =
        "( setsid bash -c 'echo $$ > far; exec sleep 1000' & ); until [ -s far ]; do sleep 0.01; done";
    let end = cluster.run("run", &["--leftover", "leave"], script).end();
    let far = cluster.number("far");
    assert_eq!((Some(0), true, 0), (end.code(), is_alive(far), cluster.keys()));
    crate::common::send(far, Signal::KILL);
}

#[test]
fn a_hundred_processes_that_go_on_forking_are_killed() {
    let cluster = Cluster::new();
    // A hundred processes keep starting short processes in separate sessions.
    let script = "trap '' TERM; for i in $(seq 100); do (while :; do setsid sleep 0.2; done) & done; echo > running; wait";
    let run = cluster.run("run", &["--kill-after", "0.1"], script);
    cluster.lines("running");
    run.signal(Signal::TERM);
    let end = run.end();
    assert_eq!(Some(9), end.status.signal(), "{end:?}");
    let marker = format!("{}", cluster.path("").display());
    let left = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path();
        let folder = std::fs::read_link(path.join("cwd")).ok()?;
        marker.starts_with(&*folder.to_string_lossy()).then(|| folder.as_os_str().len() > 5).filter(|is| *is)
    });
    assert_eq!(0, left.count());
}

/// The pid stays in use, so no signal can reach another process.
#[test]
fn a_command_is_not_reaped_before_its_leftovers_have_ended() {
    let cluster = Cluster::new();
    let script = "echo $$ > command; for i in 1 2; do ( setsid bash -c \"echo \\$\\$ > far-$i; until [ -e go-$i ]; do sleep 0.01; done\" & ); until [ -s far-$i ]; do sleep 0.01; done; done; exit 3";
    let run = cluster.run("run", &["--leftover", "wait"], script);
    let (command, first) = (cluster.number("command"), cluster.number("far-1"));
    cluster.lines("far-2");
    std::fs::write(cluster.path("go-1"), "").unwrap();
    eventually("the removal of a leftover", || state(first).is_none().then_some(()));
    eventually("the end of the command", || (state(command) == Some('Z')).then_some(()));
    assert_eq!(3, cluster.keys());
    std::fs::write(cluster.path("go-2"), "").unwrap();
    assert_eq!(Some(3), run.end().code());
}
