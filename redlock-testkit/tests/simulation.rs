//! The simulated runtime: time, order, and the faults of programs.
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlock_core::runtime::{Instant, Runtime};
use redlock_testkit::sim::{Clock, Process, Simulation, for_each_seed};

const SECOND: Duration = Duration::from_secs(1);

type Log = Arc<Mutex<Vec<(Duration, String)>>>;

fn note(log: &Log, process: &Process, what: impl Into<String>) {
    log.lock().unwrap().push((process.now().elapsed_since_origin(), what.into()));
}

#[test]
fn an_hour_passes_in_no_time() {
    let simulation = Simulation::new(1);
    let process = simulation.process("sleeper");
    let runtime = process.runtime();
    simulation.block_on(&process, async move { runtime.sleep(3600 * SECOND).await });
    assert_eq!(Instant::since_origin(3600 * SECOND), simulation.now());
}

/// Runs ten tasks that sleep for random times. Returns the order in which they woke up.
fn run(seed: u64) -> Vec<(Duration, String)> {
    let simulation = Simulation::new(seed);
    let process = simulation.process("racer");
    let log = Log::default();
    for task in 0..10 {
        let (me, log) = (process.clone(), log.clone());
        process.spawn(Box::pin(async move {
            for _ in 0..5 {
                let mut random = [0];
                me.fill_random(&mut random);
                me.sleep(Duration::from_millis(u64::from(random[0] % 4))).await;
                note(&log, &me, format!("task {task}"));
            }
        }));
    }
    simulation.run_for(SECOND);
    assert_eq!(0, process.tasks());
    let log = log.lock().unwrap();
    log.clone()
}

#[test]
fn only_the_same_seed_replays_the_same_run() {
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
    assert_eq!(50, run(7).len());
}

#[test]
fn a_paused_process_does_not_run_while_its_clock_continues() {
    let simulation = Simulation::new(1);
    let (process, log) = (simulation.process("stopped"), Log::default());
    let (me, notes) = (process.clone(), log.clone());
    process.spawn(Box::pin(async move {
        me.sleep(SECOND).await;
        note(&notes, &me, "woke up");
    }));
    simulation.run_for(SECOND / 2);
    process.pause();
    simulation.run_for(10 * SECOND);
    assert!(log.lock().unwrap().is_empty());
    process.resume();
    simulation.run_for(SECOND);
    let woke = log.lock().unwrap()[0].0;
    assert_eq!(SECOND / 2 + 10 * SECOND, woke, "the timer fired meanwhile, so the task runs at once");
}

#[test]
fn a_suspended_machine_keeps_the_remaining_time_of_its_timers() {
    let simulation = Simulation::new(1);
    let (process, log) = (simulation.process("asleep"), Log::default());
    let (me, notes) = (process.clone(), log.clone());
    process.spawn(Box::pin(async move {
        me.sleep(SECOND).await;
        note(&notes, &me, "woke up");
    }));
    simulation.run_for(SECOND / 4);
    process.suspend();
    simulation.run_for(10 * SECOND);
    process.resume();
    simulation.run_for(SECOND);
    assert_eq!(11 * SECOND, log.lock().unwrap()[0].0, "three quarters of a second were left");
}

#[test]
fn a_killed_process_drops_its_tasks() {
    struct Dropped(Arc<Mutex<u32>>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let simulation = Simulation::new(1);
    let (process, drops) = (simulation.process("victim"), Arc::new(Mutex::new(0)));
    for _ in 0..3 {
        let (me, witness) = (process.clone(), Dropped(drops.clone()));
        process.spawn(Box::pin(async move {
            me.sleep(SECOND).await;
            drop(witness);
            unreachable!("killed before");
        }));
    }
    simulation.run_for(SECOND / 2);
    process.kill();
    assert_eq!((3, 0), (*drops.lock().unwrap(), process.tasks()));
    process.spawn(Box::pin(async { unreachable!("dead programs run nothing") }));
    simulation.run_for(10 * SECOND);
}

#[test]
fn clocks_differ_from_true_time_as_configured() {
    let simulation = Simulation::new(1);
    let fast = Clock { offset: 5 * SECOND, drift_ppm: 10_000 };
    let process = simulation.process_with_clock("fast", fast);
    simulation.run_for(100 * SECOND);
    assert_eq!(Instant::since_origin(106 * SECOND), process.now());
    let runtime = process.runtime();
    simulation.block_on(&process, async move { runtime.sleep(101 * SECOND).await });
    assert_eq!(Instant::since_origin(200 * SECOND), simulation.now(), "101 s of a fast clock are 100 s");
}

#[test]
#[should_panic(expected = "seed 9: Process(\"stuck\") waits for something that cannot happen")]
fn a_deadlock_is_found() {
    let simulation = Simulation::new(9);
    let process = simulation.process("stuck");
    simulation.block_on(&process, std::future::pending::<()>());
}

#[test]
#[should_panic(expected = "a hot loop")]
fn a_hot_loop_is_found() {
    let simulation = Simulation::new(9).max_polls(1_000);
    let process = simulation.process("busy");
    simulation.block_on(&process, async {
        loop {
            let mut yielded = false;
            std::future::poll_fn(|cx| {
                if std::mem::replace(&mut yielded, true) {
                    return std::task::Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                std::task::Poll::Pending
            })
            .await;
        }
    });
}

/// Runs this test alone with `REDLOCK_SEED=2`, as a developer does after a failure.
#[test]
fn a_failing_seed_is_reported_and_can_run_alone() {
    const CHILD: &str = "REDLOCK_TEST_OF_SEEDS";
    if std::env::var_os(CHILD).is_some() {
        return for_each_seed(5, |seed| {
            #[allow(clippy::print_stderr)] // read by the parent
            {
                eprintln!("runs {seed}");
            }
            assert!(seed != 2, "this seed fails");
        });
    }
    let run = |seed: Option<&str>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_failing_seed_is_reported_and_can_run_alone"]).env(CHILD, "");
        match seed {
            Some(seed) => command.env("REDLOCK_SEED", seed),
            None => command.env_remove("REDLOCK_SEED"),
        };
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (succeeds, text) = run(None);
    assert!(!succeeds && text.contains("seed 2 failed; REDLOCK_SEED=2 runs it alone"), "{text}");
    assert!(text.contains("runs 1") && !text.contains("runs 3"), "{text}");
    let (succeeds, text) = run(Some("2"));
    assert!(!succeeds && text.contains("runs 2") && !text.contains("runs 1"), "{text}");
    assert!(run(Some("4")).0, "another seed");
    let (succeeds, text) = run(Some("two"));
    assert!(!succeeds && text.contains(r#"REDLOCK_SEED is "two", which is not a number"#), "{text}");
}
