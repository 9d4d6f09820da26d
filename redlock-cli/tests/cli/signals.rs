//! Signals to the supervisor, in each phase, without a terminal.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;

use crate::common::{Cluster, End, eventually, output, send, sleep, state, wait_until_dead};

#[test]
fn a_signal_ends_the_wait_and_starts_nothing() {
    let cluster = Cluster::new();
    let holder = cluster.run("holder", &[], "echo > running; until [ -e go ]; do sleep 0.01; done");
    cluster.lines("running");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let waiter = cluster.run("waiter", &["-v"], "echo > never");
        cluster.says("waiter", "waiting");
        waiter.signal(signal);
        let end = waiter.end();
        assert_eq!(Some(signal.as_raw()), end.status.signal(), "{end:?}");
        assert_eq!(Some("canceled"), end.report["outcome"].as_str());
    }
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!(Some(0), holder.end().code());
    assert!(!cluster.path("never").exists());
    eventually("no keys", || (cluster.keys() == 0).then_some(()));
}

/// The supervisor is stopped while its keeper acquires the lock. Thus it reads the grant and the signal together.
#[test]
fn a_signal_that_arrives_with_the_grant_starts_nothing() {
    let cluster = Cluster::new();
    let holder = cluster.run("holder", &[], "echo > running; until [ -e go ]; do sleep 0.01; done");
    cluster.lines("running");
    let waiter = cluster.run("waiter", &["-v", "--owner", "waiter"], "echo > never");
    cluster.says("waiter", "waiting");
    waiter.signal(Signal::STOP);
    eventually("a stop", || (state(waiter.pid()) == Some('T')).then_some(()));
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!(Some(0), holder.end().code());
    let is_granted =
        || cluster.servers.iter().all(|server| server.command(&["GET", "job"]).contains("waiter#"));
    eventually("the grant", || is_granted().then_some(()));
    // The message to the supervisor follows the last reply.
    sleep(0.2);
    waiter.signal(Signal::TERM);
    waiter.signal(Signal::CONT);
    let end = waiter.end();
    assert_eq!(
        (Some(15), Some("canceled")),
        (end.status.signal(), end.report["outcome"].as_str()),
        "{end:?}"
    );
    assert!(!cluster.path("never").exists());
    eventually("no keys", || (cluster.keys() == 0).then_some(()));
}

#[test]
fn two_signals_end_the_wait_for_hung_servers() {
    let cluster = Cluster::new();
    cluster.pause_all();
    let waiter = cluster.run("waiter", &["--unavailable", "wait"], "echo > never");
    waiter.keeper();
    waiter.signal(Signal::INT);
    waiter.signal(Signal::INT);
    assert_eq!(Some(2), waiter.end().status.signal());
    cluster.resume_all();
    assert!(!cluster.path("never").exists());
}

/// Sends a signal to a run whose command records it.
fn passed_on(signal: Signal, name: &str) -> End {
    let cluster = Cluster::new();
    let script =
        format!("trap 'echo {name} > got; exit 7' {name}; echo > running; while :; do sleep 0.01; done");
    let run = cluster.run("run", &[], &script);
    cluster.lines("running");
    run.signal(signal);
    let end = run.end();
    assert_eq!([name], *cluster.lines("got"));
    end
}

#[test]
fn signals_are_passed_on_to_the_group() {
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
    ] {
        assert_eq!(Some(7), passed_on(signal, name).code(), "{name}");
    }
}

#[test]
fn a_run_ends_by_the_signal_that_ended_its_command() {
    let cluster = Cluster::new();
    let run = cluster.run("run", &[], "echo > running; exec sleep 1000");
    cluster.lines("running");
    run.signal(Signal::TERM);
    let end = run.end();
    assert_eq!((Some(15), ""), (end.status.signal(), &*end.stderr));
}

#[test]
fn stop_and_continue_are_passed_on() {
    let cluster = Cluster::new();
    let script = "echo $$ > running; until [ -e go ]; do sleep 0.01; done; exit 3";
    let run = cluster.run("run", &[], script);
    let pid = cluster.number("running");
    run.signal(Signal::TSTP);
    for pid in [pid, run.pid()] {
        eventually("a stop", || (state(pid) == Some('T')).then_some(()));
    }
    run.signal(Signal::CONT);
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!(Some(3), run.end().code());
}

