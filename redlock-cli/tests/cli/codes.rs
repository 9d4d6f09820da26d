//! Exit codes, output, and the environment of the command.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use redlock_testkit::RedisServer;
use rustix::process::Signal;

use crate::common::{Cluster, eventually, output, private, send, text};

#[test]
fn the_command_decides_the_code() {
    let cluster = Cluster::new();
    for code in [0, 1, 2, 64, 69, 75, 79, 124, 255] {
        let end = cluster.run("run", &[], &format!("exit {code}")).end();
        assert_eq!((Some(code), ""), (end.code(), &*end.stderr));
        assert_eq!(
            (Some("exited"), Some(i64::from(code))),
            (end.report["outcome"].as_str(), end.report["command_code"].as_i64())
        );
    }
    for signal in [1, 2, 9, 11, 15] {
        let end = cluster.run("run", &[], &format!("kill -{signal} $$")).end();
        assert_eq!((Some(signal), ""), (end.status.signal(), &*end.stderr));
    }
}

#[test]
fn a_held_lock_is_a_conflict() {
    let cluster = Cluster::new();
    let holder =
        cluster.run("holder", &["--owner", "web-1"], "echo > running; until [ -e go ]; do sleep 0.01; done");
    cluster.lines("running");
    for (options, code) in [
        (&["-n"][..], 75),
        (&["--nonblock"], 75),
        (&["-w", "0"], 75),
        (&["-w", "0.2"], 75),
        (&["-n", "-E", "123"], 123),
    ] {
        let end = cluster.run("other", options, "echo > never").end();
        assert_eq!(Some(code), end.code(), "{end:?}");
        assert!(end.stderr.contains("web-1#") && end.stderr.lines().count() == 1, "{end:?}");
        assert_eq!(Some("conflict"), end.report["outcome"].as_str());
    }
    for options in [&["-n", "-E", "0"][..], &["-q", "-n"]] {
        assert_eq!("", cluster.run("quiet", options, "true").end().stderr);
    }
    assert!(
        cluster.run("verbose", &["-v", "-n", "-E", "0"], "true").end().stderr.contains("web-1#"),
        "-v prints the reason"
    );
    let waiter = cluster.run("waiter", &["-w", "50"], "exit 4");
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!((Some(0), Some(4)), (holder.end().code(), waiter.end().code()));
    assert!(!cluster.path("never").exists());
}

#[test]
fn commands_that_cannot_be_executed_fail_before_any_request() {
    let cluster = Cluster::new();
    cluster.pause_all();
    fs::write(cluster.path("plain"), "x").unwrap();
    for (program, code) in [("no-such-command", 127), ("./missing", 127), ("/", 126), ("./plain", 126)] {
        let found = output(&mut cluster.redlock(["run", "job", program]));
        assert_eq!(Some(code), found.status.code(), "{program}");
    }
    // The words behind RESOURCE are the command.
    let found = output(&mut cluster.redlock(["run", "job", "--ttl", "1", "--", "true"]));
    assert_eq!(Some(127), found.status.code(), "{found:?}");
    let expected = "command not found: --ttl; options go before RESOURCE";
    assert!(text(&found.stderr).contains(expected), "{found:?}");
    cluster.resume_all();
    cluster.executable("bad", "#!/no/such/interpreter\n");
    cluster.executable("bare", "exit 9\n");
    for (program, code) in [("./bad", 127), ("./bare", 9)] {
        assert_eq!(
            Some(code),
            output(&mut cluster.redlock(["run", "job", program])).status.code(),
            "{program}"
        );
    }
}

#[test]
fn wrong_usage_is_64() {
    let cluster = Cluster::new();
    for args in [
        &["run"][..],
        &["run", "job"],
        &["run", "--bogus", "job", "true"],
        &["run", "-E", "256", "job", "true"],
        &["run", "-w", "x", "job", "true"],
        &["run", "--ttl", "0.5", "job", "true"],
        &["run", "--ttl", "10", "--grace", "9", "job", "true"],
        &["run", "--signal", "NONE", "job", "true"],
        &["run", "", "true"],
        &["lock"],
        &["unlock", "handle"],
        &["bogus"],
    ] {
        let found = output(&mut cluster.redlock(args));
        assert_eq!(
            (Some(64), ""),
            (found.status.code(), &*text(&found.stdout)),
            "{args:?} {}",
            text(&found.stderr)
        );
    }
    for args in [&["--help"][..], &["--version"], &["run", "--help"]] {
        assert_eq!(Some(0), output(&mut cluster.redlock(args)).status.code());
    }
}

