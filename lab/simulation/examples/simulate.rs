//! Runs many seeds of an experiment, or shows one. `scripts/simulate` builds and runs it.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a command prints its results

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};
use redlock_simulation::experiment::{Experiment, Report, Totals};
use redlock_simulation::plan::Faults;
use redlock_simulation::timeline::{self, Timeline};

const USAGE: &str = "scripts/simulate [--seeds N] [--nodes N] [--clients N] [--faults KIND] [--locks plain|mixed] \
                     [--admission on|off] [--whole] [--seed N [--svg FILE]]";

/// The number of defects that are shown.
const SHOWN: usize = 3;

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options.run(),
        Err(wrong) => {
            let kinds = Faults::ALL.map(|(name, _)| name).join(", ");
            eprintln!("{wrong}\n\n{USAGE}\nkinds of faults: {kinds}");
            eprintln!("mixed locks: with and without fencing tokens (the default for faults of fencing)");
            ExitCode::from(2)
        }
    }
}

struct Options {
    seeds: u64,
    seed: Option<u64>,
    svg: Option<String>,
    nodes: Vec<usize>,
    clients: usize,
    faults: Faults,
    fenced: Option<bool>,
    admission: Option<bool>,
    whole: bool,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            seeds: 1_000,
            seed: None,
            svg: None,
            nodes: vec![3, 4, 5],
            clients: 3,
            faults: Faults::Bounded,
            fenced: None,
            admission: None,
            whole: false,
        };
        while let Some(name) = arguments.next() {
            if name == "--whole" {
                options.whole = true;
                continue;
            }
            let value = arguments.next().ok_or(format!("{name} needs a value"))?;
            match name.as_str() {
                "--seeds" => options.seeds = number(&name, &value)?,
                "--seed" => options.seed = Some(number(&name, &value)?),
                "--svg" => options.svg = Some(value),
                "--nodes" => options.nodes = vec![number(&name, &value)?],
                "--clients" => options.clients = number(&name, &value)?,
                "--faults" => {
                    options.faults = Faults::named(&value).ok_or(format!("unknown faults: {value}"))?;
                }
                "--locks" => {
                    options.fenced = match value.as_str() {
                        "plain" => Some(false),
                        "mixed" => Some(true),
                        _ => return Err(format!("unknown locks: {value}")),
                    };
                }
                "--admission" => {
                    options.admission = match value.as_str() {
                        "on" => Some(true),
                        "off" => Some(false),
                        _ => return Err(format!("unknown admission: {value}")),
                    };
                }
                _ => return Err(format!("unknown option: {name}")),
            }
        }
        if options.svg.is_some() && options.seed.is_none() {
            return Err("--svg draws one run: add --seed".into());
        }
        if options.svg.is_some() && options.nodes.len() > 1 {
            options.nodes = vec![5];
        }
        Ok(options)
    }

    fn run(&self) -> ExitCode {
        let mut defects = 0;
        for nodes in &self.nodes {
            let experiment = |seed| {
                let experiment =
                    Experiment::new(seed).servers(*nodes).clients(self.clients).faults(self.faults);
                let experiment = if self.whole { experiment.whole() } else { experiment };
                let experiment = match self.admission {
                    None => experiment,
                    Some(true) => experiment.with_admission(),
                    Some(false) => experiment.without_admission(),
                };
                self.fenced.map_or(experiment.clone(), |fenced| experiment.fenced(fenced))
            };
            defects += match self.seed {
                Some(seed) => {
                    let report = experiment(seed).run();
                    if let Some(Err(wrong)) = self.svg.as_ref().map(|file| write_svg(file, &report)) {
                        eprintln!("{wrong}");
                        return ExitCode::from(2);
                    }
                    show(&report)
                }
                None => self.search(*nodes, experiment),
            };
        }
        if defects == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Runs all seeds on all cores. Returns the number of defects.
    fn search(&self, nodes: usize, experiment: impl Fn(u64) -> Experiment + Sync) -> usize {
        let (next, bar) = (AtomicU64::new(0), progress(self.seeds));
        let (totals, shown) = (Mutex::new(Totals::default()), Mutex::new(0));
        let threads = thread::available_parallelism().map_or(1, Into::into);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut part = Totals::default();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= self.seeds {
                            break;
                        }
                        let run = AssertUnwindSafe(|| experiment(seed).run());
                        let report = catch_unwind(run).unwrap_or_else(|panic| {
                            bar.suspend(|| eprintln!("seed {seed} with {nodes} nodes panics"));
                            resume_unwind(panic)
                        });
                        part.add(&report);
                        if report.defects().next().is_some() {
                            let mut shown = shown.lock().expect("printing does not panic");
                            if *shown < SHOWN {
                                bar.suspend(|| println!("{report}"));
                            }
                            *shown += 1;
                        }
                        bar.inc(1);
                    }
                    totals.lock().expect("adding does not panic").merge(&part);
                });
            }
        });
        bar.finish_and_clear();
        let totals = totals.into_inner().expect("adding does not panic");
        println!("{nodes} nodes, {} clients, faults: {}\n{totals}", self.clients, self.faults);
        totals.defects()
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name} {value}: not a number"))
}

/// Returns a progress bar, which is hidden without a terminal.
fn progress(seeds: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {eta} left").expect("a valid template");
    ProgressBar::new(seeds).with_style(style)
}

/// Shows one run: its events, its plan and its picture. Returns the number of defects.
fn show(report: &Report) -> usize {
    println!("{}", report.history);
    println!("plan:\n{}", report.plan);
    println!("{}", timeline::draw(&report.history, &report.violations, 120));
    println!("{report}");
    let mut totals = Totals::default();
    totals.add(report);
    println!("{totals}");
    totals.defects()
}

/// Writes a picture of a run, and one of each violation: `FILE`, `FILE-1.svg` and so on.
fn write_svg(file: &str, report: &Report) -> Result<(), String> {
    let write = |file: &str, timeline: Timeline<'_>| {
        let svg = timeline.title(report.replay()).svg();
        std::fs::write(file, svg).map_err(|error| format!("{file}: {error}"))
    };
    write(file, Timeline::new(&report.history, &report.violations))?;
    let stem = file.strip_suffix(".svg").unwrap_or(file);
    let numbered = (1..).zip(&report.violations);
    for (number, violation) in numbered {
        write(&format!("{stem}-{number}.svg"), Timeline::about(&report.history, violation))?;
    }
    Ok(())
}
