//! A contender on a runtime of its own, and what can be timed of it.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};

use crate::contender::Contender;

/// Which runtime a contender runs on.
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

/// What many tasks get done.
#[derive(Clone, Copy)]
pub(crate) struct Throughput {
    /// Cycles a second.
    pub(crate) rate: f64,
    /// Microseconds of the client's CPU a cycle: what does not depend on who else wants the CPU.
    pub(crate) cpu: f64,
}

/// A contender whose type does not matter any more.
pub(crate) trait Lane {
    /// Locks and releases so many times, one after the other.
    fn latency(&self, cycles: usize) -> Latency;

    /// So many tasks, each with a key of its own.
    fn throughput(&self, tasks: usize, lasts: Duration) -> Throughput;

    /// Extends a held lock so many times; in microseconds.
    fn extension(&self, times: usize) -> Percentiles;
}

struct Track<C> {
    runtime: Runtime,
    contender: C,
}

/// Connects a contender and warms it up.
pub(crate) fn lane<C: Contender>(flavor: Flavor, contender: impl Future<Output = C>) -> Box<dyn Lane> {
    let runtime = match flavor {
        Flavor::CurrentThread => Builder::new_current_thread().enable_all().build(),
        Flavor::MultiThread => Builder::new_multi_thread().worker_threads(2).enable_all().build(),
    };
    let runtime = runtime.expect("the system has what a runtime needs");
    let contender = runtime.block_on(contender);
    let track = Track { runtime, contender };
    track.latency(50);
    Box::new(track)
}

impl<C: Contender> Track<C> {
    /// Runs a slice in a task of the runtime, and then lets go on what it has left in the background.
    fn slice<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.runtime.block_on(async {
            let result = tokio::spawn(work).await.expect("contenders work");
            tokio::time::sleep(Duration::from_millis(5)).await;
            result
        })
    }
}

/// A key that no slice had before: nothing that is left of another is in the way.
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
            let cycles: u32 = tasks.into_iter().map(|cycles| cycles.expect("contenders work")).sum();
            let cpu = cpu_micros(ClockId::ProcessCPUTime) - cpu;
            let (cycles, lasted) = (f64::from(cycles), start.elapsed());
            Throughput { rate: cycles / lasted.as_secs_f64(), cpu: cpu / cycles }
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

/// How long this thread, or this process, has been on a CPU, in microseconds.
pub(crate) fn cpu_micros(clock: ClockId) -> f64 {
    let time = Duration::try_from(clock_gettime(clock)).expect("CPU time is never negative");
    time.as_secs_f64() * 1e6
}
