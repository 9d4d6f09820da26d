//! The commands other than `run`.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use redlock_testkit::RedisServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Cluster, eventually, output, send, text, wait, wait_until_dead};

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", text(bytes)))
}

#[test]
fn a_handle_extends_and_releases() {
    let cluster = Cluster::new();
    let locked = output(&mut cluster.redlock(["lock", "job", "--ttl", "60", "-n"]));
    assert_eq!(Some(0), locked.status.code(), "{locked:?}");
    let handle = text(&locked.stdout);
    assert_eq!(Some(75), output(&mut cluster.redlock(["lock", "job", "--ttl", "60", "-n"])).status.code());
    let extended = output(cluster.redlock(["extend", "--ttl", "600"]).env("REDLOCK_HANDLE", &handle));
    assert!(json(&extended.stdout)["valid_ms"].as_u64().unwrap() > 500_000, "{extended:?}");
    assert_eq!(3, cluster.keys());
    fs::write(cluster.path("handle"), &handle).unwrap();
    assert_eq!(Some(0), output(&mut cluster.redlock(["unlock", "--handle-file", "handle"])).status.code());
    assert_eq!(0, cluster.keys());
    let mut again = cluster.redlock(["unlock"]);
    let mut child = again.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(handle.as_bytes()).unwrap();
    assert_eq!(Some(79), wait(&mut child).code(), "it is no longer held");
    let broken = output(cluster.redlock(["unlock"]).env("REDLOCK_HANDLE", "{\"token\":\"hunter2\"}"));
    assert!(broken.status.code() == Some(64) && !text(&broken.stderr).contains("hunter2"));
}

/// Without the handle, no client can release the lock.
#[test]
fn a_lock_whose_handle_cannot_be_written_is_released() {
    let cluster = Cluster::new();
    let (reader, mut closed) = io::pipe().unwrap();
    drop(reader);
    // Processes that other tests start have a copy of the reader for a moment.
    eventually("a closed pipe", || closed.write(b"x").err());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    for (stdout, reason) in [(Stdio::from(closed), "Broken pipe"), (full.into(), "No space left")] {
        let mut lock = cluster.redlock(["lock", "job", "--ttl", "1h", "-n"]);
        let stderr = fs::File::create(cluster.path("err")).unwrap();
        let status = wait(&mut lock.stdout(stdout).stderr(stderr).spawn().unwrap());
        let shown = fs::read_to_string(cluster.path("err")).unwrap();
        let expected = format!("redlock: cannot write the handle: {reason}");
        assert!(status.code() == Some(70) && shown.starts_with(&expected), "{status:?} {shown}");
        eventually("no keys", || (cluster.keys() == 0).then_some(()));
    }
}

#[test]
fn inspect_shows_the_holder_and_break_ends_it() {
    let cluster = Cluster::new();
    assert_eq!(Some(0), output(&mut cluster.redlock(["inspect", "job"])).status.code());
    let run = cluster.run("run", &["--ttl", "2", "--owner", "web-1"], "echo $$ > running; sleep 1000");
    let pid = cluster.number("running");
    let found = output(&mut cluster.redlock(["inspect", "--json", "job", "free"]));
    assert_eq!(Some(75), found.status.code());
    let first = json(text(&found.stdout).lines().next().unwrap().as_bytes());
    let holder = first["holder"].as_str().unwrap().to_owned();
    assert!(first["status"] == "held" && holder.starts_with("web-1#"), "{first}");

    let wrong = output(&mut cluster.redlock(["break", "job", "--holder", "web-1#00000000"]));
    assert_eq!((Some(75), 3), (wrong.status.code(), cluster.keys()));
    let broken = output(&mut cluster.redlock(["break", "job", "--holder", &holder]));
    assert!(broken.status.code() == Some(0) && text(&broken.stdout).contains(&holder), "{broken:?}");
    assert_eq!(Some(79), run.end().code());
    wait_until_dead(pid);
}

#[test]
fn wait_returns_when_the_lock_is_free() {
    let cluster = Cluster::new();
    assert_eq!(Some(0), output(&mut cluster.redlock(["wait", "job"])).status.code());
    let run = cluster.run("run", &[], "echo > running; until [ -e go ]; do sleep 0.01; done");
    cluster.lines("running");
    assert_eq!(Some(75), output(&mut cluster.redlock(["wait", "-w", "0.1", "job"])).status.code());
    let mut waiter = cluster.redlock(["wait", "job"]).spawn().unwrap();
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!((Some(0), Some(0)), (run.end().code(), wait(&mut waiter).code()));
}

