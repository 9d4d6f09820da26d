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
use redlock_simulation::invariant::Violation;
use redlock_simulation::plan::Faults;
use redlock_simulation::timeline::{self, Timeline};

const USAGE: &str = "scripts/simulate [--from N] [--seeds N] [--nodes N] [--clients N] [--faults KIND] \
                     [--activity locking|waiting|sharing|keeping] [--locks plain|mixed] [--admission on|off] [--whole] \
                     [--change OLD-NEW [--without-middle-step] [--lists-must-agree]]
                 [--seed N [--plan FILE] [--shrink] [--svg FILE]]";

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
    /// The experiment, without the seed and the number of nodes.
    experiment: Experiment,
    from: u64,
    seeds: u64,
    seed: Option<u64>,
    nodes: Vec<usize>,
    shrinks: bool,
    svg: Option<String>,
}

impl Options {
    /// Reads the options of this command, and leaves those of the experiment to [`Experiment::parse`].
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            experiment: Experiment::new(0),
            from: 0,
            seeds: 1_000,
            seed: None,
            nodes: Vec::new(),
            shrinks: false,
            svg: None,
        };
        let mut of_experiment = Vec::new();
        while let Some(name) = arguments.next() {
            if name == "--shrink" {
                options.shrinks = true;
                continue;
            }
            let is_own =
                ["--from", "--seeds", "--seed", "--nodes", "--svg", "--plan"].contains(&name.as_str());
            if !is_own {
                of_experiment.push(name);
                continue;
            }
            let value = arguments.next().ok_or(format!("{name} needs a value"))?;
            match name.as_str() {
                "--from" => options.from = number(&name, &value)?,
                "--seeds" => options.seeds = number(&name, &value)?,
                "--seed" => options.seed = Some(number(&name, &value)?),
                "--nodes" => options.nodes = vec![number(&name, &value)?],
                "--svg" => options.svg = Some(value),
                _ => {
                    let plan =
                        std::fs::read_to_string(&value).map_err(|error| format!("{value}: {error}"))?;
                    of_experiment.extend(["--incidents".to_owned(), plan]);
                }
            }
        }
        options.experiment = Experiment::parse(of_experiment)?;
        if options.seed.is_none() && (options.svg.is_some() || options.shrinks) {
            return Err("--svg and --shrink are about one run: add --seed".into());
        }
        if options.experiment.changes_nodes() {
            // The lists determine the servers.
            options.nodes = vec![0];
        } else if options.nodes.is_empty() {
            options.nodes = if options.seed.is_some() { vec![5] } else { vec![3, 4, 5] };
        }
        Ok(options)
    }

    fn run(&self) -> ExitCode {
        let mut defects = 0;
        for nodes in &self.nodes {
            let experiment = self.experiment.clone().servers(*nodes);
            defects += match self.seed {
                Some(seed) => match self.show(&experiment.seed(seed)) {
                    Ok(defects) => defects,
                    Err(wrong) => {
                        eprintln!("{wrong}");
                        return ExitCode::from(2);
                    }
                },
                None => self.search(&experiment),
            };
        }
        if defects == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Shows one run, or the smallest one that violates the same invariant. Returns the number of defects.
    fn show(&self, experiment: &Experiment) -> Result<usize, String> {
        let mut report = experiment.run();
        if self.shrinks {
            let violation = worst(&report).ok_or("nothing to shrink: the run violates no invariant")?;
            let shrunk = report.shrink(violation);
            println!("{shrunk}");
            report = shrunk.report;
        } else {
            show(&report);
        }
        if let Some(file) = &self.svg {
            write_svg(file, &report)?;
        }
        Ok(report.defects().count())
    }

    /// Runs all seeds on all cores. Shows the first defects, and shrinks the first of them. Returns the number of defects.
    fn search(&self, experiment: &Experiment) -> usize {
        let (next, bar) = (AtomicU64::new(self.from), progress(self.seeds));
        let end = self.from.saturating_add(self.seeds);
        let (totals, failed) = (Mutex::new(Totals::default()), Mutex::new(Vec::new()));
        let threads = thread::available_parallelism().map_or(1, Into::into);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut part = Totals::default();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end {
                            break;
                        }
                        let one = experiment.clone().seed(seed);
                        let report = catch_unwind(AssertUnwindSafe(|| one.run())).unwrap_or_else(|panic| {
                            bar.suspend(|| eprintln!("this run panics: {}", one.command()));
                            resume_unwind(panic)
                        });
                        part.add(&report);
                        if report.defects().next().is_some() {
                            let mut failed = failed.lock().expect("printing does not panic");
                            if failed.len() < SHOWN {
                                bar.suspend(|| println!("{report}"));
                                failed.push(report);
                            }
                        }
                        bar.inc(1);
                    }
                    totals.lock().expect("adding does not panic").merge(&part);
                });
            }
        });
        bar.finish_and_clear();
        if let Some(report) = failed.into_inner().expect("printing does not panic").first() {
            if let Some(violation) = worst(report) {
                println!("{}", report.shrink(violation));
            }
        }
        let totals = totals.into_inner().expect("adding does not panic");
        println!("{}\n{totals}", experiment.command_for_seeds(self.from, self.seeds));
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

/// Returns the first defect, or else the first violation after a broken assumption.
fn worst(report: &Report) -> Option<&Violation> {
    report.defects().next().or(report.violations.first())
}

/// Shows one run: its events, its plan and its picture.
fn show(report: &Report) {
    println!("{}", report.history);
    println!("plan:\n{}", report.plan);
    println!("{}", timeline::draw(&report.history, &report.violations, 120));
    println!("{report}");
    let mut totals = Totals::default();
    totals.add(report);
    println!("{totals}");
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
