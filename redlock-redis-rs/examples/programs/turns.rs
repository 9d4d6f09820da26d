//! The turns of processes that contend for one lock: the share of each process, its longest wait, overlaps, and the time
//! that the servers computed.

use std::time::Duration;

use redlock_redis_rs::kind::Read;
use redlock_redis_rs::{Guard, Redlock};
use redlock_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::network::{Link, proxies};
use crate::records::{self, Recorder, millis, nanos, now, urls};

const TTL: Duration = Duration::from_secs(10);

/// The lock of each task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lock {
    One,
    /// On the second resource of `Two`.
    Other,
    /// On two resources.
    Two,
    Read,
    Write,
}

const LOCKS: [Lock; 5] = [Lock::One, Lock::Other, Lock::Two, Lock::Read, Lock::Write];

/// The tasks of one process, the time that each spends between two locks, the delay of a round trip to the servers, and
/// the lock of each.
#[derive(Clone, Copy)]
struct Contender {
    tasks: usize,
    think: Duration,
    delay: Duration,
    lock: Lock,
}

/// Measures each group of processes, one after the other.
pub(crate) fn measure(seconds: u64, hold: Duration) {
    let tasks = |tasks| Contender { tasks, think: Duration::ZERO, delay: Duration::ZERO, lock: Lock::One };
    let thinks = Contender { think: Duration::from_millis(5), ..tasks(1) };
    let far = Contender { delay: Duration::from_millis(20), ..tasks(4) };
    group("1 task that thinks 5 ms, 16 tasks", &[thinks, tasks(16)], seconds, hold);
    let name = "1 task that thinks 5 ms, 16 tasks, two servers go down";
    group_with_down(2, name, &[thinks, tasks(16)], seconds, hold);
    group("1 task, 16 tasks", &[tasks(1), tasks(16)], seconds, hold);
    group("3 processes of 1 task", &[tasks(1); 3], seconds, hold);
    let both = Contender { lock: Lock::Two, ..tasks(1) };
    group("1 task that locks two resources, 4 tasks", &[both, tasks(4)], seconds, hold);
    let other = Contender { lock: Lock::Other, ..tasks(4) };
    group(
        "1 task that locks two resources, 4 tasks for each of them",
        &[both, tasks(4), other],
        seconds,
        hold,
    );
    let (reader, writers) =
        (Contender { lock: Lock::Read, ..tasks(1) }, Contender { lock: Lock::Write, ..tasks(4) });
    group("1 reader, 4 writers", &[reader, writers], seconds, hold);
    group("1 reader, 4 tasks with plain locks", &[reader, tasks(4)], seconds, hold);
    let mut ten = [tasks(4); 10];
    ten[0] = far;
    group("10 processes of 4 tasks, the first 20 ms away", &ten, seconds, hold);
}

fn group(name: &str, contenders: &[Contender], seconds: u64, hold: Duration) {
    group_with_down(0, name, contenders, seconds, hold);
}

