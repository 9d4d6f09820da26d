//! How fast it is, as ratios: `scripts/bench` runs this.
//!
//! Starts its own servers, measures everything in interleaved rounds, prints one table, and writes it with a chart into
//! `docs/performance`. `--quick` measures less and writes nothing; as a test (without `--bench`) it only shows that it
//! works.

#![allow(clippy::print_stdout)] // a program whose output is its result

mod chart;
mod contender;
mod groups;
mod lane;
mod machine;
mod report;
mod round;

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use crate::groups::{core, faults, healthy, memory, resources};
use crate::lane::Flavor;
use crate::report::Row;
use crate::round::Effort;

type Group = fn(Effort) -> Vec<Row>;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let has = |arg: &str| args.iter().any(|given| given == arg);
    let effort = match (has("--bench"), has("--quick")) {
        (true, false) => Effort::FULL,
        (true, true) => Effort::QUICK,
        (false, _) => Effort::SMOKE,
    };
    // `--only core`, for work on one thing.
    let only = args.iter().position(|arg| arg == "--only").and_then(|flag| args.get(flag + 1));

    let machine = machine::describe();
    let groups: [(&str, Group); 6] = [
        ("core", core::run),
        ("memory", |_| memory::run()),
        ("healthy", |effort| healthy::run(effort, Flavor::CurrentThread)),
        ("threads", |effort| healthy::run(effort, Flavor::MultiThread)),
        ("faults", faults::run),
        ("resources", resources::run),
    ];
    let groups = groups.into_iter().filter(|(name, _)| only.is_none_or(|only| only == name));
    let rows: Vec<Row> = groups.flat_map(|(_, run)| run(effort)).collect();
    let table = report::markdown(&rows);
    println!("{table}");
    if has("--bench") && !has("--quick") && only.is_none() {
        write(&rows, &table, &machine)?;
    }
    Ok(())
}

fn write(rows: &[Row], table: &str, machine: &str) -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/performance");
    fs::create_dir_all(&folder)?;
    chart::draw(rows, &folder.join("ratios.svg"))?;
    fs::write(folder.join("README.md"), format!("{INTRODUCTION}\n{machine}\n![](ratios.svg)\n{table}"))?;
    Ok(())
}

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