#[test]
fn waiters_are_counted_and_a_run_that_gives_up_states_its_position() {
    let cluster = Cluster::new();
    let run = cluster.run("run", &[], "echo > running; until [ -e go ]; do sleep 0.01; done");
    cluster.lines("running");
    let mut waiter = cluster.redlock(["run", "-w", "600", "job", "true"]).spawn().unwrap();
    eventually("a waiter has a place", || (waiters(&cluster) == 1).then_some(()));
    let shown = text(&output(&mut cluster.redlock(["inspect", "job"])).stdout);
    assert!(shown.lines().next().unwrap().ends_with(", 1 waiter"), "{shown}");
    let late = output(&mut cluster.redlock(["run", "-w", "2", "job", "true"]));
    let message = text(&late.stderr);
    assert_eq!(Some(75), late.status.code(), "{message}");
    assert!(message.contains(", position 2 of 2 waiters, after "), "{message}");
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!((Some(0), Some(0)), (run.end().code(), wait(&mut waiter).code()));
}

#[test]
fn hold_lasts_until_stdin_ends() {
    let cluster = Cluster::new();
    let mut holder = cluster.redlock(["hold", "job"]);
    let mut holder =
        holder.stdin(Stdio::piped()).stdout(fs::File::create(cluster.path("out")).unwrap()).spawn().unwrap();
    assert!(cluster.lines("out")[0].contains("\"holder\""));
    assert_eq!(Some(75), output(&mut cluster.redlock(["run", "-n", "job", "true"])).status.code());
    drop(holder.stdin.take());
    assert_eq!(Some(0), wait(&mut holder).code());
    eventually("no keys", || (cluster.keys() == 0).then_some(()));
}

/// Returns the number of requests that wait for the lock.
fn waiters(cluster: &Cluster) -> u64 {
    let found = json(&output(&mut cluster.redlock(["inspect", "--json", "job"])).stdout);
    found["waiters"].as_u64().unwrap_or(0)
}

/// Without a withdrawal, the place would stay for 12 s.
#[test]
fn a_signal_withdraws_a_hold_that_waits() {
    let cluster = Cluster::new();
    let _holder = cluster.run("run", &[], "echo > running; sleep 1000");
    cluster.lines("running");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        // On a busy machine, the limit of the cleanup may pass, so the wait is repeated until that ends in time.
        eventually("a withdrawal", || {
            eventually("no place of an earlier wait", || (waiters(&cluster) == 0).then_some(()));
            let mut waiter = cluster.redlock(["hold", "job"]).spawn().unwrap();
            eventually("a place", || (waiters(&cluster) > 0).then_some(()));
            send(waiter.id().try_into().unwrap(), signal);
            assert_eq!(Some(signal.as_raw()), wait(&mut waiter).signal());
            (waiters(&cluster) == 0).then_some(())
        });
    }
}

#[test]
fn a_signal_that_is_ignored_on_entry_does_not_end_a_hold() {
    let cluster = Cluster::new();
    let _holder = cluster.run("run", &[], "echo > running; sleep 1000");
    cluster.lines("running");
    let mut waiter = cluster.shell("trap '' INT HUP QUIT; exec $REDLOCK hold job").spawn().unwrap();
    eventually("a place", || (waiters(&cluster) > 0).then_some(()));
    for signal in [Signal::INT, Signal::HUP, Signal::QUIT, Signal::TERM] {
        send(waiter.id().try_into().unwrap(), signal);
    }
    assert_eq!(Some(Signal::TERM.as_raw()), wait(&mut waiter).signal());
}

#[test]
fn hold_stops_the_process_when_the_lock_is_lost() {
    let cluster = Cluster::new();
    let mut process =
        cluster.shell("trap 'echo > stopping; exit 0' TERM; while :; do sleep 0.01; done").spawn().unwrap();
    let pid = process.id().to_string();
    let mut holder = cluster.redlock(["hold", "job", "--ttl", "2", "--pid", &pid]);
    let mut holder =
        holder.stdout(fs::File::create(cluster.path("out")).unwrap()).stderr(Stdio::null()).spawn().unwrap();
    cluster.lines("out");
    cluster.pause_all();
    assert_eq!(Some(0), wait(&mut process).code());
    cluster.lines("stopping");
    assert_eq!(Some(79), wait(&mut holder).code());
    cluster.resume_all();
}

#[test]
fn hold_ends_with_the_process() {
    let cluster = Cluster::new();
    let mut process = cluster.shell("until [ -e go ]; do sleep 0.01; done").spawn().unwrap();
    let pid = process.id().to_string();
    let mut holder = cluster.redlock(["hold", "job", "--pid", &pid]);
    let mut holder = holder.stdout(fs::File::create(cluster.path("out")).unwrap()).spawn().unwrap();
    cluster.lines("out");
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!((Some(0), Some(0)), (wait(&mut process).code(), wait(&mut holder).code()));
    assert_eq!(Some(64), output(&mut cluster.redlock(["hold", "job", "--pid", "0"])).status.code());
}

