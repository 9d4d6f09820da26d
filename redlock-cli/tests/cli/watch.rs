//! Supervisor and keeper watch each other.

use std::fs;

use rustix::process::Signal;

use crate::common::{Cluster, beats, eventually, is_alive, output, send, sleep, state, wait_until_dead};

const GRANDCHILDREN: &str =
    "sleep 1000 & echo $! > child; setsid sleep 1000 & echo $! > far; echo $$ > running; sleep 1000";

#[test]
fn a_killed_supervisor_ends_the_command_and_frees_the_lock() {
    let cluster = Cluster::new();
    let run = cluster.run("run", &["--ttl", "600"], GRANDCHILDREN);
    let pids = ["child", "far", "running"].map(|file| cluster.number(file));
    let second = cluster.run("second", &["-w", "50"], "for pid in $(cat child far running); do test -e /proc/$pid && cat /proc/$pid/stat; done > alive; true");
    run.signal(Signal::KILL);
    // The lock is free long before the TTL of ten minutes has passed.
    assert_eq!(Some(0), second.end().code());
    pids.into_iter().for_each(wait_until_dead);
    let alive = fs::read_to_string(cluster.path("alive")).unwrap();
    assert!(
        alive.lines().all(|line| line.contains(") Z ")),
        "alive when the second command started: {alive}"
    );
}

#[test]
fn a_killed_keeper_ends_the_command_in_time() {
    let cluster = Cluster::new();
    let run = cluster.run("run", &["--ttl", "4"], &format!("trap '' TERM; {}", beats("beats")));
    cluster.lines("beats");
    send(run.keeper(), Signal::KILL);
    let second = cluster.run("second", &[], "read t _ < /proc/uptime; echo $t > started");
    let end = run.end();
    assert_eq!(Some(79), end.code(), "{end:?}");
    assert_eq!(Some(0), second.end().code());
    assert!(cluster.last_beat("beats") < cluster.last_beat("started"));
}

#[test]
fn a_stopped_keeper_ends_the_command_in_time() {
    let cluster = Cluster::new();
    let run = cluster.run("run", &["--ttl", "4"], &format!("trap '' TERM; {}", beats("beats")));
    cluster.lines("beats");
    let keeper = run.keeper();
    send(keeper, Signal::STOP);
    let second = cluster.run("second", &[], "read t _ < /proc/uptime; echo $t > started");
    let end = run.end();
    assert_eq!(Some(79), end.code(), "{end:?}");
    assert_eq!(Some(0), second.end().code());
    assert!(cluster.last_beat("beats") < cluster.last_beat("started"));
    send(keeper, Signal::CONT);
    wait_until_dead(keeper);
}

#[test]
fn a_stopped_supervisor_keeps_the_lock() {
    let cluster = Cluster::new();
    let run = cluster.run(
        "run",
        &["--ttl", "2"],
        &format!("({}) & until [ -e go ]; do sleep 0.01; done; kill $!; exit 6", beats("beats")),
    );
    cluster.lines("beats");
    run.signal(Signal::STOP);
    sleep(5.0);
    assert_eq!(Some('T'), state(run.pid()));
    assert_eq!(Some(75), output(&mut cluster.redlock(["run", "-n", "job", "true"])).status.code());
    run.signal(Signal::CONT);
    fs::write(cluster.path("go"), "").unwrap();
    let end = run.end();
    assert_eq!((Some(6), ""), (end.code(), &*end.stderr), "{end:?}");
}

#[test]
fn the_keeper_kills_for_a_stopped_supervisor() {
    let cluster = Cluster::new();
    let run = cluster.run("run", &["--ttl", "4"], GRANDCHILDREN);
    let pids = ["child", "far", "running"].map(|file| cluster.number(file));
    run.signal(Signal::STOP);
    cluster.pause_all();
    pids.into_iter().for_each(wait_until_dead);
    assert_eq!(Some('T'), state(run.pid()));
    run.signal(Signal::CONT);
    let end = run.end();
    assert_eq!(Some(79), end.code(), "{end:?}");
    cluster.resume_all();
}

