//! The servers are changed: runs have the old list, both lists or the new list.

use std::fs;
use std::process::{Command, Output};

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

fn nodes(cluster: &Cluster, list: &str, options: &[&str]) -> Output {
    output(cluster.redlock([&["nodes"], options].concat()).env("REDLOCK_NODES", list))
}

/// A program with the first two servers runs, and another one with the last two starts.
#[test]
fn a_run_with_another_list_gets_no_lock_if_lists_must_agree() {
    let cluster = Cluster::new();
    let [one, two, three] = [0, 1, 2].map(|server: usize| cluster.servers[server].url());
    let (first, second) = (format!("{one},{two}"), format!("{two},{three}"));
    let must_agree = |list: &str, words: &[&str]| {
        let mut command = cluster.redlock(words);
        command.env("REDLOCK_NODES", list).env("REDLOCK_NODE_LISTS_MUST_AGREE", "true");
        command
    };
    let found = output(&mut must_agree(&first, &["run", "-n", "job", "true"]));
    assert_eq!(Some(0), found.status.code(), "{found:?}");
    let found = output(&mut must_agree(&second, &["run", "-n", "other", "true"]));
    assert_eq!(Some(69), found.status.code(), "{found:?}");
    assert!(text(&found.stderr).contains("another program lists other nodes"), "{found:?}");
    let found = output(&mut must_agree(&second, &["health"]));
    assert_eq!(Some(69), found.status.code(), "{found:?}");
    let found = output(&mut must_agree(&second, &["doctor", "--observe", "0"]));
    assert!(text(&found.stdout).contains("another program lists other nodes"), "{found:?}");
    let found = output(&mut must_agree(&first, &["run", "-n", "job", "true"]));
    assert_eq!(Some(0), found.status.code(), "programs with the first list continue: {found:?}");
    // Another run has both lists.
    let mut both = must_agree(&second, &["run", "-n", "job", "true"]);
    let found = output(both.env("REDLOCK_PREVIOUS_NODES", &first));
    assert_eq!(Some(0), found.status.code(), "{found:?}");
    let found = output(cluster.redlock(["health"]).env("REDLOCK_NODE_LISTS_MUST_AGREE", "yes"));
    assert_eq!(Some(78), found.status.code(), "{found:?}");
    assert!(text(&found.stderr).contains("must be true or false"), "{found:?}");

    let found = nodes(&cluster, &first, &[]);
    assert_eq!(Some(1), found.status.code(), "{found:?}");
    let shown = text(&found.stdout);
    assert!(shown.contains("differs, announced by ") && shown.contains("A and B"), "{shown}");
    let found = nodes(&cluster, &first, &["--json"]);
    let json: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert!(json["ready_for_step_3"].is_null(), "no change: {json}");
    let announced = json["nodes"][1]["lists"].as_array().unwrap();
    assert_eq!(3, announced.len(), "{json}");
    assert_eq!([&false, &false, &true], [0, 1, 2].map(|list: usize| &announced[list]["differs"]), "{json}");
}

/// The old and the new list have no server in common. A run with both lists passes the old one on to the new server.
#[test]
fn step_3_waits_for_the_last_program_of_step_1() {
    let cluster = Cluster::new();
    let [old, new] = [0, 1].map(|server: usize| cluster.servers[server].url());
    let of_step = |step: u8, words: &[&str]| {
        let mut command = cluster.redlock(words);
        command.env("REDLOCK_NODES", if step == 1 { &old } else { &new });
        if step == 2 {
            command.env("REDLOCK_PREVIOUS_NODES", &old);
        }
        output(command.env("REDLOCK_NODE_LISTS_MUST_AGREE", "true"))
    };
    let last_line = |code: i32, line: &str| {
        let found = of_step(2, &["nodes"]);
        assert_eq!(Some(code), found.status.code(), "{found:?}");
        assert!(text(&found.stdout).trim_end().ends_with(line), "{found:?}");
        text(&found.stdout)
    };
    let run = |step| of_step(step, &["run", "-n", "job", "true"]);
    last_line(1, "Not ready for step 3: no program of step 2 has announced its lists.");
    assert_eq!([Some(0); 2], [1, 2].map(|step| run(step).status.code()));
    let shown = last_line(1, "Not ready for step 3: programs of step 1 run.");
    assert!(shown.contains("step 1, copy"), "{shown}");
    let found = run(3);
    assert_eq!(Some(69), found.status.code(), "{found:?}");
    assert!(text(&found.stderr).contains("another program lists other nodes"), "{found:?}");
    for server in &cluster.servers[..2] {
        server.command(&["DEL", "redlock:nodes", "redlock:nodes:other"]);
    }
    last_line(
        0,
        "Ready for step 3 once the longest TTL is over: no program of step 1 has announced its list.",
    );
    assert_eq!([Some(0); 2], [3, 2].map(|step| run(step).status.code()));
    assert_eq!(Some(69), run(1).status.code(), "step 1 after step 3");
    let found = of_step(2, &["nodes", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(json["ready_for_step_3"], false, "the run of step 1 has announced its list: {json}");
}

/// The recipe waits for it before each deployment.
#[test]
fn a_health_check_with_both_lists_needs_all_servers_of_both() {
    let cluster = Cluster::new();
    let [one, two, three] = [0, 1, 2].map(|server: usize| cluster.servers[server].url());
    let all_are_healthy = || {
        let mut command = cluster.redlock(["health", "--all"]);
        command.env("REDLOCK_NODES", format!("{two},{three}")).env("REDLOCK_PREVIOUS_NODES", &one);
        output(&mut command).status.code()
    };
    assert_eq!(Some(0), all_are_healthy());
    cluster.servers[0].kill();
    assert_eq!(Some(69), all_are_healthy(), "a previous server");
}

#[test]
fn nodes_without_announcements_or_servers() {
    let cluster = Cluster::new();
    let found = nodes(&cluster, &cluster.nodes(), &[]);
    assert_eq!(Some(0), found.status.code(), "{found:?}");
    assert!(text(&found.stdout).contains("no program has announced its list"), "{found:?}");
    let found = nodes(&cluster, "redis://127.0.0.1:1", &[]);
    assert_eq!(Some(69), found.status.code(), "{found:?}");
}

/// A run that ignored the previous list would take part in step 3, beside programs of step 1.
#[test]
fn lists_in_different_places_are_a_configuration_error() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.servers[0].url(), cluster.servers[1].url());
    let file = cluster.path("lists.toml");
    let by_file = |lists: &str| {
        fs::write(&file, lists).unwrap();
        let mut command = run(&cluster, &["--config", file.to_str().unwrap()]);
        command.env_remove("REDLOCK_NODES");
        command
    };
    let only_current = format!("nodes = ['{one}']\n");
    let found = output(by_file(&only_current).env("REDLOCK_PREVIOUS_NODES", &two));
    assert_eq!(Some(78), found.status.code(), "{found:?}");
    assert!(text(&found.stderr).contains("set both lists of servers in the same place"), "{found:?}");
    let both = format!("{only_current}previous_nodes = ['{two}']\n");
    let found = output(by_file(&both).env("REDLOCK_NODES", &one));
    assert_eq!(Some(78), found.status.code(), "{found:?}");
    assert_eq!(Some(0), output(&mut by_file(&both)).status.code());
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
