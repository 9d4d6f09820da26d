//! Holders in two processes, judged from outside: a file that only one process at a time can create.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::*;

/// The example of this adapter that locks and creates the file. `cargo test` builds it, where no `--test` is named.
fn holder() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let target = tests.parent().and_then(std::path::Path::parent).unwrap();
    let name = env!("CARGO_PKG_NAME").replace("redlock", "contend").replace('-', "_");
    let holder = target.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(holder.exists(), "{} is missing: build it with `cargo build --examples`", holder.display());
    holder
}

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
        let mut command = Command::new(holder());
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
