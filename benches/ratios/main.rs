//! Measures speed as ratios, waiting times, and behavior under load. `scripts/bench` runs this program.
//!
//! It starts its own servers, measures everything in interleaved rounds and prints one table. It also writes the table
//! and a chart to `docs/performance`. `--quick` measures less and writes nothing. As a test (without `--bench`) it only
//! verifies that the benchmarks run.

#![allow(clippy::print_stdout)] // the program prints its results

mod chart;
mod contender;
mod groups;
mod lane;
mod load;
mod machine;
mod network;
mod report;
mod round;
mod waiting;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::groups::{
    admission, core, faults, fenced, healthy, keepalive, memory, native, network as distances, resources,
};
use crate::lane::Flavor;
use crate::report::{Fact, Row};
use crate::round::Effort;

type Group = fn(Effort) -> Vec<Row>;
type FactGroup = fn(Effort) -> Vec<Fact>;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    if args.first().is_some_and(|role| role == "party") {
        return waiting::party(&args[1..]);
    }
    let has = |arg: &str| args.iter().any(|given| given == arg);
    let effort = match (has("--bench"), has("--quick")) {
        (true, false) => Effort::FULL,
        (true, true) => Effort::QUICK,
        (false, _) => Effort::SMOKE,
    };
    // `--only core` selects one group.
    let only = args.iter().position(|arg| arg == "--only").and_then(|flag| args.get(flag + 1));

    let machine = machine::describe();
    let writes = has("--bench") && !has("--quick") && only.is_none();
    if has("waiting") || !has("--bench") {
        let groups = waiting::GROUPS.into_iter().filter(|(name, _)| only.is_none_or(|only| only == name));
        let facts: Vec<Fact> = groups.flat_map(|(_, run)| run(effort)).collect();
        let table = report::facts(&facts);
        println!("{table}");
        if writes {
            fs::write(folder()?.join("waiting.md"), format!("{WAITING}\n{machine}{table}"))?;
        }
    }
    if has("load") || !has("--bench") {
        let folder = writes.then(folder).transpose()?;
        load::run(&load::Plan::new(effort, &args)?, &machine, folder.as_deref())?;
    }
    if has("waiting") || has("load") {
        return Ok(());
    }
    let groups: [(&str, Group); 10] = [
        ("core", core::run),
        ("memory", |_| memory::run()),
        ("healthy", |effort| healthy::run(effort, Flavor::CurrentThread)),
        ("threads", |effort| healthy::run(effort, Flavor::MultiThread)),
        ("fenced", fenced::run),
        ("native", native::run),
        ("network", distances::run),
        ("faults", faults::run),
        ("resources", resources::run),
        ("admission", admission::run),
    ];
    let groups = groups.into_iter().filter(|(name, _)| only.is_none_or(|only| only == name));
    let rows: Vec<Row> = groups.flat_map(|(_, run)| run(effort)).collect();
    let alone: [(&str, FactGroup); 2] = [("admission", admission::idle), ("keepalive", keepalive::run)];
    let alone = alone.into_iter().filter(|(name, _)| only.is_none_or(|only| only == name));
    let facts: Vec<Fact> = alone.flat_map(|(_, run)| run(effort)).collect();
    let table = report::markdown(&rows) + &report::facts(&facts);
    println!("{table}");
    if writes {
        write(&rows, &table, &machine)?;
    }
    Ok(())
}

fn write(rows: &[Row], table: &str, machine: &str) -> Result<(), Box<dyn Error>> {
    let folder = folder()?;
    chart::draw(rows, &folder.join("ratios.svg"))?;
    fs::write(folder.join("README.md"), format!("{INTRODUCTION}\n{machine}\n![](ratios.svg)\n{table}"))?;
    Ok(())
}

fn folder() -> Result<PathBuf, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/performance");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

const WAITING: &str = "\
# Waiting

Written by `scripts/bench waiting`, on five servers of its own. Processes are processes of the system, whose clocks are one.

- *polling*: the same adapter on nodes without notifications, with the default delay of 200 ms.
- *rslock*: as its documentation has it, with its default delay of 200 ms, trying for ever.
";

const INTRODUCTION: &str = "\
# Performance

Written by `scripts/bench`, which measures everything in one run on its own servers. Every figure is a ratio of two things
that took turns in the same rounds; the median of the rounds counts. For times less is better, for cycles a second more
is. Absolute figures are this machine's and stand there for orientation.

- *cycle*: acquire and release, both confirmed by a quorum.
- *by hand*: the same client crate, the same connections and options; one request to all servers at once, done at the
  quorum, the rest in the background. No timeouts, no undoing, no retries.
- *rslock*: as its documentation has it.
";
