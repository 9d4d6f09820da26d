//! 1,000 tasks in ten processes on eight slots, which each task holds for 100 ms.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlock_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::records::{self, Recorder, millis, now, urls};

const PROCESSES: usize = 10;
const TASKS: usize = 100;
const SLOTS: usize = 8;
const HOLD: Duration = Duration::from_millis(100);
const TTL: Duration = Duration::from_secs(10);

/// Writes for each hold: the start of the request, the start and the end of the hold, and the index.
pub(crate) async fn process(urls: &str, file: &str, rounds: usize) {
    let redlock = super::redlock(urls);
    let (slots, recorder) =
        (redlock.slots("measured", SLOTS).unwrap(), Arc::new(Mutex::new(Recorder::new(file))));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (slots, recorder) = (slots.clone(), Arc::clone(&recorder));
        tasks.spawn(async move {
            for _ in 0..rounds {
                let requested = now();
                let guard = slots.acquire(TTL).wait_unbounded().await.unwrap();
                let begun = now();
                tokio::time::sleep(HOLD).await;
                let ended = now();
                assert!(guard.is_held(), "the machine stopped for longer than the TTL");
                recorder.lock().unwrap().write(&[requested, begun, ended, guard.index() as u64]);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(end) = tasks.join_next().await {
        end.unwrap();
    }
    redlock.close().await;
}

pub(crate) fn measure(rounds: usize) {
    let (servers, directory) = (RedisServer::start_many(5), tempfile::tempdir().unwrap());
    let start = |number: usize| {
        let file = directory.path().join(number.to_string());
        records::start("slots-process", &urls(&servers), &file, &[rounds.to_string()])
    };
    let processes: Vec<_> = (0..PROCESSES).map(start).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let holds: Vec<[u64; 4]> = records::read(directory.path()).into_iter().map(|(_, hold)| hold).collect();
    assert_eq!(PROCESSES * TASKS * rounds, holds.len());

    // A hold ends before another one begins at the same time.
    let mut edges: Vec<_> = holds.iter().flat_map(|hold| [(hold[1], 1), (hold[2], -1)]).collect();
    edges.sort_unstable();
    let mut holders = 0;
    let most = edges.iter().map(|(_, edge)| {
        holders += edge;
        holders
    });
    let most = most.max().unwrap();
    let overlaps = (0..SLOTS as u64).map(|index| {
        let mut one: Vec<_> = holds.iter().filter(|hold| hold[3] == index).collect();
        one.sort_unstable_by_key(|hold| hold[1]);
        one.windows(2).filter(|pair| pair[1][1] < pair[0][2]).count()
    });
    let overlaps: usize = overlaps.sum();

    // Tasks wait until the last one has begun its hold.
    let first = holds.iter().map(|hold| hold[1]).min().unwrap();
    let last = holds.iter().map(|hold| hold[1]).max().unwrap();
    let held: u64 = holds.iter().map(|hold| hold[2].min(last) - hold[1].min(last)).sum();
    #[allow(clippy::cast_precision_loss)] // a share
    let occupancy = held as f64 / (SLOTS as f64 * (last - first) as f64);
    let mut waits: Vec<_> = holds.iter().map(|hold| hold[1] - hold[0]).collect();
    waits.sort_unstable();
    println!("{} holds of {HOLD:?} by {PROCESSES} processes of {TASKS} tasks, {SLOTS} slots", holds.len());
    println!("at most {most} at once; {overlaps} overlaps within one slot");
    println!(
        "occupancy while tasks wait: {:.1} % in {:.1} s",
        occupancy * 100.0,
        millis(last - first) / 1000.0
    );
    println!(
        "median wait {:.0} ms, longest {:.0} ms",
        millis(waits[waits.len() / 2]),
        millis(waits[waits.len() - 1])
    );
    assert!(most <= 8 && overlaps == 0, "too many holders");
}