#[test]
fn a_configuration_error_is_78_and_an_outage_69() {
    let cluster = Cluster::new();
    let found = output(cluster.redlock(["run", "job", "true"]).env_remove("REDLOCK_NODES"));
    assert!(found.status.code() == Some(78) && text(&found.stderr).contains("no servers"), "{found:?}");
    let nodes = "redis://a, http://a";
    let found = output(cluster.redlock(["run", "job", "true"]).env("REDLOCK_NODES", nodes));
    assert!(
        found.status.code() == Some(78) && text(&found.stderr).contains("server 2 of 2: invalid address"),
        "{found:?}"
    );
    let nodes = "redis-sentinel://:hunter2@10.0.0.1:26379/mymaster";
    let found = output(cluster.redlock(["run", "job", "true"]).env("REDLOCK_NODES", nodes));
    let expected = "server 1 of 1: invalid address redis-sentinel://10.0.0.1: expected redis+sentinel://";
    assert_eq!(Some(78), found.status.code(), "{found:?}");
    assert!(text(&found.stderr).contains(expected) && !text(&found.stderr).contains("hunter2"), "{found:?}");
    for server in &cluster.servers {
        server.command(&["LPUSH", "list", "x"]);
    }
    let found = output(&mut cluster.redlock(["run", "list", "true"]));
    assert!(found.status.code() == Some(78) && text(&found.stderr).contains("non-lock value"), "{found:?}");

    cluster.pause_all();
    let found = output(&mut cluster.redlock(["run", "-n", "job", "true"]));
    assert_eq!(Some(69), found.status.code(), "{found:?}");
    assert!(
        text(&found.stderr).contains(&cluster.servers[0].port().to_string()),
        "the causes by server: {found:?}"
    );
    cluster.resume_all();
}

#[test]
fn the_configuration_file_is_found() {
    let cluster = Cluster::new();
    fs::create_dir(cluster.path("redlock")).unwrap();
    let urls: Vec<_> = cluster.servers.iter().map(|server| format!("'{}'", server.url())).collect();
    private(
        &cluster.path("redlock/config.toml"),
        &format!("nodes = [{}]\nkey_prefix = 'p:'\n", urls.join(",")),
    );
    let mut command = cluster.redlock(["run", "job", "true"]);
    let found = output(command.env_remove("REDLOCK_NODES"));
    assert_eq!(Some(0), found.status.code(), "{found:?}");

    private(&cluster.path("redlock/config.toml"), "key_prefix = 'p:'\nnodes = 'redis://10.0.0.1'\n");
    let found = output(cluster.redlock(["run", "job", "true"]).env_remove("REDLOCK_NODES"));
    assert_eq!(Some(78), found.status.code(), "{found:?}");
    let expected = "line 2: `nodes` must be a list of strings: nodes = [\"redis://10.0.0.1\", ";
    assert!(text(&found.stderr).contains(expected), "{found:?}");
}

#[test]
fn an_empty_variable_is_the_same_as_none() {
    let cluster = Cluster::new();
    let found = output(cluster.redlock(["run", "job", "true"]).env("REDLOCK_CONFIG", ""));
    assert_eq!(Some(0), found.status.code(), "{found:?}");
    // An empty home directory does not make the working directory the place of the file.
    fs::create_dir_all(cluster.path(".config/redlock")).unwrap();
    private(&cluster.path(".config/redlock/config.toml"), "key_prefix = 5\n");
    let mut command = cluster.redlock(["run", "job", "true"]);
    let found = output(command.env("XDG_CONFIG_HOME", "").env("HOME", ""));
    assert_eq!(Some(0), found.status.code(), "{found:?}");
    let found = output(&mut cluster.shell("$REDLOCK lock job --ttl 1m | REDLOCK_HANDLE= $REDLOCK unlock"));
    assert_eq!((Some(0), 0), (found.status.code(), cluster.keys()), "{found:?}");
}