#[test]
fn signals_ignored_on_entry_stay_ignored() {
    let cluster = Cluster::new();
    // `&` in a shell without job control ignores INT and QUIT; nohup ignores HUP.
    let script = "nohup $REDLOCK run --group own job bash -c 'grep SigIgn /proc/self/status > ignored; echo > running; until [ -e go ]; do sleep 0.01; done; exit 3' & p=$!; echo $p > pid; wait $p; echo $? > code";
    let mut shell = cluster.shell(script).spawn().unwrap();
    let pid = cluster.number("pid");
    cluster.lines("running");
    for signal in [Signal::INT, Signal::QUIT, Signal::HUP] {
        send(pid, signal);
    }
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!(["3"], *cluster.lines("code"));
    crate::common::wait(&mut shell);
    let line = &cluster.lines("ignored")[0];
    let bits = u64::from_str_radix(line.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(0b111, bits & 0b111, "HUP, INT and QUIT in the command: {line}");
}

#[test]
fn the_command_has_the_signal_mask_of_its_caller() {
    let cluster = Cluster::new();
    let python = "import signal, os, sys\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGCHLD])\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nos.execv(os.environ['REDLOCK'], ['redlock', 'run', 'job', 'grep', 'SigBlk', '/proc/self/status'])";
    let mut command = std::process::Command::new("python3");
    cluster.prepare(&mut command);
    let found = output(command.args(["-c", python]));
    let shown = crate::common::text(&found.stdout);
    let bits = u64::from_str_radix(shown.trim_start_matches("SigBlk:").trim(), 16).unwrap();
    assert_eq!((1 << 13) | (1 << 16), bits, "ALRM and CHLD, and nothing else: {found:?}");
}

#[test]
fn it_works_under_timeout_and_as_its_own_caller() {
    let cluster = Cluster::new();
    let found = output(
        &mut cluster
            .shell("timeout 1 $REDLOCK run job bash -c 'sleep 1000 & echo $! > child; wait'; echo $? > code"),
    );
    assert_eq!(["124"], *cluster.lines("code"), "{found:?}");
    wait_until_dead(cluster.number("child"));
    eventually("no keys", || (cluster.keys() == 0).then_some(()));
}

#[test]
fn it_works_as_the_first_process_of_a_container() {
    let cluster = Cluster::new();
    let script = "unshare -pf --mount-proc $REDLOCK run job bash -c 'echo $PPID > parent; (setsid bash -c \"(sleep 0.1 &)\" &); kill -9 $$'; echo $? > code";
    let found = output(&mut cluster.shell(script));
    assert_eq!(["137"], *cluster.lines("code"), "{found:?}");
    assert_eq!(1, cluster.number("parent"), "{found:?}");
}

#[test]
fn kill_after_ends_a_command_that_ignores_signals() {
    let cluster = Cluster::new();
    let run = cluster.run(
        "run",
        &["--kill-after", "0.2"],
        "trap '' TERM; echo > running; while :; do sleep 0.01; done",
    );
    cluster.lines("running");
    run.signal(Signal::TERM);
    let end = run.end();
    assert_eq!(Some(9), end.status.signal(), "{end:?}");
}

/// The process belongs to another user, as with `redlock run job sudo command`.
#[test]
fn a_process_that_may_not_be_signaled_is_reported() {
    let cluster = Cluster::new();
    // The supervisor is root without the right to signal processes of others.
    let script = "setpriv --bounding-set -kill $REDLOCK run --ttl 2 job setpriv --reuid 54321 bash -c 'echo $$; exec sleep 1000' > pid 2> run.err; echo $? > code";
    let found = output(&mut cluster.shell("setpriv --reuid 54321 true"));
    assert!(found.status.success(), "this test must be able to become another user: {found:?}");
    let mut shell = cluster.shell(script).spawn().unwrap();
    let pid = cluster.number("pid");
    cluster.pause_all();
    cluster.says("run", &format!("cannot signal process {pid}: Operation not permitted"));
    send(pid, Signal::KILL);
    assert_eq!(["79"], *cluster.lines("code"));
    cluster.resume_all();
    crate::common::wait(&mut shell);
}
