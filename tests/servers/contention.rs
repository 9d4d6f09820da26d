//! Holders in two processes, judged from outside: a file that only one process at a time can create.

use std::process::{Child, Command, Stdio};

use super::*;

/// Of both processes together. Another number, by the environment: a longer run, by `scripts/contend`.
const CYCLES: u32 = 1_000;

#[test]
#[allow(clippy::print_stdout)] // the report of a longer run
fn holders_in_two_processes_never_overlap() {
    let servers = five();
    let directory = tempfile::tempdir().unwrap();
    let asked = std::env::var("REDLOCK_CONTENDED_CYCLES").map(|cycles| cycles.parse::<u32>().unwrap());
    let cycles = asked.unwrap_or(CYCLES) / 2;
    let start = || -> Child {
        let nodes: Vec<_> = servers.iter().map(RedisServer::url).collect();
        let mut command = Command::new(example("contend"));
        command.arg("--nodes").arg(nodes.join(",")).arg("--cycles").arg(cycles.to_string()).arg("--file");
        command.arg(directory.path().join("held")).stdout(Stdio::piped()).spawn().unwrap()
    };
    let report = |child: Child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let (one, two) = (start(), start());
    for report in [report(one), report(two)] {
        print!("{report}");
        assert!(report.contains(&format!("{cycles} cycles, 0 overlaps")), "{report}");
    }
    assert_eq!(Vec::<String>::new(), keys(&servers));
}
