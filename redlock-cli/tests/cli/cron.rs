//! Jobs that are started on many machines at once.

use std::fs;
use std::process::{Child, Command};
use std::time::Instant;

use redlock_testkit::RedisServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Cluster, Run, eventually, output, sleep, wait};

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

/// The servers are down when the period begins on all machines, and come back one after the other.
#[test]
fn an_outage_at_the_beginning_of_a_period_does_not_lose_it() {
    let cluster = Cluster::new();
    cluster.servers[0].kill();
    cluster.servers[1].pause();
    let names = ["first", "second", "third"];
    let script = "echo x >> ran";
    let options = ["-E", "0", "-v", "--once-per", "600"];
    let runs = names.map(|name| cluster.run(name, &options, script));
    for name in names {
        cluster.says(name, "waiting: ");
    }
    sleep(1.0);
    cluster.servers[1].resume();
    cluster.servers[0].restart();
    let ends = runs.map(Run::end);
    assert!(ends.iter().all(|end| end.code() == Some(0)), "{ends:?}");
    assert_eq!(1, cluster.lines("ran").len(), "{ends:?}");
    let kept: Vec<_> = ends.iter().filter(|end| end.report["kept_seconds"].is_number()).collect();
    let [end] = &kept[..] else { panic!("the run that succeeded keeps the lock: {ends:?}") };
    let (waited, kept) = (end.at("waited_seconds"), end.at("kept_seconds"));
    assert!(waited >= 1.0 && kept > 500.0, "{end:?}");
    assert!(waited + kept <= 540.0, "the time counts from the request: {end:?}");
}

#[test]
fn a_job_once_a_period_waits_for_servers_within_limits() {
    let cluster = Cluster::new();
    cluster.servers[..2].iter().for_each(RedisServer::kill);
    for (name, options, limit) in [
        ("default", &["--once-per", "20"][..], 2.0),
        ("no-wait", &["-n", "--once-per", "20"], 2.0),
        ("wait", &["--once-per", "600", "-w", "1"], 1.0),
        ("fail", &["--once-per", "600", "--unavailable", "fail"], 0.0),
    ] {
        let start = Instant::now();
        let end = cluster.run(name, options, "echo x >> ran").end();
        let waited = start.elapsed().as_secs_f64();
        // The default limit of a period of 600 s is a minute.
        assert!(end.code() == Some(69) && waited >= limit && waited < 30.0, "{waited} s: {end:?}");
        assert!(end.stderr.contains("2 of 3 nodes failed, so no quorum"), "{end:?}");
    }
    assert!(!cluster.path("ran").exists());
}

/// Three clients have a vote each, so none holds the lock.
#[test]
fn a_job_once_a_period_waits_while_the_votes_are_split() {
    let cluster = Cluster::new();
    for (server, token) in cluster.servers.iter().zip(["one", "two", "three"]) {
        server.command(&["SET", "job", token]);
    }
    let end = cluster.run("try", &["-n", "-E", "0"], "echo x >> ran").end();
    assert!(end.code() == Some(69) && end.stderr.contains("the votes are split"), "{end:?}");
    assert_eq!("unavailable", end.report["outcome"], "{end:?}");
    let job = cluster.run("job", &["-v", "--once-per", "600"], "echo x >> ran");
    cluster.says("job", "waiting: ");
    cluster.servers[..2].iter().for_each(|server| drop(server.command(&["DEL", "job"])));
    assert_eq!(Some(0), job.end().code());
    assert_eq!(1, cluster.lines("ran").len());
}

/// Another machine that runs the job is not awaited, and readers are, because they do not run it.
#[test]
fn a_job_once_a_period_waits_for_readers_only() {
    let cluster = Cluster::new();
    let script = "echo > running; until [ -e go ]; do sleep 0.01; done";
    let reader = cluster.run("reader", &["--shared"], script);
    cluster.lines("running");
    let job = cluster.run(
        "job",
        &["-v", "--once-per", "600"],
        "echo > started; until [ -e end ]; do sleep 0.01; done",
    );
    cluster.says("job", "waiting: ");
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!(Some(0), reader.end().code());
    cluster.lines("started");
    let start = Instant::now();
    let other = cluster.run("other", &["--once-per", "600"], "true").end();
    assert_eq!(Some(75), other.code(), "{other:?}");
    assert!(start.elapsed().as_secs() < 30, "the limit of a minute is not for the holder");
    fs::write(cluster.path("end"), "").unwrap();
    assert_eq!(Some(0), job.end().code());
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
        // On a busy machine, a server may read the last requests of the command after its end.
        let is_kept = || {
            let left: f64 = server.command(&["PTTL", "job"]).parse().unwrap();
            (left <= 6_000.0).then_some(())
        };
        eventually("the lock lasts for 5 s on each server, although the TTL is 600 s", is_kept);
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
