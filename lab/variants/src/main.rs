//! Breaks the lock on purpose, one variant after another, and reports whether simulated runs detect it.
//!
//! `variants [--write] [--shrink] [NAME ..]`. Each variant of `variants.toml` is applied to a copy of the workspace, which is built
//! there. The printed table is that of `docs/internals/variants.md`, and `--write` updates the document. Names select
//! variants; then nothing is compared or written. `--shrink` shows the smallest run that detects each variant, and writes its
//! picture to `target/variants/pictures`.
//!
//! The tests only check that each variant applies, and that the document lists it. They build nothing.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a command prints its results

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::Deserialize;

/// The workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/variants.md");

/// The head of the table, which is at the end of the document.
const HEAD: &str = "| variant | what is wrong | caught by | seeds |\n|---|---|---|---:|\n";

/// Folders that are not copied.
const LEFT_OUT: [&str; 3] = ["target", ".git", "node_modules"];

type Fallible<T> = Result<T, Box<dyn Error>>;

#[derive(Deserialize)]
struct Catalog {
    variant: Vec<Variant>,
}

/// One mutation of the lock.
#[derive(Deserialize)]
struct Variant {
    name: String,
    says: String,
    /// The invariant that must be violated. Other invariants may be violated too, even earlier.
    invariant: String,
    /// The kind of runs that detect the variant, unless it follows from the invariant.
    runs: Option<String>,
    change: Vec<Change>,
}

/// A replacement of text that occurs exactly once.
#[derive(Deserialize)]
struct Change {
    file: PathBuf,
    find: String,
    replace: String,
}

impl Change {
    /// Applies the replacement to `text`, the content of the file.
    fn apply(&self, text: &str) -> Fallible<String> {
        let Self { file, find, replace } = self;
        let count = text.matches(find.as_str()).count();
        if count != 1 {
            return Err(format!("found {count} times instead of once in {}:\n{find}", file.display()).into());
        }
        Ok(text.replacen(find, replace, 1))
    }
}

fn main() -> Fallible<ExitCode> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let names: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let shrinks = arguments.iter().any(|argument| argument == "--shrink");
    let mut variant = catalog()?;
    variant.retain(|variant| names.is_empty() || names.contains(&&variant.name));
    let place = Path::new(ROOT).join("target/variants");
    let (copy, binaries, pictures) =
        (place.join("workspace"), place.join("binaries"), place.join("pictures"));
    fs::create_dir_all(&binaries)?;
    fs::create_dir_all(&pictures)?;
    synchronize(Path::new(ROOT), &copy)?;

    let sound = build(&copy, &place)?;
    let mut searches = vec![(keep(&sound, &binaries.join("sound"))?, [None, None], None)];
    let mut errors = Vec::new();
    for variant in &variant {
        let applied = apply(variant, &copy);
        let built = applied.and_then(|()| build(&copy, &place));
        restore(variant, &copy)?;
        let binary = match built {
            Ok(binary) => binary,
            Err(error) => {
                errors.push(format!("{}: {error}", variant.name));
                continue;
            }
        };
        let arguments = [Some(variant.invariant.as_str()), variant.runs.as_deref()];
        let picture = shrinks.then(|| pictures.join(format!("{}.svg", variant.name)));
        searches.push((keep(&binary, &binaries.join(&variant.name))?, arguments, picture));
    }
    if !errors.is_empty() {
        return Err(format!("these variants do not compile:\n{}", errors.join("\n")).into());
    }
    let found = on_all_cores(&searches, |(binary, arguments, picture)| {
        search(binary, *arguments, picture.as_deref())
    });

    let is_sound = found[0].is_none();
    let rows: Vec<_> = variant.iter().zip(&found[1..]).map(row).collect();
    let table = rows.iter().fold(HEAD.to_owned(), |table, (row, seeds)| table + row + seeds + " |\n");
    println!("{table}");
    println!("the correct core: {}", if is_sound { "no violation" } else { "a defect" });
    let escaped = found[1..].iter().filter(|seeds| seeds.is_none()).count();
    println!("{escaped} of {} variants not detected", rows.len());
    if arguments.iter().any(|argument| argument == "--write") && names.is_empty() {
        write(&table)?;
    }
    let is_documented = !names.is_empty() || documented()?.iter().eq(rows.iter().map(|(row, _)| row));
    if !is_documented {
        eprintln!("docs/internals/variants.md is out of date: run scripts/variants --write");
    }
    Ok(if is_sound && escaped == 0 && is_documented { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn catalog() -> Fallible<Vec<Variant>> {
    let Catalog { variant } = toml::from_str(include_str!("../variants.toml"))?;
    Ok(variant)
}

/// Copies the changed files, so that builds of the copy are incremental from run to run.
fn synchronize(from: &Path, to: &Path) -> Fallible<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let target = to.join(&name);
        if LEFT_OUT.iter().any(|left_out| name == *left_out) {
        } else if kind.is_dir() {
            synchronize(&entry.path(), &target)?;
        } else if kind.is_file() {
            let text = fs::read(entry.path())?;
            if fs::read(&target).ok().as_ref() != Some(&text) {
                fs::write(target, text)?;
            }
        }
    }
    Ok(())
}

