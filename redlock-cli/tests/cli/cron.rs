//! Jobs that are started on many machines at once.

use std::fs;
use std::process::Child;

use redlock_testkit::RedisServer;

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
fn a_waiter_takes_over_from_a_dead_machine() {
    let cluster = Cluster::new();
    let first = cluster.run("first", &["--ttl", "2"], "echo > running; sleep 1000");
    cluster.lines("running");
    let second = cluster.run("second", &["-w", "50", "--ttl", "2"], "echo > second");
    let keeper = first.keeper();
    // A machine that dies takes both processes along.
    for pid in [keeper, first.pid()] {
        crate::common::send(pid, rustix::process::Signal::STOP);
    }
    for pid in [keeper, first.pid()] {
        crate::common::send(pid, rustix::process::Signal::KILL);
    }
    assert_eq!(Some(0), second.end().code());
    cluster.lines("second");
}
