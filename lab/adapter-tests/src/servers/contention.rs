//! Two processes contend for one lock. A file that only one of them can create at a time detects overlap.

use std::process::{Child, Command, Stdio};

use super::*;
use crate::examples::program;

/// The number of cycles of both processes together. `scripts/contend` sets a greater one in the environment.
const CYCLES: u32 = 1_000;

#[allow(clippy::print_stdout)] // the report of a longer run
pub(crate) fn holders_in_two_processes_never_overlap<A: Adapter>() {
    let servers = five();
    let directory = tempfile::tempdir().unwrap();
    let configured = std::env::var("REDLOCK_CONTENDED_CYCLES").map(|cycles| cycles.parse::<u32>().unwrap());
    let cycles = configured.unwrap_or(CYCLES) / 2;
    let start = || -> Child {
        let nodes: Vec<_> = servers.iter().map(RedisServer::url).collect();
        let mut command = Command::new(program(A::PROCESS));
        command
            .args(["contend", &nodes.join(","), &cycles.to_string()])
            .arg(directory.path().join("held"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
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
