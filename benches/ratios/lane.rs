//! A contender on its own runtime, and the measurements of it.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};

use crate::contender::Contender;

/// The kind of the runtime of a contender.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    CurrentThread,
    MultiThread,
}

/// Times in microseconds.
#[derive(Clone, Copy)]
pub(crate) struct Latency {
    pub(crate) acquire: Percentiles,
    pub(crate) cycle: Percentiles,
}

#[derive(Clone, Copy)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// The throughput of many tasks.
#[derive(Clone, Copy)]
pub(crate) struct Throughput {
    pub(crate) cycles: f64,
    /// Cycles per second.
    pub(crate) rate: f64,
    /// Microseconds of client CPU per cycle, which do not depend on the load of the machine.
    pub(crate) cpu: f64,
}

/// A contender of any type.
pub(crate) trait Lane {
    /// Locks and releases this many times, one after the other.
    fn latency(&self, cycles: usize) -> Latency;

    /// Acquires this many times, each time after a pause in which the client and the servers are idle. Returns
    /// microseconds.
    fn acquire_after(&self, pause: Duration, times: usize) -> Percentiles;

    /// Runs this many tasks, each with its own key.
    fn throughput(&self, tasks: usize, lasts: Duration) -> Throughput;

    /// Extends a held lock this many times. Returns microseconds.
    fn extension(&self, times: usize) -> Percentiles;
}

struct Track<C> {
    runtime: Runtime,
    contender: C,
}

/// Connects a contender and warms it up.
pub(crate) fn lane<C: Contender>(flavor: Flavor, contender: impl Future<Output = C>) -> Box<dyn Lane> {
    let runtime = runtime(flavor);
    let contender = runtime.block_on(contender);
    let track = Track { runtime, contender };
    track.latency(50);
    Box::new(track)
}

pub(crate) fn runtime(flavor: Flavor) -> Runtime {
    let runtime = match flavor {
        Flavor::CurrentThread => Builder::new_current_thread().enable_all().build(),
        Flavor::MultiThread => Builder::new_multi_thread().worker_threads(2).enable_all().build(),
    };
    runtime.expect("the runtime starts")
}

impl<C: Contender> Track<C> {
    /// Runs a slice in a task of the runtime, and then gives its background work time to finish.
    fn slice<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.runtime.block_on(async {
            let result = tokio::spawn(work).await.expect("the contender does not fail");
            tokio::time::sleep(Duration::from_millis(5)).await;
            result
        })
    }
}

/// Returns a key that no slice has used before, so that no earlier slice interferes.
fn fresh_key() -> String {
    static SLICES: AtomicU64 = AtomicU64::new(0);
    format!("slice-{}", SLICES.fetch_add(1, Ordering::Relaxed))
}

impl<C: Contender> Lane for Track<C> {
    fn latency(&self, cycles: usize) -> Latency {
        let (contender, key) = (self.contender.clone(), fresh_key());
        self.slice(async move {
            let (mut acquires, mut releases) = (Vec::with_capacity(cycles), Vec::with_capacity(cycles));
            for _ in 0..cycles {
                let start = Instant::now();
                let held = contender.acquire(&key).await;
                acquires.push(start.elapsed());
                contender.release(held).await;
                releases.push(start.elapsed());
            }
            Latency { acquire: percentiles(acquires), cycle: percentiles(releases) }
        })
    }

    fn acquire_after(&self, pause: Duration, times: usize) -> Percentiles {
        let (contender, key) = (self.contender.clone(), fresh_key());
        self.slice(async move {
            let mut acquires = Vec::with_capacity(times);
            for _ in 0..times {
                tokio::time::sleep(pause).await;
                let start = Instant::now();
                let held = contender.acquire(&key).await;
                acquires.push(start.elapsed());
                contender.release(held).await;
            }
            percentiles(acquires)
        })
    }

    fn throughput(&self, tasks: usize, lasts: Duration) -> Throughput {
        let (contender, key) = (self.contender.clone(), fresh_key());
        self.slice(async move {
            let (start, cpu) = (Instant::now(), cpu_micros(ClockId::ProcessCPUTime));
            let until = start + lasts;
            let task = |number: usize| {
                let (contender, key) = (contender.clone(), format!("{key}-{number}"));
                tokio::spawn(async move {
                    let mut cycles = 0_u32;
                    while Instant::now() < until {
                        let held = contender.acquire(&key).await;
                        contender.release(held).await;
                        cycles += 1;
                    }
                    cycles
                })
            };
            let tasks = join_all((0..tasks).map(task)).await;
            let cycles: u32 =
                tasks.into_iter().map(|cycles| cycles.expect("the contender does not fail")).sum();
            let cpu = cpu_micros(ClockId::ProcessCPUTime) - cpu;
            let (cycles, lasted) = (f64::from(cycles), start.elapsed());
            Throughput { cycles, rate: cycles / lasted.as_secs_f64(), cpu: cpu / cycles }
        })
    }

    fn extension(&self, times: usize) -> Percentiles {
        let (contender, key) = (self.contender.clone(), fresh_key());
        self.slice(async move {
            let mut held = contender.acquire(&key).await;
            let mut extensions = Vec::with_capacity(times);
            for _ in 0..times {
                let start = Instant::now();
                contender.extend(&mut held).await;
                extensions.push(start.elapsed());
            }
            contender.release(held).await;
            percentiles(extensions)
        })
    }
}

pub(crate) fn percentiles(mut times: Vec<Duration>) -> Percentiles {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    Percentiles { p50: at(50), p99: at(99) }
}

/// Returns the CPU time of this thread or process in microseconds.
pub(crate) fn cpu_micros(clock: ClockId) -> f64 {
    let time = Duration::try_from(clock_gettime(clock)).expect("CPU time is never negative");
    time.as_secs_f64() * 1e6
}