#[test]
fn after_both_are_killed_the_direct_child_is_dead_and_the_lock_expires() {
    let cluster = Cluster::new();
    let run =
        cluster.run("run", &["--ttl", "3"], "sleep 1000 & echo $! > child; echo $$ > running; sleep 1000");
    let (command, child) = (cluster.number("running"), cluster.number("child"));
    let keeper = run.keeper();
    send(keeper, Signal::STOP);
    run.signal(Signal::KILL);
    send(keeper, Signal::KILL);
    wait_until_dead(command);
    assert_eq!(Some(0), output(&mut cluster.redlock(["run", "job", "true"])).status.code());
    send(child, Signal::KILL);
}

#[test]
fn a_run_stopped_for_longer_than_the_ttl_is_killed_when_it_continues() {
    let cluster = Cluster::new();
    let script = "echo $$ > running; exec sleep 1000";
    let run = cluster.run("run", &["--ttl", "1"], script);
    let (command, keeper) = (cluster.number("running"), run.keeper());
    let all = [run.pid(), keeper, command];
    for pid in all {
        send(pid, Signal::STOP);
    }
    assert_eq!(
        Some(0),
        output(&mut cluster.redlock(["run", "job", "true"])).status.code(),
        "the lock has ended"
    );
    for pid in [command, run.pid(), keeper] {
        send(pid, Signal::CONT);
    }
    let end = run.end();
    assert_eq!(Some(79), end.code(), "{end:?}");
    assert!(!is_alive(command));
}

#[test]
fn a_full_or_closed_stderr_blocks_no_run() {
    let cluster = Cluster::new();
    // `yes` blocks, because no process reads the pipe.
    let script = "exec 2> >(exec sleep 20 >/dev/null); yes x | head -c 70000 >&2 & w=$!; sleep 0.2; $REDLOCK run -vv --ttl 2 job -- bash -c 'echo > running; sleep 3'; echo $? > code; kill $w";
    let full = output(&mut cluster.shell(script));
    assert_eq!(["0"], *cluster.lines("code"), "{full:?}");
    let closed = output(&mut cluster.shell("$REDLOCK run -vv job -- true 2>&-; echo $? > closed"));
    assert_eq!(["0"], *cluster.lines("closed"), "{closed:?}");
    output(&mut cluster.shell("$REDLOCK run job -- sh -c 'exit 3' <&- >&- 2>&-; echo $? > all"));
    assert_eq!(["3"], *cluster.lines("all"));
}

#[test]
fn a_keeper_ends_soon_after_its_supervisor() {
    let cluster = Cluster::new();
    let run = cluster.run("run", &[], "echo > running; until [ -e go ]; do sleep 0.01; done");
    cluster.lines("running");
    let keeper = run.keeper();
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!(Some(0), run.end().code());
    wait_until_dead(keeper);
    eventually("the release on all servers", || (cluster.keys() == 0).then_some(()));
}

#[test]
fn a_keeper_has_its_own_session_and_holds_no_pipe() {
    let cluster = Cluster::new();
    let run = cluster.run("run", &[], "echo > running; until [ -e go ]; do sleep 0.01; done");
    cluster.lines("running");
    let keeper = run.keeper();
    let session = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned()
    };
    assert_eq!(keeper.to_string(), session(keeper));
    assert_ne!(session(keeper), session(run.pid()));
    for fd in 0..3 {
        let target = fs::read_link(format!("/proc/{keeper}/fd/{fd}")).unwrap();
        assert_eq!("/dev/null", target.to_string_lossy());
    }
    assert_eq!("/", fs::read_link(format!("/proc/{keeper}/cwd")).unwrap().to_string_lossy());
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        send(keeper, signal);
    }
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!(Some(0), run.end().code(), "a keeper outlives the signals of a service manager");
}