#[test]
fn the_drift_factor_is_that_of_the_option_the_environment_or_the_file() {
    let cluster = Cluster::new();
    let file = cluster.path("config.toml");
    private(&file, "clock_drift_factor = 0.03\n");
    let doctor = ["doctor", "--observe", "0", "--json", "--config", file.to_str().unwrap()];
    let factor = |option: &[&str], variable: Option<&str>| {
        let mut command = cluster.redlock([&doctor, option].concat());
        let found = output(command.envs(variable.map(|value| ("REDLOCK_CLOCK_DRIFT_FACTOR", value))));
        (found.status.code(), text(&found.stdout) + &text(&found.stderr))
    };
    for (option, variable, expected) in [
        (&["--clock-drift-factor", "0.05"][..], Some("0.04"), 0.05),
        (&[], Some("0.04"), 0.04),
        (&[], None, 0.03),
    ] {
        let (_, shown) = factor(option, variable);
        assert!(shown.contains(&format!("\"clock_drift_factor\":{expected}")), "{shown}");
    }
    let expected = "a clock drift factor of 1.5 is not in 0.0..1.0";
    for (variable, expected) in [("1 %", "must be a number such as 0.01, not \"1 %\""), ("1.5", expected)] {
        let (code, shown) = factor(&[], Some(variable));
        assert!(code == Some(78) && shown.contains(expected), "{code:?} {shown}");
    }
}

/// No measurement is precise enough for a factor of zero.
#[test]
fn doctor_judges_the_clocks_by_the_drift_factor() {
    let cluster = Cluster::new();
    let doctor = ["doctor", "--observe", "10ms", "--json", "--clock-drift-factor", "0"];
    let shown = text(&output(&mut cluster.redlock(doctor)).stdout);
    assert!(["at most 0.0 % required", "its clock runs"].iter().any(|part| shown.contains(part)), "{shown}");
}

#[test]
fn a_server_without_tls_is_the_reported_cause() {
    let cluster = Cluster::new();
    let nodes: Vec<_> =
        cluster.servers.iter().map(|server| format!("rediss://127.0.0.1:{}", server.port())).collect();
    for options in [&[][..], &["-n"], &["--longest-ttl", "1m"], &["-n", "--longest-ttl", "1m"]] {
        let words = [&["run"], options, &["job", "true"]].concat();
        let mut command = cluster.redlock(&words);
        let found =
            output(command.env("REDLOCK_NODES", nodes.join(",")).env("REDLOCK_NODE_TIMEOUT", "300ms"));
        assert_eq!(Some(69), found.status.code(), "{found:?}");
        assert!(
            text(&found.stderr).contains("does the server speak TLS on this port?"),
            "{options:?} {found:?}"
        );
    }
}

#[test]
fn the_environment_of_the_command_describes_the_lock() {
    let cluster = Cluster::new();
    let script = "env | grep ^REDLOCK_ > env; read x; echo \"$x\"";
    let mut command = cluster.redlock([
        "run",
        "--fenced",
        "--owner",
        "me",
        "--also",
        "second name",
        "job",
        "bash",
        "-c",
        script,
    ]);
    fs::write(cluster.path("input"), "hello\n").unwrap();
    let found = output(command.stdin(fs::File::open(cluster.path("input")).unwrap()));
    assert_eq!(
        ("hello\n", ""),
        (&*text(&found.stdout), &*text(&found.stderr)),
        "stdin and stdout are the command's"
    );
    let env = fs::read_to_string(cluster.path("env")).unwrap();
    for part in [
        "REDLOCK_HELD=job\nsecond name\n",
        "REDLOCK_OWNER=me\n",
        "REDLOCK_HOLDER=me#",
        "REDLOCK_TTL_MS=30000\n",
        "REDLOCK_FENCING_TOKEN=",
    ] {
        assert!(
            env.contains(part) || part.contains('\n') && env.contains("REDLOCK_HELD=job"),
            "{part}: {env}"
        );
    }
}

#[test]
fn a_name_need_not_be_text() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    let cluster = Cluster::new();
    let name = OsString::from_vec(b"a\xff\x01".to_vec());
    let args = ["run".into(), name.clone(), "bash".into(), "-c".into(), "printf %s \"$REDLOCK_HELD\"".into()];
    let found = output(&mut cluster.redlock(args));
    assert_eq!((Some(0), &b"a\xff\x01"[..]), (found.status.code(), &*found.stdout));
}

#[test]
fn a_run_inside_a_run_under_the_same_lock_is_an_error() {
    let cluster = Cluster::new();
    let found = output(&mut cluster.shell("$REDLOCK run job $REDLOCK run other $REDLOCK run job true"));
    assert_eq!(Some(64), found.status.code(), "{found:?}");
    assert!(text(&found.stderr).contains("nested"));
    let found = output(&mut cluster.shell("$REDLOCK run job $REDLOCK run other true"));
    assert_eq!(Some(0), found.status.code(), "{found:?}");
}

