//! The servers are changed while programs lock.

#![allow(clippy::print_stdout)] // the figures

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use redlock_core::FencingToken;
use redlock_core::NodeHealth;
use redlock_core::node::QuarantineReason;
use tokio::task::JoinHandle;

use super::node_lists::{SECONDS, limit};
use super::*;

/// The lists of one deployment: the servers, and the previous ones.
type Step = (&'static [usize], Option<&'static [usize]>);

/// From three servers to five, and then to three of which one is new.
const STEPS: [Step; 5] = [
    (&[0, 1, 2], None),
    (&[0, 1, 2, 3, 4], Some(&[0, 1, 2])),
    (&[0, 1, 2, 3, 4], None),
    (&[3, 4, 5], Some(&[0, 1, 2, 3, 4])),
    (&[3, 4, 5], None),
];

/// How long programs of two neighbouring steps contend.
const CONTENTION: Duration = Duration::from_secs(1);

/// The time for which a program must stay blocked. It is longer than the time between two comparisons of a blocked program.
const STAYS_BLOCKED: Duration = Duration::from_millis(1_500);

/// How long announcements of programs that have ended, and the wait after them, keep others from locks.
const BLOCKED: Duration = Duration::from_secs(45);

/// The number of turns after which all programs are connected.
const FIRST_TURNS: u32 = 50;

/// A request that takes longer is slow, on a computer that is not busy.
const SLOW: Duration = Duration::from_secs(1);

fn program<A: Adapter>(servers: &[RedisServer], step: Step) -> Redlock {
    started::<A>(servers, step, |builder| builder)
}

fn started<A: Adapter>(
    servers: &[RedisServer],
    (nodes, previous): Step,
    set: impl Fn(Builder) -> Builder,
) -> Redlock {
    let urls = |list: &[usize]| list.iter().map(|number| servers[*number].url()).collect::<Vec<_>>();
    let options = Options::new(Arc::new(TokioRuntime::new()));
    let builder = set(A::builder_with(urls(nodes), &options).unwrap().node_timeout(NODE_TIMEOUT));
    let Some(previous) = previous else { return builder.build().unwrap() };
    let node = |url| Arc::new(A::node(url, &options).unwrap()) as Arc<dyn LockNode>;
    builder.previous_nodes(urls(previous).into_iter().map(node)).build().unwrap()
}

/// The resource that the lock protects. It notices overlaps, and tokens that do not increase.
#[derive(Default)]
struct Protected {
    is_in_use: AtomicBool,
    last: Mutex<Option<FencingToken>>,
    turns: AtomicU32,
    /// The times of the requests that may be slow.
    slow: Mutex<Vec<Duration>>,
    /// The time of the longest request before the first change.
    usual: Mutex<Duration>,
    is_changing: AtomicBool,
}

