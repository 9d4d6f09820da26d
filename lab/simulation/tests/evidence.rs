//! The page of evidence names commands that exist, and each guarantee has a row. Commands update their own rows.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

const PAGE: &str = "docs/internals/evidence.md";

/// A row of the page.
struct Row {
    command: String,
    guarantees: Vec<String>,
    time: String,
    passed: String,
    failed: String,
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

fn rows(page: &str) -> Vec<Row> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let row = |row: &str| {
        let cells: Vec<_> = row.split(" | ").collect();
        let [command, guarantees, time, passed, failed] = cells[..] else {
            panic!("wrong number of cells: {row}")
        };
        let links = guarantees.split("../guarantees.md#").skip(1);
        let guarantees = links.map(|link| link.split(')').next().unwrap().to_owned()).collect();
        let [time, passed, failed] = [time, passed, failed].map(str::to_owned);
        Row { command: command.trim_end_matches('`').to_owned(), guarantees, time, passed, failed }
    };
    rows.map(row).collect()
}

#[test]
fn every_command_exists_and_records_its_result() {
    let rows = rows(&read(PAGE));
    assert!(rows.len() > 10);
    for Row { command, time, passed, failed, .. } in &rows {
        let script = command.split(' ').next().unwrap();
        let text = read(script);
        let mode = fs::metadata(Path::new(ROOT).join(script)).unwrap().permissions().mode();
        assert!(mode & 0o111 != 0, "{script} cannot be run");
        assert!(text.contains("\nsource scripts/evidence\n"), "{script} does not record its result");
        assert!(!text.contains("\nexec "), "a program that replaces {script} does not record its result");
        assert_eq!("–" == time, "–" == passed, "{command}: a time belongs to a result");
        for result in [passed, failed] {
            let is_date = result.get(..10).is_some_and(|date| date.split('-').count() == 3);
            assert!(result == "–" || is_date, "{command}: {result}");
        }
    }
    let commands: BTreeSet<_> = rows.iter().map(|row| &row.command).collect();
    assert_eq!(commands.len(), rows.len(), "each command has one row");
}

#[test]
fn every_guarantee_has_a_command() {
    let page = read("docs/guarantees.md");
    let (_, table) = page.split_once("| Guarantee | Holds if |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let anchors = table.split("<a id=\"").skip(1).map(|anchor| anchor.split('"').next().unwrap());
    let guarantees: BTreeSet<_> = anchors.map(str::to_owned).collect();
    let covered: BTreeSet<_> = rows(&read(PAGE)).into_iter().flat_map(|row| row.guarantees).collect();
    assert!(guarantees.len() > 5);
    assert_eq!(guarantees, covered);
}

/// A folder like the workspace, with a page and a script of its own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        fs::remove_dir_all(&folder.0).ok();
        for inner in ["scripts", "docs/internals"] {
            fs::create_dir_all(folder.0.join(inner)).unwrap();
        }
        fs::copy(Path::new(ROOT).join("scripts/evidence"), folder.0.join("scripts/evidence")).unwrap();
        let script = "#!/usr/bin/env bash\nset -euo pipefail\ncd \"$(dirname \"$0\")/..\"\nsource scripts/evidence\n\n${SIGNAL:+kill -s \"$SIGNAL\" $$}\nexit \"$RESULT\"\n";
        fs::write(folder.0.join("scripts/check"), script).unwrap();
        let page = "| `scripts/check` | a | – | – | – |\n| `scripts/check --more` | b | – | – | – |\n";
        fs::write(folder.0.join(PAGE), page).unwrap();
        for arguments in [
            &["init", "-q"][..],
            &["add", "."],
            &["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a"],
        ] {
            assert!(folder.command("git").args(arguments).status().unwrap().success());
        }
        folder
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.0);
        command
    }

    /// Runs the script. Returns its result, and the rows afterwards.
    fn check(&self, arguments: &[&str], result: i32) -> (Option<i32>, Vec<Row>) {
        let mut command = self.command("bash");
        let status = command.arg("scripts/check").args(arguments).env("RESULT", result.to_string()).status();
        (status.unwrap().code(), rows(&fs::read_to_string(self.0.join(PAGE)).unwrap()))
    }
}

#[test]
fn a_command_records_its_result_in_its_own_row() {
    let folder = Folder::new("evidence");
    let commit = folder.command("git").args(["rev-parse", "--short=8", "HEAD"]).output().unwrap().stdout;
    let commit = String::from_utf8(commit).unwrap().trim().to_owned();

    let (status, rows) = folder.check(&["--more"], 0);
    assert_eq!(Some(0), status);
    assert!(rows[1].passed.ends_with(&format!(", {commit}")), "{}", rows[1].passed);
    assert!(rows[1].time.ends_with(" s") && rows[1].failed == "–");
    assert!(rows[0].passed == "–" && rows[0].time == "–", "another row");

    let (status, rows) = folder.check(&[], 1);
    assert_eq!(Some(1), status, "the result of the script stays the same");
    assert!(rows[0].failed.ends_with(&commit) && rows[0].passed == "–" && rows[0].time == "–");

    for (arguments, result) in [(&["--other"][..], 0), (&[], 2), (&[], 130)] {
        let before = fs::read_to_string(folder.0.join(PAGE)).unwrap();
        assert_eq!(Some(result), folder.check(arguments, result).0);
        let after = fs::read_to_string(folder.0.join(PAGE)).unwrap();
        assert_eq!(before, after, "no row, wrong arguments, or interrupted");
    }

    fs::write(folder.0.join("scripts/check"), fs::read(folder.0.join("scripts/check")).unwrap().repeat(2))
        .unwrap();
    let (_, rows) = folder.check(&[], 0);
    assert!(rows[0].passed.ends_with(&format!("{commit} with changes")), "{}", rows[0].passed);
    assert!(rows[0].failed.ends_with(&commit), "the last failure stays");
}

#[test]
fn an_interrupted_command_records_nothing() {
    let folder = Folder::new("interrupted");
    for (signal, result) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        // The signals may be ignored here, as below `nohup`, and a shell cannot change that.
        let mut command = folder.command("env");
        command.args(["--default-signal", "bash", "scripts/check"]).env("RESULT", "0").env("SIGNAL", signal);
        let status = command.status().unwrap();
        let rows = rows(&fs::read_to_string(folder.0.join(PAGE)).unwrap());
        assert!(rows.iter().all(|row| row.passed == "–" && row.failed == "–"), "{signal}");
        assert_eq!(Some(result), status.code(), "{signal}");
    }
}
