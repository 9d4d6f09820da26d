//! The turns of processes that contend for one lock: the share of each process, its longest wait, and overlaps.

use std::time::Duration;

use redlock_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::records::{self, Recorder, millis, nanos, now};

const TTL: Duration = Duration::from_secs(10);

/// The tasks of one process, and the time that each spends between two locks.
struct Contender {
    tasks: usize,
    think: Duration,
}

/// Measures each group of processes, one after the other.
pub(crate) fn measure(seconds: u64, hold: Duration) {
    let contender = |tasks, think| Contender { tasks, think: Duration::from_millis(think) };
    group("1 task that thinks 5 ms, 16 tasks", &[contender(1, 5), contender(16, 0)], seconds, hold);
    group("1 task, 16 tasks", &[contender(1, 0), contender(16, 0)], seconds, hold);
    group("3 processes of 1 task", &[contender(1, 0), contender(1, 0), contender(1, 0)], seconds, hold);
}

fn group(name: &str, contenders: &[Contender], seconds: u64, hold: Duration) {
    let servers = RedisServer::start_many(5);
    let directory = tempfile::tempdir().unwrap();
    let processes: Vec<_> = (0..)
        .zip(contenders)
        .map(|(number, Contender { tasks, think })| {
            let file = directory.path().join(format!("{number}"));
            let more = [number, u64::try_from(*tasks).unwrap(), nanos(*think), nanos(hold), seconds];
            records::start("turns-process", &servers, &file, &more.map(|number| number.to_string()))
        })
        .collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let mut turns: Vec<_> = records::read::<4>(directory.path()).into_iter().map(|(_, turn)| turn).collect();
    turns.sort_unstable();
    let overlaps = turns.windows(2).filter(|pair| pair[1][0] < pair[0][1]).count();
    let total = turns.len();
    println!("{name}, hold {hold:?}: {} turns/s, {overlaps} overlaps", total as u64 / seconds);
    for (number, Contender { tasks, .. }) in (0_u64..).zip(contenders) {
        let of: Vec<_> = turns.iter().filter(|turn| turn[3] == number).collect();
        let longest = of.iter().map(|turn| turn[2]).max().unwrap_or(0);
        let share = 100.0 * of.len() as f64 / total as f64;
        println!("  {tasks:2} tasks: {share:4.1} % of the turns, longest wait {:.0} ms", millis(longest));
    }
}

/// One process: records the beginning and the end of each hold, the wait, and the number of the process.
pub(crate) async fn process(urls: &str, file: &str, numbers: &[u64]) {
    let &[number, tasks, think, hold, seconds] = numbers else { panic!("five numbers") };
    let redlock = super::redlock(urls);
    let health = redlock.health().await;
    assert_eq!(5, health.healthy_nodes(), "{health}");
    let end = now() + seconds * 1_000_000_000;
    let mut all = JoinSet::new();
    for _ in 0..tasks {
        let (redlock, mut recorder) = (redlock.clone(), Recorder::new(file));
        all.spawn(async move {
            while now() < end {
                let start = now();
                let guard = redlock.lock("turns", TTL).wait_unbounded().await.unwrap();
                let from = now();
                tokio::time::sleep(Duration::from_nanos(hold)).await;
                recorder.write(&[from, now(), from - start, number]);
                guard.release().await.unwrap();
                if think > 0 {
                    tokio::time::sleep(Duration::from_nanos(think)).await;
                }
            }
        });
    }
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
    }
    redlock.close().await;
}
