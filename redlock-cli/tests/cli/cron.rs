//! Jobs that are started on many machines at once.

use std::fs;
use std::process::{Child, Command};

use redlock_testkit::RedisServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Cluster, output, sleep, wait};

/// Starts a job on several machines over a second and returns how often it ran.
fn period(cluster: &Cluster, number: usize, machines: u32, options: &[&str]) -> usize {
    let name = format!("ran-{number}");
    let script = format!("echo >> {name}");
    let start = |_| {
        // The clocks of the machines differ, so the starts are spread over a second.
        sleep(1.0 / f64::from(machines));
        let resource = format!("job-{number}");
        let mut command = cluster.redlock(["run", "-E", "0"]);
        command.args(options).args([&resource, "bash", "-c", &script]).spawn().unwrap()
    };
    let mut children: Vec<Child> = (0..machines).map(start).collect();
    for child in &mut children {
        assert_eq!(Some(0), wait(child).code());
    }
    fs::read_to_string(cluster.path(&name)).map_or(0, |text| text.lines().count())
}

/// 50 periods with `REDLOCK_CRON_PERIODS=50`; a few are enough each time.
#[test]
fn each_period_runs_once_with_a_hung_and_a_dying_server() {
    let cluster = Cluster::of(RedisServer::start_many(5));
    cluster.servers[4].pause();
    let periods = std::env::var("REDLOCK_CRON_PERIODS").map_or(2, |periods| periods.parse().unwrap());
    for number in 0..periods {
        if number == periods / 2 {
            cluster.servers[3].kill();
        }
        assert_eq!(1, period(&cluster, number, 20, &["--once-per", "600"]), "period {number}");
    }
    cluster.servers[4].resume();
}

#[test]
fn a_failed_job_may_be_repeated_and_a_successful_one_not() {
    let cluster = Cluster::new();
    let run = |code: &str| {
        let script = format!("echo x >> ran; exit {code}");
        output(&mut cluster.redlock(["run", "--once-per", "600", "job", "bash", "-c", &script])).status.code()
    };
    assert_eq!([Some(1), Some(0), Some(75)], [run("1"), run("0"), run("0")]);
    assert_eq!(2, cluster.lines("ran").len());
}

#[test]
fn at_least_counts_from_the_grant() {
    let cluster = Cluster::new();
    let end = cluster.run("run", &["--at-least", "100", "--ttl", "2"], "true").end();
    let kept = end.at("kept_seconds");
    assert!(end.code() == Some(0) && kept > 10.0 && kept <= 100.0, "{end:?}");
    assert_eq!(Some(75), output(&mut cluster.redlock(["run", "-n", "job", "true"])).status.code());
    for server in &cluster.servers {
        let left: f64 = server.command(&["PTTL", "job"]).parse().unwrap();
        assert!(left <= 102_000.0, "{left}");
    }
}

#[test]
fn a_lock_is_kept_no_longer_than_at_least() {
    let cluster = Cluster::new();
    let end = cluster.run("run", &["--at-least", "5", "--ttl", "600"], "true").end();
    assert_eq!(Some(0), end.code(), "{end:?}");
    for server in &cluster.servers {
        let left: f64 = server.command(&["PTTL", "job"]).parse().unwrap();
        assert!(left <= 6_000.0, "{left} ms, although the TTL is 600 s");
    }
}

#[test]
fn at_least_if_success_frees_a_failed_job() {
    let cluster = Cluster::new();
    let options = ["--at-least", "100", "--at-least-if", "success"];
    assert_eq!(Some(1), cluster.run("run", &options, "exit 1").end().code());
    assert_eq!(0, cluster.keys());
}

#[test]
fn a_waiter_acquires_the_lock_of_a_dead_machine() {
    let cluster = Cluster::new();
    let first = cluster.run("first", &["--ttl", "2"], "echo > running; sleep 1000");
    cluster.lines("running");
    let second = cluster.run("second", &["-w", "50", "--ttl", "2"], "echo > second");
    let keeper = first.keeper();
    // The death of a machine ends both processes.
    for pid in [keeper, first.pid()] {
        crate::common::send(pid, Signal::STOP);
    }
    for pid in [keeper, first.pid()] {
        crate::common::send(pid, Signal::KILL);
    }
    assert_eq!(Some(0), second.end().code());
    cluster.lines("second");
}

