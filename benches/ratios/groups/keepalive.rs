//! Very many locks with auto-renewal at once: the cost of a lock, the cost of a renewal, and the greatest delay of a
//! renewal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redlock_benches::InstantNode;
use redlock_core::node::{Begun, Claim, LockNode, Request, Status};
use redlock_core::runtime::suspend_aware_now;
use redlock_core::{Guard, KeepAlive, Redlock, TokioRuntime};
use redlock_redis_rs::Options;
use redlock_testkit::RedisServer;
use rustix::time::ClockId;
use tokio::runtime::Builder;

use super::{server_cpu, servers};
use crate::lane::cpu_micros;
use crate::report::Fact;
use crate::round::Effort;

const GROUP: &str = "Very many locks kept alive, five nodes";

/// The earliest due time of a renewal, as a share of the TTL since the previous one. Of the rest, 1 % is drift, and 70
/// % are left.
const EARLIEST: f64 = 0.29;

/// The maximum delay as a share of the TTL.
const GOAL: f64 = 0.10;

/// The number of locks acquired at once.
const AT_ONCE: usize = 64;

pub(crate) fn run(effort: Effort) -> Vec<Fact> {
    // Smaller runs scale everything down, including the TTL.
    let (share, seconds) = effort.choose((1, 30), (10, 3), (1000, 1));
    let ttl = Duration::from_secs(seconds);
    let mut facts = held("nodes that reply at once", InstantNode::granting(5), &[], 100_000 / share, ttl);
    for locks in [10_000, 100_000] {
        let (servers, urls) = servers(5);
        let options = Options::tokio();
        let nodes =
            urls.iter().map(|url| redlock_redis_rs::node(url, &options).expect("the address is valid"));
        facts.extend(held("servers", nodes.collect(), &servers, locks / share, ttl));
    }
    facts
}

/// Measures locks on nodes. `servers` are the servers of the nodes; they are empty if there are none.
#[allow(clippy::cast_precision_loss)] // a few millions
fn held<N: LockNode>(
    on: &str,
    nodes: Vec<N>,
    servers: &[RedisServer],
    locks: usize,
    ttl: Duration,
) -> Vec<Fact> {
    let renewals = Arc::new(Renewals::new(locks));
    let mut nodes = nodes.into_iter();
    let first = nodes.next().map(|node| Timed { node, renewals: Arc::clone(&renewals) });
    let first = first.map(|node| Arc::new(node) as Arc<dyn LockNode>);
    let nodes = first.into_iter().chain(nodes.map(|node| Arc::new(node) as Arc<dyn LockNode>));
    let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).build().expect("the nodes are valid");
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    // This lock waits until the nodes are connected.
    runtime.block_on(async {
        for _ in 0..10 {
            let guard = redlock.lock("warm", ttl).await.expect("the lock is free");
            guard.release().await.expect("a quorum replies");
        }
    });

    let memory = memory_of(servers);
    let mut guards = Vec::with_capacity(locks);
    let counted =
        allocation_counter::measure(|| runtime.block_on(acquire(&redlock, ttl, locks, &mut guards)));
    let bytes = counted.bytes_current as f64 / locks as f64;
    let memory = (memory_of(servers) - memory) / (servers.len() * locks) as f64;
    let (cpu, servers_cpu, count) =
        (cpu_micros(ClockId::ProcessCPUTime), server_cpu(servers), renewals.count());
    // A timer is made inside the runtime only.
    runtime.block_on(async { tokio::time::sleep(ttl).await });
    let count = (renewals.count() - count) as f64;
    let cpu = (cpu_micros(ClockId::ProcessCPUTime) - cpu) / count;
    let servers_cpu = (server_cpu(servers) - servers_cpu) / (count * servers.len() as f64);
    // Each lock is renewed a few times a TTL.
    let period = ttl.as_secs_f64() * 1e6 * locks as f64 / count;
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    let latest = renewals.longest().as_secs_f64() / ttl.as_secs_f64() - EARLIEST;
    let count = renewals.count();
    runtime.block_on(async {
        drop(guards);
        redlock.close().await;
    });

    let fact = |what: &str, measured, goal| Fact {
        group: GROUP,
        what: format!("{locks} locks on {on}: {what}"),
        measured,
        goal,
    };
    let mut facts = vec![
        fact("memory of a lock", format!("{bytes:.0} bytes"), None),
        fact("CPU of the client per renewal", format!("{cpu:.1} us"), None),
        fact("locks that a core of the client can keep", format!("{:.0}", period / cpu), None),
        fact(
            "delay of the latest renewal, as a share of the TTL",
            format!("{:.1} %, of {count} renewals", 100.0 * latest),
            Some((format!("at most {:.0} %", 100.0 * GOAL), latest <= GOAL)),
        ),
        fact("lost", lost.to_string(), Some(("none".to_owned(), lost == 0))),
    ];
    if !servers.is_empty() {
        facts.extend([
            fact("memory of a lock on a server", format!("{memory:.0} bytes"), None),
            fact("CPU of a server per renewal", format!("{servers_cpu:.1} us"), None),
            fact("locks that a core of a server can keep", format!("{:.0}", period / servers_cpu), None),
        ]);
    }
    facts
}

