//! Many concurrent tasks, and many dropped requests: the servers reply, and no connection is closed.

use std::future::poll_fn;
use std::task::Poll;

use redlock_core::node::Request;

use super::*;

fn nodes<A: Adapter>(servers: &[RedisServer]) -> Vec<Arc<Node<A::Connector>>> {
    servers.iter().map(|server| Arc::new(A::node(server.url(), &Options::tokio()).unwrap())).collect()
}

fn over<A: Adapter>(nodes: &[Arc<Node<A::Connector>>], node_timeout: Duration) -> Redlock {
    let nodes = nodes.iter().map(|node| Arc::clone(node) as Arc<dyn LockNode>);
    Builder::new(Arc::new(TokioRuntime::new())).nodes(nodes).node_timeout(node_timeout).build().unwrap()
}

fn clients(servers: &[RedisServer]) -> Vec<usize> {
    servers.iter().map(|server| server.command(&["CLIENT", "LIST"]).lines().count() - 1).collect()
}

async fn once<T>(future: &mut (impl Future<Output = T> + Unpin)) {
    poll_fn(|cx| {
        let _ = std::pin::Pin::new(&mut *future).poll(cx);
        Poll::Ready(())
    })
    .await;
}

/// The number of requests. Each goes to five servers, and fred does not cancel it.
const REQUESTS: usize = 500;

/// Drops many requests after one poll, `at_once` of them together, in one task or several.
async fn dropped_early<A: Adapter>(tasks: usize, at_once: usize, pause: Duration) {
    let servers = five();
    let nodes = nodes::<A>(&servers);
    let redlock = over::<A>(&nodes, NODE_TIMEOUT);
    all_up(&redlock).await;
    let connections = || nodes.iter().map(|node| node.status().connection).collect::<Vec<_>>();
    let (before, clients_before) = (connections(), clients(&servers));
    let work = |redlock: Redlock, number: usize| async move {
        for round in 0..REQUESTS / tasks / at_once {
            let name = |which: usize| format!("{number}/{round}/{which}");
            let mut inspections: Vec<_> = (0..at_once).map(|_| Box::pin(redlock.inspect("a"))).collect();
            let mut locks: Vec<_> =
                (0..at_once).map(|which| redlock.lock(name(which), TTL).into_future()).collect();
            for inspection in &mut inspections {
                once(inspection).await;
            }
            for lock in &mut locks {
                once(lock).await;
            }
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
            drop((inspections, locks));
            if round % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
    };
    let all: Vec<_> = (0..tasks).map(|number| tokio::spawn(work(redlock.clone(), number))).collect();
    for task in all {
        task.await.unwrap();
    }
    assert_eq!(before, connections(), "{tasks} tasks, {at_once} at once, {pause:?}");
    // fred cancels nothing, and a slow machine takes a while to carry out all requests.
    let works = async || redlock.lock("a", TTL).try_now().await.is_ok_and(|guard| guard.is_some());
    eventually("a lock is acquired", Duration::from_secs(60), works).await;
    assert_eq!((before, clients_before), (connections(), clients(&servers)));
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn requests_dropped_at_once_one_by_one_end_no_connection<A: Adapter>() {
    dropped_early::<A>(1, 1, Duration::ZERO).await;
}

pub(crate) async fn requests_dropped_at_once_many_at_a_time_end_no_connection<A: Adapter>() {
    dropped_early::<A>(1, 64, Duration::ZERO).await;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub(crate) async fn requests_dropped_at_once_by_many_threads_end_no_connection<A: Adapter>() {
    dropped_early::<A>(16, 8, Duration::ZERO).await;
}

pub(crate) async fn requests_dropped_by_a_busy_thread_end_no_connection<A: Adapter>() {
    dropped_early::<A>(1, 16, Duration::from_millis(2)).await;
}

pub(crate) async fn a_stalled_thread_does_not_end_the_connection<A: Adapter>() {
    let server = RedisServer::start();
    let node = A::node(server.url(), &Options::tokio()).unwrap();
    let resource = redlock_core::Resource::new("a").unwrap();
    node.call(Request::Inspect(resource.clone())).await.unwrap();
    let before = node.status().connection;
    once(&mut node.call(Request::Inspect(resource.clone()))).await;
    let mut several: Vec<_> = (0..4).map(|_| node.call(Request::Inspect(resource.clone()))).collect();
    for one in &mut several {
        once(one).await;
    }
    std::thread::sleep(Duration::from_millis(5));
    drop(several);
    assert_eq!(before, node.status().connection);
}

pub(crate) async fn a_hot_loop_of_attempts_does_not_prevent_connecting<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    servers[..3].iter().for_each(RedisServer::kill);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let deadline = Instant::now() + Duration::from_secs(3);
    let timer = tokio::spawn(async { tokio::time::sleep(Duration::from_millis(1)).await });
    let mut tries = 0;
    while Instant::now() < deadline && !timer.is_finished() {
        assert!(redlock.lock("a", TTL).try_now().await.is_err());
        tries += 1;
    }
    assert!(timer.is_finished(), "{tries} attempts while no other task ran");
}

/// Two programs that contend for a few resources. Waiters drop their requests before the replies arrive.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub(crate) async fn contention_ends_no_connection<A: Adapter>() {
    let servers = five();
    let sides = [nodes::<A>(&servers), nodes::<A>(&servers)];
    let redlocks = [over::<A>(&sides[0], NODE_TIMEOUT), over::<A>(&sides[1], NODE_TIMEOUT)];
    for redlock in &redlocks {
        all_up(redlock).await;
    }
    let connections = || sides.iter().flatten().map(|node| node.status().connection).collect::<Vec<_>>();
    let before = connections();
    let cycle = |redlock: Redlock, number: usize| async move {
        for cycle in 0..30 {
            let name = format!("{}", (number + cycle) % 4);
            let request = redlock.lock(name, TTL).max_wait(Duration::from_secs(30));
            let guard = request.retry_delay(Duration::from_millis(5)).await.unwrap();
            guard.extend(TTL).await.unwrap();
            guard.release().await.unwrap();
        }
    };
    let all: Vec<_> =
        (0..16).map(|number| tokio::spawn(cycle(redlocks[number % 2].clone(), number))).collect();
    for task in all {
        task.await.unwrap();
    }
    assert_eq!(before, connections());
}

/// An extension ends with its lease, and its requests to the slower servers are dropped.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub(crate) async fn locks_released_right_after_an_extension_end_no_connection<A: Adapter>() {
    let servers = five();
    let nodes = nodes::<A>(&servers);
    let redlock = over::<A>(&nodes, NODE_TIMEOUT);
    all_up(&redlock).await;
    let connections = || nodes.iter().map(|node| node.status().connection).collect::<Vec<_>>();
    let before = connections();
    let cycle = |redlock: Redlock, number: usize| async move {
        let mut failed = 0;
        for cycle in 0..30 {
            match redlock.lock(format!("{number}/{cycle}"), TTL).await {
                Ok(guard) => {
                    failed += usize::from(guard.extend(TTL).await.is_err());
                    failed += usize::from(guard.release().await.is_err());
                }
                Err(_) => failed += 1,
            }
        }
        failed
    };
    let all: Vec<_> = (0..64).map(|number| tokio::spawn(cycle(redlock.clone(), number))).collect();
    let mut failed = 0;
    for task in all {
        failed += task.await.unwrap();
    }
    assert_eq!((0, before), (failed, connections()));
    nothing_left(&redlock, &servers).await;
}