impl Protected {
    async fn turn(&self, redlock: &Redlock) {
        let start = Instant::now();
        let guard = redlock.lock("a", TTL).fenced().await.unwrap();
        let took = start.elapsed();
        if !self.is_changing.load(Ordering::Relaxed) {
            // The first requests of a program connect and compare lists.
            let is_usual = self.turns.load(Ordering::Relaxed) > FIRST_TURNS;
            let took = if is_usual { took } else { Duration::ZERO };
            let mut usual = self.usual.lock().unwrap();
            *usual = (*usual).max(took);
        } else if took > SLOW {
            self.slow.lock().unwrap().push(took);
        }
        assert!(!self.is_in_use.swap(true, Ordering::SeqCst), "two programs hold the lock");
        let token = guard.token();
        {
            let mut last = self.last.lock().unwrap();
            assert!(Some(token) > *last, "{token:?} after {last:?}");
            *last = Some(token);
        }
        tokio::task::yield_now().await;
        self.is_in_use.store(false, Ordering::SeqCst);
        self.turns.fetch_add(1, Ordering::Relaxed);
        guard.release().await.unwrap();
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn programs_in_neighbouring_steps_exclude_each_other<A: Adapter>() {
    let servers = RedisServer::start_many(6);
    let protected = Arc::new(Protected::default());
    for steps in STEPS.windows(2) {
        let mut programs = Vec::new();
        for step in [steps[0], steps[0], steps[1], steps[1]] {
            let redlock = program::<A>(&servers, step);
            eventually("all nodes reply", PATIENCE, async || {
                redlock.health().await.nodes().iter().all(NodeHealth::is_healthy)
            })
            .await;
            programs.push(redlock);
        }
        let until = Instant::now() + CONTENTION;
        let contend = |redlock: &Redlock| {
            let (redlock, protected) = (redlock.clone(), Arc::clone(&protected));
            tokio::spawn(async move {
                let mut turns = 0;
                while turns == 0 || Instant::now() < until {
                    protected.turn(&redlock).await;
                    turns += 1;
                }
            })
        };
        let tasks: Vec<_> = programs.iter().map(contend).collect();
        for task in tasks {
            task.await.unwrap();
        }
        for redlock in &programs {
            assert_eq!(0, redlock.close().await);
        }
    }
    let turns = protected.turns.load(Ordering::Relaxed);
    assert!(turns >= 16, "each program had a turn in each pair of steps: {turns}");
}

/// A program whose tasks acquire the lock in turns, until `is_ending` is set.
struct Running {
    redlock: Redlock,
    is_ending: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    /// Starts a program whose list must agree with those of others.
    fn start<A: Adapter>(servers: &[RedisServer], step: Step, protected: &Arc<Protected>) -> Self {
        let redlock = started::<A>(servers, step, |builder| builder.node_lists_must_agree(true));
        let is_ending = Arc::new(AtomicBool::new(false));
        let task = || {
            let (redlock, protected, is_ending) =
                (redlock.clone(), Arc::clone(protected), Arc::clone(&is_ending));
            tokio::spawn(async move {
                while !is_ending.load(Ordering::Relaxed) {
                    protected.turn(&redlock).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
        };
        let tasks = vec![task(), task()];
        Self { redlock, is_ending, tasks }
    }

    /// Ends the program after its turn, and panics if one of its requests has failed.
    async fn end(self) {
        self.is_ending.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        assert_eq!(0, self.redlock.close().await);
    }
}

/// Three programs are restarted one after the other, step by step, while all of them request the lock. `scripts/node-lists`
/// carries out all steps; they take minutes, because the last programs of a step must be forgotten first.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn programs_that_must_agree_go_through_a_change<A: Adapter>() {
    let (servers, protected) = (RedisServer::start_many(6), Arc::new(Protected::default()));
    let is_long = std::env::var(SECONDS).is_ok();
    let steps = if is_long { &STEPS[..] } else { &STEPS[..2] };
    let mut programs = Vec::new();
    for _ in 0..3 {
        programs.push(Running::start::<A>(&servers, steps[0], &protected));
    }
    for (number, step) in steps.iter().enumerate().skip(1) {
        // The programs of two steps before, which have ended, must be forgotten first.
        let wait = if number > 1 { BLOCKED } else { CONTENTION };
        tokio::time::sleep(wait).await;
        protected.is_changing.store(true, Ordering::Relaxed);
        for _ in 0..3 {
            programs.push(Running::start::<A>(&servers, *step, &protected));
            tokio::time::sleep(CONTENTION).await;
            programs.remove(0).end().await;
        }
    }
    tokio::time::sleep(CONTENTION).await;
    for program in programs {
        program.end().await;
    }
    let turns = protected.turns.load(Ordering::Relaxed);
    let limit = limit(SLOW, *protected.usual.lock().unwrap());
    let slow: Vec<_> = protected.slow.lock().unwrap().iter().copied().filter(|took| *took > limit).collect();
    println!(
        "{} steps: {turns} turns, no failed request, slow requests (longer than {limit:.1?}): {slow:.1?}",
        steps.len()
    );
    // A usual test asserts no speed.
    assert!(!is_long || slow.len() <= 1, "at most one slow request: {slow:.1?}");
    assert!(turns >= 16, "{turns}");
}

/// No node is in both lists. A program of step 2 runs all the time, and another of each other step starts after it.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn programs_of_the_first_and_the_last_step_exclude_each_other<A: Adapter>() {
    const OLD: Step = (&[0, 1, 2], None);
    const BOTH: Step = (&[3, 4, 5], Some(&[0, 1, 2]));
    const NEW: Step = (&[3, 4, 5], None);
    for (first, last) in [(OLD, NEW), (NEW, OLD)] {
        let servers = RedisServer::start_many(6);
        let start = |step| started::<A>(&servers, step, |builder| builder.node_lists_must_agree(true));
        let has_lock = async |redlock: &Redlock| match redlock.lock("a", TTL).max_attempts(1).await {
            Ok(guard) => guard.release().await.is_ok(),
            Err(_) => false,
        };
        let programs = [first, BOTH].map(start);
        for program in &programs {
            eventually("the program gets a lock", PATIENCE, async || has_lock(program).await).await;
        }
        let last = start(last);
        eventually("the last program is blocked", PATIENCE, async || {
            let health = last.health().await;
            let mut reasons = health.nodes().iter().filter_map(NodeHealth::quarantine);
            reasons.any(|out| out.reason == QuarantineReason::OtherNodeList)
        })
        .await;
        let until = Instant::now() + STAYS_BLOCKED;
        while Instant::now() < until {
            assert!(!has_lock(&last).await, "two steps apart");
        }
        for program in &programs {
            eventually("the program continues", PATIENCE, async || has_lock(program).await).await;
        }
        for program in programs.iter().chain([&last]) {
            program.close().await;
        }
    }
}

/// A program that is restarted with both lists has no other connection to a server that is in both.
pub(crate) async fn a_server_in_both_lists_has_one_connection<A: Adapter>() {
    let servers = RedisServer::start_many(3);
    let redlock = program::<A>(&servers, (&[0, 1, 2], Some(&[0])));
    all_up(&redlock).await;
    redlock.lock("a", TTL).await.unwrap().release().await.unwrap();
    let connections = |server: &RedisServer| server.command(&["CLIENT", "LIST"]).lines().count();
    assert_eq!(connections(&servers[1]), connections(&servers[0]));
    redlock.close().await;
}