fn apply(variant: &Variant, copy: &Path) -> Fallible<()> {
    for change in &variant.change {
        let path = copy.join(&change.file);
        fs::write(&path, change.apply(&fs::read_to_string(&path)?)?)?;
    }
    Ok(())
}

fn restore(variant: &Variant, copy: &Path) -> Fallible<()> {
    for Change { file, .. } in &variant.change {
        fs::write(copy.join(file), fs::read(Path::new(ROOT).join(file))?)?;
    }
    Ok(())
}

/// Builds the search in the copy. Returns its path.
fn build(copy: &Path, place: &Path) -> Fallible<PathBuf> {
    let target = place.join("target");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "redlock-variants",
            "--bin",
            "search",
            "--target-dir",
        ])
        .arg(&target)
        // A variant leaves code unused.
        .env("RUSTFLAGS", "--cap-lints allow")
        .current_dir(copy)
        .output()?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned().into());
    }
    Ok(target.join("debug/search"))
}

/// Copies a program that the next build replaces.
fn keep(binary: &Path, to: &Path) -> Fallible<PathBuf> {
    fs::copy(binary, to)?;
    Ok(to.to_owned())
}

/// Returns the number of seeds until a violation of the invariant, or of any invariant if none is given.
///
/// With a file for the picture, the search shows the smallest run.
fn search(binary: &Path, arguments: [Option<&str>; 2], picture: Option<&Path>) -> Option<u64> {
    let mut command = Command::new(binary);
    command.args(arguments.into_iter().flatten()).stderr(Stdio::inherit());
    let output = command.envs(picture.map(|picture| ("SHRUNK", picture))).output();
    String::from_utf8(output.expect("the program was built").stdout).ok()?.trim().parse().ok()
}

/// A row of the table, and its last field.
fn row((variant, seeds): (&Variant, &Option<u64>)) -> (String, String) {
    let Variant { name, says, invariant, .. } = variant;
    let row = format!("| {name} | {says} | {invariant} | ");
    (row, seeds.map_or("not caught".into(), |seeds| seeds.to_string()))
}

fn write(table: &str) -> Fallible<()> {
    let text = fs::read_to_string(DOCUMENT)?;
    let (before, _) = text.split_once(HEAD).ok_or("the document has no table")?;
    Ok(fs::write(DOCUMENT, format!("{before}{table}"))?)
}

/// Returns the rows of the document without the number of seeds, which changes with every additional random draw.
fn documented() -> Fallible<Vec<String>> {
    let text = fs::read_to_string(DOCUMENT)?;
    let table = text.split_once(HEAD).map_or("", |(_, table)| table);
    let rows = table.lines().filter_map(|row| row.trim_end_matches(" |").rsplit_once(' '));
    Ok(rows.map(|(row, _)| format!("{row} ")).collect())
}

fn on_all_cores<T: Sync, U: Send>(work: &[T], each: impl Fn(&T) -> U + Sync) -> Vec<U> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let turns = || {
        while let Some((index, item)) = work.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
            let result = each(item);
            done.lock().expect("pushing does not panic").push((index, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(turns);
        }
    });
    let mut done = done.into_inner().expect("pushing does not panic");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_applies_to_the_code() {
        for Variant { name, change, .. } in catalog().unwrap() {
            assert!(!change.is_empty(), "{name} changes nothing");
            // Several changes of one file are applied one after another.
            let mut texts = std::collections::HashMap::new();
            for change in change {
                let path = Path::new(ROOT).join(&change.file);
                let text = texts.entry(path.clone()).or_insert_with(|| fs::read_to_string(path).unwrap());
                *text = change.apply(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }

    #[test]
    fn the_document_lists_every_variant() {
        let rows: Vec<_> = catalog().unwrap().iter().map(|variant| row((variant, &None)).0).collect();
        assert_eq!(rows, documented().unwrap(), "run scripts/variants --write");
    }
}
