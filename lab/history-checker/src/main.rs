//! Checks a recorded history: `check-history DIRECTORY`.
//!
//! It prints the figures and the first violations, and writes `report.txt` with a picture of the run and one of each of
//! the first violations. The exit status is 1 if there is a violation, and 2 if the history cannot be checked.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a command prints its results

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use redlock_history_checker::{Event, Figures, History, LEGEND, Violation, around, check, overview};
use serde::de::DeserializeOwned;

/// The number of violations that are printed, and the number that is drawn.
const PRINTED: usize = 10;
const DRAWN: usize = 100;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: check-history DIRECTORY");
        return ExitCode::from(2);
    };
    match run(&directory) {
        Ok(violations) => ExitCode::from(u8::from(violations > 0)),
        Err(error) => {
            eprintln!("the history in {} cannot be checked: {error}", directory.display());
            ExitCode::from(2)
        }
    }
}

/// Returns the number of violations.
fn run(directory: &Path) -> Result<usize, String> {
    let clients = directory.join("clients");
    let mut files: Vec<_> = fs::read_dir(&clients)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>())
        .map_err(|error| format!("{}: {error}", clients.display()))?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    let mut events: Vec<Event> = Vec::new();
    for file in &files {
        events.extend(lines::<Event>(file)?);
    }
    let faults = lines(&directory.join("faults.jsonl"))?;
    let history = History::new(events, faults, lines(&directory.join("keys.jsonl"))?)?;
    let (figures, violations) = check(&history)?;
    let report = directory.join("report.txt");
    fs::write(&report, text(&history, &figures, &violations))
        .map_err(|error| format!("{}: {error}", report.display()))?;
    print!("{figures}");
    println!("{:<48} {:>9}", "violations", violations.len());
    for violation in violations.iter().take(PRINTED) {
        println!("{violation}");
    }
    if violations.len() > PRINTED {
        println!("... and {} more", violations.len() - PRINTED);
    }
    println!("report: {}", report.display());
    Ok(violations.len())
}

fn text(history: &History, figures: &Figures, violations: &[Violation]) -> String {
    let mut parts = vec![figures.to_string(), overview(history, violations)];
    if !violations.is_empty() {
        parts.push(format!("{LEGEND}\n"));
    }
    let drawn = violations.iter().take(DRAWN);
    parts.extend(
        drawn.map(|violation| around(violation, history).unwrap_or_else(|| format!("{violation}\n"))),
    );
    if violations.len() > DRAWN {
        parts.push(format!("... and {} more violations\n", violations.len() - DRAWN));
    }
    parts.join("\n")
}

/// Reads a file of lines. A last line without an end is ignored: its process was killed while it wrote.
fn lines<T: DeserializeOwned>(file: &Path) -> Result<Vec<T>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = complete.lines().enumerate();
    lines
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|error| wrong(&format!("line {}: {error}", index + 1)))
        })
        .collect()
}