#[test]
fn at_least_applies_after_failures_and_deaths_of_the_command() {
    for script in ["exit 1", "kill -9 $$"] {
        let cluster = Cluster::new();
        let end = cluster.run("run", &["--at-least", "100"], script).end();
        assert!(end.at("kept_seconds") > 10.0, "{end:?}");
        assert_eq!(Some(75), output(&mut cluster.redlock(["run", "-n", "job", "true"])).status.code());
    }
}

/// Its outcome is unknown, so another machine may run the job.
#[test]
fn at_least_ends_with_a_killed_supervisor() {
    let cluster = Cluster::new();
    let run = cluster.run("run", &["--at-least", "100", "--ttl", "600"], "echo > running; sleep 1000");
    cluster.lines("running");
    run.signal(Signal::KILL);
    assert_eq!(Some(0), cluster.run("other", &["-w", "50"], "true").end().code());
}

#[test]
fn a_lock_is_kept_by_a_quorum_and_its_failure_is_a_warning() {
    for (hung, code, is_kept) in [(1, 75, true), (2, 69, false)] {
        let cluster = Cluster::new();
        let script = "echo > running; until [ -e go ]; do sleep 0.01; done";
        let run = cluster.run("run", &["--at-least", "100"], script);
        cluster.lines("running");
        cluster.servers[..hung].iter().for_each(RedisServer::pause);
        fs::write(cluster.path("go"), "").unwrap();
        let end = run.end();
        assert_eq!((Some(0), is_kept), (end.code(), end.report["kept_seconds"].is_number()), "{end:?}");
        assert_eq!(is_kept, end.stderr.is_empty(), "{end:?}");
        assert_eq!(Some(code), output(&mut cluster.redlock(["run", "-n", "job", "true"])).status.code());
        cluster.resume_all();
    }
}

/// A preloaded library that adds the number in a file to the time of day of a program.
const STEP: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    FILE *file = clock == CLOCK_REALTIME ? fopen(getenv("STEP"), "r") : NULL;
    long step = 0;
    if (file) {
        if (fscanf(file, "%ld", &step) == 1) time->tv_sec += step;
        fclose(file);
    }
    return result;
}
"#;

#[test]
fn a_step_of_the_clock_changes_nothing() {
    const DAY: i64 = 86_400;

    let cluster = Cluster::new();
    fs::write(cluster.path("step.c"), STEP).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args(["step.so", "step.c"].map(|name| cluster.path(name)))
        .arg("-ldl")
        .output();
    assert!(built.as_ref().is_ok_and(|built| built.status.success()), "{built:?}");
    let script = "for i in 1 2 3; do date +%s > time-$i; until [ -e go-$i ]; do sleep 0.01; done; done";
    let mut command = cluster.redlock(["run", "--ttl", "2", "--at-least", "600", "--report", "run.json"]);
    command.args(["job", "bash", "-c", script]).env("LD_PRELOAD", cluster.path("step.so"));
    command.env("STEP", cluster.path("step")).stderr(fs::File::create(cluster.path("run.err")).unwrap());
    let mut run = command.spawn().unwrap();
    for (number, step) in [(1, DAY), (2, -DAY), (3, 0)] {
        cluster.lines(&format!("time-{number}"));
        fs::write(cluster.path("step"), step.to_string()).unwrap();
        // Longer than the TTL.
        sleep(3.0);
        fs::write(cluster.path(&format!("go-{number}")), "").unwrap();
    }
    assert_eq!(
        (Some(0), ""),
        (wait(&mut run).code(), &*fs::read_to_string(cluster.path("run.err")).unwrap())
    );
    let time = |number| i64::from(cluster.number(&format!("time-{number}")));
    assert!(time(2) - time(1) >= DAY && time(2) - time(3) >= DAY, "the command has seen the steps");
    let report: Value = serde_json::from_slice(&fs::read(cluster.path("run.json")).unwrap()).unwrap();
    let kept = report["kept_seconds"].as_f64().unwrap();
    assert!(kept > 300.0 && kept <= 591.0, "{report}");
}
