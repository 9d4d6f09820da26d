//! The scripts of the guide, as they are written there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::common::{Cluster, output, text};

const GUIDE: &str = include_str!("../../../docs/commands-and-cron.md");

/// Writes the block of the guide with this text into an executable file, `./script`.
fn write_script(cluster: &Cluster, part: &str) {
    let blocks = GUIDE.split("\n```").filter_map(|block| Some(block.split_once('\n')?.1));
    let script = blocks.into_iter().find(|block| block.contains(part)).expect("the guide has this script");
    cluster.executable("script", script);
}

/// Returns a shell in which `redlock` is in the `PATH`.
fn shell(cluster: &Cluster, line: &str) -> Command {
    let in_path = cluster.path("redlock");
    if !in_path.exists() {
        symlink(env!("CARGO_BIN_EXE_redlock"), &in_path).unwrap();
    }
    let mut shell = cluster.shell(line);
    let path = std::env::var("PATH").unwrap();
    shell.env("PATH", format!("{}:{path}", in_path.parent().unwrap().display()));
    shell
}

#[test]
fn a_script_locks_itself_once() {
    let cluster = Cluster::new();
    write_script(&cluster, "grep -qxF backup");
    let script = fs::read_to_string(cluster.path("script")).unwrap();
    let line = r#"echo "$1 $(redlock inspect backup > inspection; echo $?) $REDLOCK_HELD""#;
    cluster.executable("script", &format!("{script}\n{line}\n"));
    for (before, held) in [
        ("", "backup"),
        ("redlock run other", "backup"),
        ("redlock run backup", "backup"),
        ("redlock run --also other backup", "backup\nother"),
    ] {
        let found = output(&mut shell(&cluster, &format!("{before} ./script word")));
        assert_eq!(format!("word 75 {held}\n"), text(&found.stdout), "{before}: {found:?}");
    }
}

#[test]
fn a_script_runs_only_while_hold_has_the_lock() {
    let cluster = Cluster::new();
    write_script(&cluster, "hold --pid $$");
    cluster.executable("upload", "#!/bin/sh\necho > uploaded\n");
    let run = || output(&mut shell(&cluster, "./script"));
    let exists = |name: &str| {
        let path = cluster.path(name);
        path.exists() && fs::remove_file(path).is_ok()
    };

    cluster
        .executable("build", "#!/bin/sh\necho > built; redlock inspect deploy > inspection; [ $? = 75 ]\n");
    let found = run();
    assert_eq!((Some(0), ""), (found.status.code(), &*text(&found.stderr)), "{found:?}");
    assert!(exists("built") && exists("uploaded"));
    assert!(output(&mut cluster.redlock(["wait", "-w", "50", "deploy"])).status.success(), "released");

    let script = fs::read_to_string(cluster.path("script")).unwrap();
    cluster.executable("script", &script.replace("hold ", "hold --ttl 2 "));
    let break_it = "for port in $PORTS; do redis-cli -p $port DEL deploy; done > deleted";
    cluster.executable("build", &format!("#!/bin/bash\necho > built; {break_it}; sleep 1000\n"));
    let ports: Vec<_> = cluster.servers.iter().map(|server| server.port().to_string()).collect();
    let found = output(shell(&cluster, "exec ./script > out 2>&1").env("PORTS", ports.join(" ")));
    assert!(!found.status.success(), "stopped: {found:?}");
    assert!(exists("built") && !exists("uploaded"));

    cluster.servers.iter().for_each(redlock_testkit::RedisServer::kill);
    let found = run();
    assert!(!found.status.success() && text(&found.stderr).contains("cannot lock"), "{found:?}");
    assert!(!exists("built") && !exists("uploaded"));
}

#[test]
fn a_handle_is_readable_only_by_its_owner_and_without_one_the_script_ends() {
    let cluster = Cluster::new();
    write_script(&cluster, "redlock lock --ttl 10m -n deploy");
    let run = || output(&mut shell(&cluster, "sh ./script"));
    let found = run();
    assert!(found.status.success() && text(&found.stdout).contains("valid_ms"), "{found:?}");
    let mode = fs::metadata(cluster.path("handle")).unwrap().permissions().mode();
    assert_eq!(0o600, mode & 0o777);
    assert!(output(&mut cluster.redlock(["lock", "deploy", "--ttl", "1m"])).status.success(), "released");
    let found = run();
    assert_eq!((Some(75), ""), (found.status.code(), &*text(&found.stdout)), "{found:?}");
}