/// Returns the memory that all servers use, in bytes.
fn memory_of(servers: &[RedisServer]) -> f64 {
    let used = |server: &RedisServer| {
        let info = server.command(&["INFO", "memory"]);
        let used =
            info.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse::<f64>().ok());
        used.expect("a server reports its memory")
    };
    servers.iter().map(used).sum()
}

async fn acquire(redlock: &Redlock, ttl: Duration, locks: usize, guards: &mut Vec<Guard>) {
    for first in (0..locks).step_by(AT_ONCE) {
        let requests = (first..locks.min(first + AT_ONCE))
            .map(|number| redlock.lock(name(number), ttl).keep_alive(KeepAlive::new()).into_future());
        guards.extend(join_all(requests).await.into_iter().map(|guard| guard.expect("the lock is free")));
    }
}

fn name(number: usize) -> String {
    format!("kept-{number}")
}

/// The time of the last acquisition or renewal of each lock, and the longest time between two of these.
struct Renewals {
    last: Vec<AtomicU64>,
    longest: AtomicU64,
    count: AtomicU64,
}

impl Renewals {
    fn new(locks: usize) -> Self {
        let last = (0..locks).map(|_| AtomicU64::new(0)).collect();
        Self { last, longest: AtomicU64::new(0), count: AtomicU64::new(0) }
    }

    /// Records that a request is sent for a lock. Locks of other clients are not counted.
    fn note(&self, claim: &Claim, renewal: bool) {
        let name = claim.resources()[0].as_bytes().strip_prefix(b"kept-");
        let number = name.and_then(|name| std::str::from_utf8(name).ok()?.parse::<usize>().ok());
        let Some(last) = number.and_then(|number| self.last.get(number)) else { return };
        let now = suspend_aware_now().saturating_duration_since(redlock_core::runtime::Instant::ORIGIN);
        let now = u64::try_from(now.as_nanos()).expect("the time fits into 64 bits");
        let before = last.swap(now, Ordering::Relaxed);
        if renewal {
            self.longest.fetch_max(now - before, Ordering::Relaxed);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest.load(Ordering::Relaxed))
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// A node that records its requests.
struct Timed<N> {
    node: N,
    renewals: Arc<Renewals>,
}

impl<N: LockNode> LockNode for Timed<N> {
    fn label(&self) -> &str {
        self.node.label()
    }

    fn status(&self) -> Status {
        self.node.status()
    }

    fn begin(&self, request: &Request) -> Begun {
        if let Request::Acquire(claim, _) | Request::Extend(claim, _) = request {
            self.renewals.note(claim, matches!(request, Request::Extend(..)));
        }
        self.node.begin(request)
    }
}