/// Measures a group of processes. Some servers are killed after half a second.
fn group_with_down(down: usize, name: &str, contenders: &[Contender], seconds: u64, hold: Duration) {
    let servers = RedisServer::start_many(5);
    let directory = tempfile::tempdir().unwrap();
    let mut links = Vec::new();
    let processes: Vec<_> = (0..)
        .zip(contenders)
        .map(|(number, Contender { tasks, think, delay, lock })| {
            let file = directory.path().join(format!("{number}"));
            let (proxies, far) = proxies(&servers, &[Link { delay: *delay, ..Link::default() }; 5]);
            links.push(proxies);
            let urls = if delay.is_zero() { urls(&servers) } else { far };
            let counts = [*tasks, *lock as usize].map(|count| u64::try_from(count).unwrap());
            let more = [number, counts[0], nanos(*think), nanos(hold), seconds, counts[1]];
            records::start("turns-process", &urls, &file, &more.map(|number| number.to_string()))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    servers[..down].iter().for_each(RedisServer::kill);
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let mut turns: Vec<_> = records::read::<4>(directory.path()).into_iter().map(|(_, turn)| turn).collect();
    turns.sort_unstable();
    let overlaps = overlaps(&turns, contenders, Lock::One) + overlaps(&turns, contenders, Lock::Other);
    let total = turns.len();
    let computed = 1e6 * servers[down..].iter().map(computed).sum::<f64>() / total as f64;
    let rate = total as u64 / seconds;
    println!(
        "{name}, hold {hold:?}: {rate} turns/s, {overlaps} overlaps, {computed:.0} us of all servers per turn"
    );
    for (number, Contender { tasks, .. }) in (0_u64..).zip(contenders) {
        let of: Vec<_> = turns.iter().filter(|turn| turn[3] == number).collect();
        let longest = of.iter().map(|turn| turn[2]).max().unwrap_or(0);
        let share = 100.0 * of.len() as f64 / total as f64;
        println!("  {tasks:2} tasks: {share:4.1} % of the turns, longest wait {:.0} ms", millis(longest));
    }
}

/// Returns how many turns overlap with the one before, on the resource of `lock`.
fn overlaps(turns: &[[u64; 4]], contenders: &[Contender], lock: Lock) -> usize {
    let another = if lock == Lock::One { Lock::Other } else { Lock::One };
    let lock_of = |turn: &[u64; 4]| contenders[usize::try_from(turn[3]).unwrap()].lock;
    let of: Vec<_> = turns.iter().filter(|turn| lock_of(turn) != another).collect();
    of.windows(2).filter(|pair| pair[1][0] < pair[0][1]).count()
}

/// Returns the seconds that a server has computed.
fn computed(server: &RedisServer) -> f64 {
    let info = server.command(&["INFO", "cpu"]);
    let seconds =
        |name| info.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().parse::<f64>().unwrap();
    seconds("used_cpu_user:") + seconds("used_cpu_sys:")
}

/// One process: records the beginning and the end of each hold, the wait, and the number of the process.
pub(crate) async fn process(urls: &str, file: &str, numbers: &[u64]) {
    let &[number, tasks, think, hold, seconds, lock] = numbers else { panic!("six numbers") };
    let lock = LOCKS[usize::try_from(lock).unwrap()];
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
                let guard = acquire(&redlock, lock).await;
                let from = now();
                tokio::time::sleep(Duration::from_nanos(hold)).await;
                recorder.write(&[from, now(), from - start, number]);
                guard.release().await;
                if think > 0 {
                    tokio::time::sleep(Duration::from_nanos(think)).await;
                }
            }
        });
    }
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
    }
    // A server that is down acknowledges no cleanup.
    tokio::time::timeout(Duration::from_secs(2), redlock.close()).await.ok();
}

/// A lock that is held.
enum Held {
    Owned(Guard),
    Read(Guard<Read>),
}

impl Held {
    async fn release(self) {
        match self {
            Self::Owned(guard) => guard.release().await,
            Self::Read(guard) => guard.release().await,
        }
        .unwrap();
    }
}

async fn acquire(redlock: &Redlock, lock: Lock) -> Held {
    let rw_lock = || redlock.rw_lock("turns").unwrap();
    match lock {
        Lock::One => Held::Owned(redlock.lock("turns", TTL).wait_unbounded().await.unwrap()),
        Lock::Other => Held::Owned(redlock.lock("others", TTL).wait_unbounded().await.unwrap()),
        Lock::Two => Held::Owned(redlock.lock(["turns", "others"], TTL).wait_unbounded().await.unwrap()),
        Lock::Read => Held::Read(rw_lock().read(TTL).wait_unbounded().await.unwrap()),
        Lock::Write => Held::Owned(rw_lock().write(TTL).wait_unbounded().await.unwrap().into_any()),
    }
}