#[test]
fn health_and_doctor_name_the_problems() {
    let durable = || RedisServer::builder().persistent(true).start();
    let evicting = RedisServer::builder()
        .arg("--maxmemory")
        .arg("100mb")
        .arg("--maxmemory-policy")
        .arg("allkeys-lru")
        .start();
    let cluster = Cluster::of(vec![durable(), evicting, durable()]);
    assert_eq!(Some(0), output(&mut cluster.redlock(["health"])).status.code());
    let found = output(&mut cluster.redlock(["doctor", "--observe", "0", "--json", "job"]));
    let report = json(&found.stdout);
    let findings = report["findings"].as_array().unwrap();
    let eviction = &findings[0];
    assert!(
        eviction["problem"] == "maxmemory-policy is allkeys-lru" && eviction["severity"] == "error",
        "{report}"
    );
    assert_eq!(format!("127.0.0.1:{}", cluster.servers[1].port()), eviction["nodes"][0].as_str().unwrap());
    assert_eq!(Some(1), found.status.code());
    assert!(
        report["clocks"].as_array().unwrap().is_empty() && report["clock_drift_factor"] == 0.01,
        "{report}"
    );

    cluster.servers[1].command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    let found = output(&mut cluster.redlock(["doctor", "--observe", "0"]));
    let shown = text(&found.stdout);
    assert_eq!(Some(0), found.status.code(), "{found:?}");
    assert!(shown.contains("consequence: ") && shown.contains("3 of 3 servers reachable"), "{shown}");
    assert_eq!(
        Some(1),
        output(&mut cluster.redlock(["doctor", "--observe", "0", "--strict"])).status.code(),
        "just started"
    );
    cluster.servers[0].kill();
    cluster.servers[1].kill();
    assert_eq!(Some(69), output(&mut cluster.redlock(["health", "--json"])).status.code());
    let found = output(&mut cluster.redlock(["doctor", "--observe", "0"]));
    assert!(
        found.status.code() == Some(69) && text(&found.stdout).contains("only 1 of 3 servers reachable"),
        "{found:?}"
    );
}

#[test]
fn doctor_reports_missing_rights_and_duplicate_servers() {
    let cluster = Cluster::new();
    cluster.servers[0].command(&["ACL", "SETUSER", "default", "-evalsha", "-client|tracking"]);
    let found = text(&output(&mut cluster.redlock(["doctor", "--observe", "0"])).stdout);
    assert!(found.contains("the user may not run EVALSHA"), "{found}");
    let port = cluster.servers[1].port();
    let nodes = format!("redis://127.0.0.1:{port},redis://localhost:{port},{}", cluster.servers[2].url());
    let found = output(cluster.redlock(["doctor", "--observe", "0"]).env("REDLOCK_NODES", nodes));
    assert!(
        found.status.code() == Some(1) && text(&found.stdout).contains("two addresses of the same server"),
        "{found:?}"
    );
}

#[test]
fn doctor_reports_another_list_of_servers() {
    let cluster = Cluster::new();
    let doctor = || output(&mut cluster.redlock(["doctor", "--observe", "0"]));
    assert!(!text(&doctor().stdout).contains("lists other servers"));
    let mut other = cluster.redlock(["run", "job", "--", "sleep", "60"]);
    let mut other = other.env("REDLOCK_NODES", cluster.servers[0].url()).spawn().unwrap();
    let found = eventually("the other list is reported", || {
        let found = doctor();
        text(&found.stdout).contains("lists other servers").then_some(found)
    });
    let shown = text(&found.stdout);
    assert!(shown.contains("this program lists 3 nodes, another lists 1, 1 in common"), "{shown}");
    assert_eq!(Some(1), found.status.code());
    let health = text(&output(&mut cluster.redlock(["health"])).stdout);
    assert!(health.contains("node lists differ between programs"), "{health}");
    send(other.id().try_into().unwrap(), Signal::TERM);
    wait(&mut other);
}

#[test]
fn completions_and_manual_pages_are_complete() {
    let cluster = Cluster::new();
    for shell in ["bash", "zsh", "fish"] {
        let found = output(&mut cluster.redlock(["completions", shell]));
        assert!(
            found.status.success()
                && ["doctor", "vouch", "longest-ttl"].iter().all(|word| text(&found.stdout).contains(word)),
            "{shell}"
        );
    }
    assert!(output(&mut cluster.redlock(["man", "--dir", "man"])).status.success(), "a new directory");
    for page in ["redlock", "redlock-run", "redlock-doctor", "redlock-hold", "redlock-vouch"] {
        let page = fs::read_to_string(cluster.path(&format!("man/{page}.1"))).unwrap();
        assert!(page.contains(".SH"), "{page}");
    }
    let page = fs::read_to_string(cluster.path("man/redlock.1")).unwrap();
    assert!(["REDLOCK_NODES", "config.toml", "ten seconds"].iter().all(|word| page.contains(word)), "{page}");
    fs::write(cluster.path("file"), "").unwrap();
    let failed = output(&mut cluster.redlock(["man", "--dir", "file"]));
    assert!(failed.status.code() == Some(70) && text(&failed.stderr).contains("file"), "{failed:?}");
    assert!(text(&output(&mut cluster.redlock(["man"])).stdout).contains(".TH redlock"));
}
