//! The servers are changed while programs lock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use redlock_core::FencingToken;
use redlock_core::NodeHealth;

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
const CONTENTION: Duration = Duration::from_millis(1_500);

fn program<A: Adapter>(servers: &[RedisServer], (nodes, previous): Step) -> Redlock {
    let urls = |list: &[usize]| list.iter().map(|number| servers[*number].url()).collect::<Vec<_>>();
    let options = Options::new(Arc::new(TokioRuntime::new()));
    let builder = A::builder_with(urls(nodes), &options).unwrap().node_timeout(NODE_TIMEOUT);
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
}

impl Protected {
    async fn turn(&self, redlock: &Redlock) {
        let guard = redlock.lock("a", TTL).fenced().await.unwrap();
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

/// A program that is restarted with both lists has no other connection to a server that is in both.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn a_server_in_both_lists_has_one_connection<A: Adapter>() {
    let servers = RedisServer::start_many(3);
    let redlock = program::<A>(&servers, (&[0, 1, 2], Some(&[0])));
    all_up(&redlock).await;
    redlock.lock("a", TTL).await.unwrap().release().await.unwrap();
    let connections = |server: &RedisServer| server.command(&["CLIENT", "LIST"]).lines().count();
    assert_eq!(connections(&servers[1]), connections(&servers[0]));
    redlock.close().await;
}