/// The servers are down, so each request ends at once, and the run repeats it until its wait is over.
#[test]
fn the_time_of_an_outage_is_that_of_all_requests() {
    let cluster = Cluster::new();
    cluster.servers.iter().for_each(RedisServer::kill);
    for command in [&["run"][..], &["lock", "--ttl", "1m"]] {
        let words = [command, &["--unavailable", "wait", "-w", "1s", "job"]].concat();
        let words = if command == ["run"] { [&words[..], &["true"]].concat() } else { words };
        let found = output(&mut cluster.redlock(words));
        let waited = waited(&found);
        assert!(found.status.code() == Some(69) && waited.is_some_and(|seconds| seconds >= 1.0), "{found:?}");
    }
}

/// The first request ends after 0.2 s or more, and the next one would follow 0.5 s later.
///
/// On a busy machine, a command may end late, so it is repeated until it ends in time.
#[test]
fn a_wait_for_servers_is_not_exceeded() {
    let cluster = Cluster::new();
    cluster.servers.iter().for_each(RedisServer::kill);
    for command in [&["run"][..], &["lock", "--ttl", "1m"], &["hold"]] {
        let words = [command, &["--unavailable", "wait", "-w", "500ms", "job"]].concat();
        let words = if command == ["run"] { [&words[..], &["true"]].concat() } else { words };
        eventually(command[0], || {
            let found = output(&mut cluster.redlock(&words));
            let waited = waited(&found).filter(|_| found.status.code() == Some(69));
            (waited.unwrap_or_else(|| panic!("{found:?}")) < 0.7).then_some(())
        });
    }
}

/// Returns the seconds after which a command gave up, according to its message.
fn waited(found: &Output) -> Option<f64> {
    let shown = text(&found.stderr);
    let waited = shown.split(", after ").nth(1)?.split(" (").next()?;
    let seconds = |unit, factor| Some(waited.strip_suffix(unit)?.parse::<f64>().ok()? * factor);
    seconds("ms", 0.001).or_else(|| seconds("s", 1.0))
}

#[test]
fn verbose_runs_print_each_step() {
    let cluster = Cluster::new();
    let found = text(&output(&mut cluster.redlock(["run", "-v", "job", "true"])).stderr);
    assert!(found.contains("lock acquired as ") && found.contains("lock released"), "{found}");
    let found = text(&output(&mut cluster.redlock(["run", "-vv", "job", "true"])).stderr);
    assert!(found.contains("node connected"), "{found}");
}

#[test]
fn max_runtime_is_124() {
    let cluster = Cluster::new();
    let end = cluster.run("run", &["--max-runtime", "0.3"], "exec sleep 1000").end();
    assert_eq!((Some(124), Some(15)), (end.code(), end.report["command_signal"].as_i64()), "{end:?}");
}

/// The limit on the processes of a user leaves no room for the keeper, and then none for the command.
#[test]
fn a_fork_that_fails_is_70_and_leaves_no_lock() {
    let cluster = Cluster::new();
    let binary = cluster.for_all_users();
    for limit in [1, 2] {
        let run = format!("ulimit -u {limit}; exec {binary} run job echo started");
        // The limit does not apply to root. If the test may not become another user, a new namespace has a separate
        // count.
        let script = format!(
            "as='setpriv --reuid 54321'; $as true || as='unshare --user --map-root-user'; exec $as bash -c '{run}'"
        );
        let found = output(&mut cluster.shell(&script));
        assert_eq!((Some(70), ""), (found.status.code(), &*text(&found.stdout)), "{limit}: {found:?}");
        assert!(text(&found.stderr).contains("Resource temporarily unavailable"), "{limit}: {found:?}");
        eventually("the release", || (cluster.keys() == 0).then_some(()));
    }
}

#[test]
fn a_keeper_that_ends_while_it_waits_is_70() {
    let cluster = Cluster::new();
    let holder = cluster.run("holder", &[], "echo > running; until [ -e go ]; do sleep 0.01; done");
    cluster.lines("running");
    let waiter = cluster.run("waiter", &["-v"], "echo > never");
    cluster.says("waiter", "waiting");
    send(waiter.keeper(), Signal::KILL);
    let end = waiter.end();
    assert_eq!((Some(70), Some("internal")), (end.code(), end.report["outcome"].as_str()), "{end:?}");
    assert!(end.stderr.contains("the keeper process ended"), "{end:?}");
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!(Some(0), holder.end().code());
    assert!(!cluster.path("never").exists());
}