/// Runs two hundred tasks, which drop a quarter of their requests, over servers that hang briefly, restart, and forget
/// their scripts.
async fn many_tasks_over_failing_servers<A: Adapter>() {
    let servers = Arc::new(five());
    let redlock = warm::<A>(&servers).await;
    let before = clients(&servers);
    let fault_loop = {
        let servers = Arc::clone(&servers);
        std::thread::spawn(move || {
            for server in servers.iter() {
                server.pause();
                std::thread::sleep(Duration::from_millis(100));
                server.resume();
                server.command(&["SCRIPT", "FLUSH"]);
                std::thread::sleep(Duration::from_millis(50));
            }
            servers[0].kill();
            std::thread::sleep(Duration::from_millis(100));
            servers[0].restart();
        })
    };
    let fault_loop = Arc::new(fault_loop);
    let work = |redlock: Redlock, number: usize| {
        let fault_loop = Arc::clone(&fault_loop);
        async move {
            let mut cycle = 0;
            while !fault_loop.is_finished() {
                cycle += 1;
                let lock = async {
                    match redlock.lock(format!("{number}/{cycle}"), TTL).try_now().await {
                        // At most one server has a fault, but on two cores, a majority of the others may be late too.
                        Err(error) => assert_eq!(ErrorKind::NoQuorum, error.kind(), "{error}"),
                        Ok(guard) => drop(guard.expect("no other client holds the lock").release().await),
                    }
                };
                if matches!((number + cycle) % 4, 0) {
                    let wait = Duration::from_micros((number * 37 + cycle * 113) as u64 % 5_000);
                    let _ = tokio::time::timeout(wait, lock).await;
                } else {
                    lock.await;
                }
                tokio::task::yield_now().await;
            }
        }
    };
    let all: Vec<_> = (0..200).map(|number| tokio::spawn(work(redlock.clone(), number))).collect();
    for task in all {
        task.await.unwrap();
    }
    all_up(&redlock).await;
    drop(redlock.lock("a", TTL).await.unwrap());
    nothing_left(&redlock, &servers).await;
    let closed = async || clients(&servers) == before;
    eventually("all connections are closed", Duration::from_secs(60), closed).await;
}

pub(crate) async fn many_tasks_on_one_thread_leave_no_key_on_failing_servers<A: Adapter>() {
    many_tasks_over_failing_servers::<A>().await;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub(crate) async fn many_tasks_on_several_threads_leave_no_key_on_failing_servers<A: Adapter>() {
    many_tasks_over_failing_servers::<A>().await;
}

/// Starts two bursts of locks with an idle time between them.
///
/// The test asserts no durations, because a request may wait for minutes until its task runs.
#[tokio::main]
pub(crate) async fn a_burst_of_locks_succeeds_and_ends_no_connection<A: Adapter>() {
    let servers = five();
    let nodes = nodes::<A>(&servers);
    // A server on a busy machine may be silent for a second.
    let redlock = over::<A>(&nodes, 5 * NODE_TIMEOUT);
    all_up(&redlock).await;
    let connections = || nodes.iter().map(|node| node.status().connection).collect::<Vec<_>>();
    let before = connections();
    for _ in 0..2 {
        let requests = (0..5000).map(|number| {
            let redlock = redlock.clone();
            tokio::spawn(async move {
                let guard = redlock.lock(number.to_string(), 60 * TTL).max_wait(60 * TTL).await.unwrap();
                guard.release().await.unwrap();
            })
        });
        for request in requests.collect::<Vec<_>>() {
            request.await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(before, connections(), "a connection was closed");
    nothing_left(&redlock, &servers).await;
}
