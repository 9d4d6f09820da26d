//! The servers are changed: runs have the old list, both lists or the new list.

use std::fs;
use std::process::Command;

use crate::common::{Cluster, output, text};

/// The exit code of a run that does not wait, if another client holds the lock.
const CONTENDED: Option<i32> = Some(75);

fn run(cluster: &Cluster, options: &[&str]) -> Command {
    let mut command = cluster.redlock([options, &["run", "-n", "job", "true"]].concat());
    command.env_remove("REDLOCK_NODES");
    command
}

#[test]
fn a_run_with_both_lists_respects_a_lock_on_either_list() {
    let cluster = Cluster::new();
    let [one, two, three] = [0, 1, 2].map(|server: usize| cluster.servers[server].url());
    let new = format!("{two},{three}");
    let file = cluster.path("both.toml");
    fs::write(&file, format!("nodes = ['{two}', '{three}']\nprevious_nodes = ['{one}']\n")).unwrap();
    let in_all_ways = || {
        let options = ["--node", &two, "--node", &three, "--previous-node", &one];
        let mut by_options = run(&cluster, &options);
        let mut by_environment = run(&cluster, &[]);
        by_environment.env("REDLOCK_NODES", &new).env("REDLOCK_PREVIOUS_NODES", &one);
        let mut by_file = run(&cluster, &["--config", file.to_str().unwrap()]);
        [output(&mut by_options), output(&mut by_environment), output(&mut by_file)]
            .map(|found| found.status.code())
    };
    assert_eq!([Some(0); 3], in_all_ways());
    for list in [&one, &new] {
        let mut lock = cluster.redlock(["lock", "job", "--ttl", "60"]);
        let locked = output(lock.env("REDLOCK_NODES", list));
        assert_eq!(Some(0), locked.status.code(), "{locked:?}");
        assert_eq!([CONTENDED; 3], in_all_ways(), "{list}");
        let other = if *list == one { &new } else { &one };
        let alone = output(run(&cluster, &[]).env("REDLOCK_NODES", other)).status.code();
        assert_eq!(Some(0), alone, "a run with the other list alone does not see the lock");
        let mut unlock = cluster.redlock(["unlock"]);
        unlock.env("REDLOCK_NODES", list).env("REDLOCK_HANDLE", text(&locked.stdout).trim());
        assert_eq!(Some(0), output(&mut unlock).status.code());
        assert_eq!([Some(0); 3], in_all_ways());
    }
}

#[test]
fn an_invalid_previous_list_is_a_configuration_error() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes();
    let found =
        output(run(&cluster, &[]).env("REDLOCK_NODES", &nodes).env("REDLOCK_PREVIOUS_NODES", "http://a"));
    assert_eq!(Some(78), found.status.code());
    assert!(text(&found.stderr).contains("server 1 of 1: invalid address"), "{found:?}");
    let file = cluster.path("empty.toml");
    fs::write(&file, format!("nodes = ['{}']\nprevious_nodes = []\n", cluster.servers[0].url())).unwrap();
    let found = output(&mut run(&cluster, &["--config", file.to_str().unwrap()]));
    assert_eq!(Some(78), found.status.code());
    assert!(text(&found.stderr).contains("no previous nodes were given"), "{found:?}");
}
