//! Measures speed as ratios, waiting times, and behavior under load. `scripts/bench` runs this program.
//!
//! It starts its own servers, measures everything in interleaved rounds and prints one table. It also writes the table
//! and a chart to `docs/performance`. `--quick` measures less and writes nothing. As a test (without `--bench`) it only
//! verifies that the benchmarks run.

#![allow(clippy::print_stdout)] // the program prints its results

mod bare;
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
    admission, core, faults, fenced, healthy, keepalive, lists, memory, native, network as distances,
    resources,
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
    let groups: [(&str, Group); 11] = [
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
        ("lists", lists::run),
    ];
    let groups = groups.into_iter().filter(|(name, _)| only.is_none_or(|only| only == name));
    let rows: Vec<Row> = groups.flat_map(|(_, run)| run(effort)).collect();
    let fact_groups: [(&str, FactGroup); 3] =
        [("admission", admission::idle), ("lists", lists::commands), ("keepalive", keepalive::run)];
    let fact_groups = fact_groups.into_iter().filter(|(name, _)| only.is_none_or(|only| only == name));
    let facts: Vec<Fact> = fact_groups.flat_map(|(_, run)| run(effort)).collect();
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

`scripts/bench waiting` writes this page, and starts five servers for it. The processes of a measurement run on one
machine and share its clock.

- *hand-over*: one task or process releases the lock, and the next one holds it.
- *X/s, a share of Y/s*: the measured rate, and the rate that the hold and the round trips permit.
- *polling*: the same adapter on nodes without notifications, with the default retry delay of 200 ms.
- *rslock*: the crate `rslock`, used as in its documentation, with its default delay of 200 ms and unlimited attempts.
";

const INTRODUCTION: &str = "\
# Performance

`scripts/bench` writes this page. It measures everything in one run, on its own servers. Each *ratio* compares a
measurement with its baseline. Both take turns in the same rounds, and the ratio is the median of the rounds. The
*range* contains the least and the greatest ratio of a round. For times, CPU and memory, less is better. For cycles per
second, more is better. The *value* is the absolute result on this machine.

- *cycle*: acquire and release, both confirmed by a quorum.
- *by hand*: the same client crate with the same connections and options. It sends one request to all servers at once,
  returns at the quorum, and reads the other replies in the background. It has no timeouts, no cleanup and no retries.
- *rslock*: the crate `rslock`, used as in its documentation.
- *bare sockets*: the bytes of the same requests, written and read in a loop by one task for each server, without a lock:
  no quorum, no tokens, no timeouts. It is the limit of this machine.
- *p50*, *p99*: the median and the 99th percentile.
- *us*: microseconds.
";
