//! Passwords are in no argument, no log and no error, and not in the environment of the command.

use std::fs;

use redlock_testkit::RedisServer;

use crate::common::{Cluster, output, private, processes, text};

const SECRET: &str = "hunter2-hunter2";

fn guarded() -> Cluster {
    let cluster = Cluster::of((0..3).map(|_| RedisServer::builder().password(SECRET).start()).collect());
    private(&cluster.path("password"), &format!("{SECRET}\n"));
    cluster
}

fn bare(cluster: &Cluster) -> String {
    cluster
        .servers
        .iter()
        .map(|server| format!("redis://127.0.0.1:{}", server.port()))
        .collect::<Vec<_>>()
        .join(",")
}

#[test]
fn no_process_shows_the_password() {
    let cluster = guarded();
    let script = "env > env; echo > running; until [ -e go ]; do sleep 0.01; done";
    let mut command = cluster.redlock(["run", "-vv", "job", "bash", "-c", script]);
    command.env("REDLOCK_NODES", bare(&cluster)).env("REDLOCK_PASSWORD", SECRET);
    command.stderr(fs::File::create(cluster.path("log")).unwrap());
    let mut child = command.spawn().unwrap();
    cluster.lines("running");
    let mut seen = 0;
    for (pid, _) in processes() {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!text(&arguments).contains(SECRET), "{}", text(&arguments));
        seen += usize::from(text(&arguments).contains("redlock"));
    }
    assert!(seen >= 2, "supervisor and keeper have been looked at");
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!(Some(0), crate::common::wait(&mut child).code());
    for file in ["env", "log"] {
        let content = fs::read_to_string(cluster.path(file)).unwrap();
        assert!(!content.is_empty() && !content.contains(SECRET), "{file}: {content}");
    }
}

#[test]
fn a_password_comes_from_a_file_or_the_environment() {
    let cluster = guarded();
    let nodes = bare(&cluster);
    let code =
        |command: &mut std::process::Command| output(command.env("REDLOCK_NODES", &nodes)).status.code();
    assert_eq!(Some(0), code(&mut cluster.redlock(["health", "--password-file", "password"])));
    assert_eq!(Some(0), code(cluster.redlock(["health"]).env("REDLOCK_PASSWORD", SECRET)));
    assert_eq!(Some(0), code(cluster.redlock(["health"]).env("REDLOCK_PASSWORD_FILE", "password")));
    fs::create_dir(cluster.path("credentials")).unwrap();
    private(&cluster.path("credentials/redlock-password"), SECRET);
    assert_eq!(
        Some(0),
        code(cluster.redlock(["health"]).env("CREDENTIALS_DIRECTORY", cluster.path("credentials")))
    );
    assert_eq!(Some(69), code(&mut cluster.redlock(["health"])));
}

/// A pipe can be read once only, and is empty afterwards.
#[test]
fn passwords_and_settings_may_come_from_pipes() {
    let cluster = guarded();
    let urls: Vec<_> = cluster.servers.iter().map(|server| format!("'{}'", server.url())).collect();
    private(&cluster.path("config"), &format!("nodes = [{}]\n", urls.join(",")));
    let server = format!("127.0.0.1:{}", cluster.servers[0].port());
    let sources = [
        ("", "--password-file <(cat password)"),
        ("REDLOCK_PASSWORD_FILE=<(cat password)", ""),
        ("REDLOCK_NODES=", "--config <(cat config)"),
    ];
    let vouch = format!("vouch {server} --longest-ttl 1h");
    for command in ["doctor --observe 0 job", "nodes", &vouch] {
        for (variable, option) in sources {
            let script = format!("{variable} $REDLOCK {command} {option}");
            let found = output(cluster.shell(&script).env("REDLOCK_NODES", bare(&cluster)));
            let shown = text(&found.stdout) + &text(&found.stderr);
            assert!(found.status.code() == Some(0) && !shown.contains("NOAUTH"), "{script}: {shown}");
        }
    }
}

#[test]
fn a_missing_password_is_an_outage_with_a_remedy() {
    let cluster = guarded();
    let found = output(cluster.redlock(["run", "-n", "job", "true"]).env("REDLOCK_NODES", bare(&cluster)));
    let shown = text(&found.stderr);
    let remedy =
        "already authenticated); set REDLOCK_PASSWORD_FILE, which nested runs get too, or --password-file\n";
    assert!(found.status.code() == Some(69) && shown.ends_with(remedy), "{shown}");
    let doctor = ["doctor", "--observe", "0"];
    let found = text(&output(cluster.redlock(doctor).env("REDLOCK_NODES", bare(&cluster))).stdout);
    assert!(found.contains("fix: set a password") && !found.contains("survived"), "{found}");
}

#[test]
fn nested_runs_get_the_password_on_request() {
    let cluster = guarded();
    let run = |options: &str| {
        let mut shell = cluster.shell(&format!("$REDLOCK run {options} outer -- $REDLOCK run -n inner true"));
        output(shell.env("REDLOCK_NODES", bare(&cluster)).env("REDLOCK_PASSWORD", SECRET)).status.code()
    };
    assert_eq!((Some(69), Some(0)), (run(""), run("--pass-credentials")));
}

#[test]
fn a_wrong_password_is_an_outage_in_the_servers_words() {
    let cluster = guarded();
    let mut command = cluster.redlock(["run", "-n", "job", "true"]);
    let found = output(command.env("REDLOCK_NODES", bare(&cluster)).env("REDLOCK_PASSWORD", "wrong-secret"));
    let shown = text(&found.stderr);
    assert_eq!(Some(69), found.status.code(), "{shown}");
    assert!(shown.contains("WRONGPASS") && !shown.contains("wrong-secret"), "{shown}");
}

#[test]
fn visible_passwords_are_warned_of() {
    // Another password than the one that another test looks for in all processes.
    let server = || RedisServer::builder().password("visible").start();
    let cluster = Cluster::of((0..3).map(|_| server()).collect());
    let mut command = cluster.redlock(["health", "-q"]);
    for server in &cluster.servers {
        command.args(["--node", &server.url()]);
    }
    assert_eq!("", text(&output(&mut command).stderr));
    let mut command = cluster.redlock(["health"]);
    for server in &cluster.servers {
        command.args(["--node", &server.url()]);
    }
    assert!(text(&output(&mut command).stderr).contains("visible to all users"));
    fs::write(cluster.path("open"), "visible").unwrap();
    let mut command = cluster.redlock(["health", "--password-file", "open"]);
    assert!(
        text(&output(command.env("REDLOCK_NODES", bare(&cluster))).stderr).contains("readable by others")
    );
}

#[test]
fn help_shows_no_value_of_the_environment() {
    let cluster = guarded();
    for words in [&["--help"][..], &["help", "run"], &["run", "--help"], &["doctor", "-h"]] {
        let found = output(cluster.redlock(words).env("REDLOCK_PASSWORD", SECRET));
        assert!(found.status.success() && !text(&found.stdout).contains(SECRET), "{words:?}");
    }
}
