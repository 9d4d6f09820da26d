//! The conformance suite for runtimes can fail. Every deliberate bug of a runtime is detected by the case for the violated
//! sentence, and every case detects a bug.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use redlock_core::runtime::{BoxFuture, Instant, Runtime};
use redlock_testkit::runtime_conformance::{self, Driver};
use redlock_testkit::sim::{Process, Simulation};

use self::Flaw::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    /// Follows the contract.
    Sound,
    ClockGoesBack,
    ClockStops,
    SleepIsShort,
    ZeroNeverFires,
    LongestSleepIsFirst,
    LaterTimersNeverFire,
    SpawnDrops,
    TasksEndWithTheHandle,
    TasksCannotSleep,
    SpawnPolls,
    SpawnPanicsOutside,
    TasksLeak,
    RandomRepeats,
    RandomIsShort,
}

/// The flaws, and the case that detects each.
const DETECTED: &[(Flaw, &str)] = &[
    (ClockGoesBack, "the_clock_never_goes_back"),
    (ClockStops, "the_clock_advances_while_a_task_sleeps"),
    (SleepIsShort, "a_timer_is_never_early"),
    (ZeroNeverFires, "a_timer_without_a_duration_fires"),
    (LongestSleepIsFirst, "timers_fire_in_the_order_of_their_deadlines"),
    (LaterTimersNeverFire, "a_dropped_timer_leaves_others_alone"),
    (SpawnDrops, "a_spawned_task_runs"),
    (TasksEndWithTheHandle, "a_spawned_task_runs_without_any_handle"),
    (TasksCannotSleep, "a_spawned_task_sleeps_and_spawns"),
    (SpawnPolls, "spawn_does_not_run_the_task_itself"),
    (SpawnPanicsOutside, "spawn_on_another_thread_runs_or_drops_the_task"),
    (TasksLeak, "a_completed_task_is_dropped"),
    (RandomRepeats, "random_numbers_differ"),
    (RandomIsShort, "every_byte_is_random"),
];

/// A simulated runtime with a flaw. A deadlock is a panic there.
struct Broken {
    flaw: Flaw,
    simulation: Simulation,
    process: Process,
}

struct Handle {
    flaw: Flaw,
    process: Process,
    reads: AtomicU64,
    thread: std::thread::ThreadId,
    /// The tasks that end with the handle.
    tasks: Mutex<Vec<BoxFuture<()>>>,
}

impl Driver for Broken {
    fn runtime(&self) -> Arc<dyn Runtime> {
        let (flaw, process, thread) = (self.flaw, self.process.clone(), std::thread::current().id());
        Arc::new(Handle { flaw, process, reads: AtomicU64::new(0), thread, tasks: Mutex::default() })
    }

    fn block_on(&self, case: BoxFuture<()>) {
        self.simulation.block_on(&self.process, case);
    }
}

impl Runtime for Handle {
    fn now(&self) -> Instant {
        let now = self.process.now() + Duration::from_secs(1);
        match self.flaw {
            ClockGoesBack => now - Duration::from_nanos(self.reads.fetch_add(1, Ordering::Relaxed)),
            ClockStops => Instant::ORIGIN,
            _ => now,
        }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        match self.flaw {
            SleepIsShort => self.process.sleep(duration / 2),
            ZeroNeverFires if duration.is_zero() => Box::pin(std::future::pending()),
            LongestSleepIsFirst => self.process.sleep(Duration::from_secs(3600).saturating_sub(duration)),
            LaterTimersNeverFire if self.reads.fetch_add(1, Ordering::Relaxed) > 0 => {
                Box::pin(std::future::pending())
            }
            _ => self.process.sleep(duration),
        }
    }

    fn spawn(&self, mut future: BoxFuture<()>) {
        match self.flaw {
            SpawnDrops => drop(future),
            TasksEndWithTheHandle => self.tasks.lock().expect("no code panics with the mutex").push(future),
            TasksCannotSleep => {
                // It polls the task once, and never again.
                self.process.spawn(Box::pin(async move {
                    let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                }));
            }
            SpawnPolls => {
                let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            SpawnPanicsOutside => {
                assert_eq!(self.thread, std::thread::current().id(), "outside of the runtime");
                self.process.spawn(future);
            }
            TasksLeak => self.process.spawn(Box::pin(async move {
                future.as_mut().await;
                std::mem::forget(future);
            })),
            _ => self.process.spawn(future),
        }
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        match self.flaw {
            RandomRepeats => bytes.fill(4),
            RandomIsShort => {
                let length = bytes.len().min(16);
                self.process.fill_random(&mut bytes[..length]);
            }
            _ => self.process.fill_random(bytes),
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({:?})", self.flaw)
    }
}

fn fails(flaw: Flaw, case: &str) -> bool {
    let simulation = Simulation::new(1);
    let broken = Broken { flaw, process: simulation.process("case"), simulation };
    catch_unwind(AssertUnwindSafe(|| runtime_conformance::run(&broken, case))).is_err()
}

#[test]
fn every_flaw_is_detected_by_its_case() {
    for (flaw, case) in DETECTED {
        assert!(fails(*flaw, case), "{case} does not detect {flaw:?}");
    }
}

#[test]
fn every_case_detects_a_flaw() {
    for case in runtime_conformance::cases() {
        assert!(DETECTED.iter().any(|(_, by)| *by == case), "no flaw shows that {case} can fail");
    }
}

#[test]
fn without_a_flaw_every_case_passes() {
    for case in runtime_conformance::cases() {
        assert!(!fails(Sound, case), "{case}");
    }
}
