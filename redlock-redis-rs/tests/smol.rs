//! A node on smol: without a tokio runtime anywhere.
#![cfg(feature = "smol")]
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::sync::Arc;
use std::time::{Duration, Instant};

use redlock_redis_rs::node::{Claim, LockNode, NodeErrorKind, Reply, Request, Token, Ttl};
use redlock_redis_rs::runtime::{BoxFuture, Runtime};
use redlock_redis_rs::{
    IntoResources, KeepAlive, Lease, Loss, Options, ReleaseOutcome, Resource, SmolRuntime, builder_with, node,
};
use redlock_testkit::{RedisServer, watching};
use smol::Timer;
use smol::future::or;

/// The limit on every wait. It is far longer than any step takes, so reaching it means a hang.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(60)).unwrap()
}

/// Returns the output of the future, or panics after a time.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    or(future, async {
        Timer::after(WAIT_LIMIT).await;
        panic!("it hangs")
    })
    .await
}

#[test]
fn a_node_votes_heals_and_ends() {
    let server = RedisServer::start();
    let node = node(server.url(), &Options::smol()).unwrap();
    let claim = Claim::new(["a", "b"].into_resources().unwrap(), Token::from_bytes("mine"));
    let clients = || server.command(&["CLIENT", "LIST"]).lines().count() - 1; // but for the one that asks
    smol::block_on(soon(async {
        assert_eq!(Reply::Granted, node.call(Request::Acquire(claim.clone(), ttl())).await.unwrap());
        assert_eq!(Reply::Granted, node.call(Request::Extend(claim.clone(), ttl())).await.unwrap());
        assert_eq!(Reply::Deleted(true), node.call(Request::Release(claim.clone())).await.unwrap());

        server.kill();
        while node.status().connection.is_some() {
            Timer::after(Duration::from_millis(1)).await;
        }
        assert_eq!(
            NodeErrorKind::Unavailable,
            node.call(Request::Release(claim.clone())).await.unwrap_err().kind()
        );
        server.restart();
        let start = Instant::now();
        while node.status().connection.is_none() {
            Timer::after(Duration::from_millis(1)).await;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert_eq!(Reply::Granted, node.call(Request::Acquire(claim.clone(), ttl())).await.unwrap());

        assert!(clients() > 0);
        drop(node);
        while clients() > 0 {
            Timer::after(Duration::from_millis(1)).await;
        }
    }));
}

#[test]
fn a_lock_is_acquired_and_released() {
    let servers = RedisServer::start_many(3);
    let redlock =
        builder_with(servers.iter().map(RedisServer::url), &Options::smol()).unwrap().build().unwrap();
    smol::block_on(soon(async {
        let guard = redlock.lock("a", Duration::from_secs(10)).await.unwrap();
        assert!(redlock.lock("a", Duration::from_secs(10)).try_now().await.unwrap().is_none());
        guard.release().await.unwrap();
        redlock.close().await;
    }));
    assert!(servers.iter().all(|server| server.keys().is_empty()));
}

/// The smol runtime, with a count of its tasks.
#[derive(Clone, Debug, Default)]
struct Counting(
    /// The number of clones is the number of tasks plus one.
    Arc<()>,
);

impl Runtime for Counting {
    fn now(&self) -> redlock_redis_rs::runtime::Instant {
        SmolRuntime::new().now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        SmolRuntime::new().sleep(duration)
    }

    fn spawn(&self, future: BoxFuture<()>) {
        let ticket = self.0.clone();
        SmolRuntime::new().spawn(Box::pin(async move {
            future.await;
            drop(ticket);
        }));
    }
}

#[test]
fn locks_are_kept_alive_and_no_task_is_left_behind() {
    let servers = RedisServer::start_many(3);
    let (alive, ttl) = (Arc::new(()), Duration::from_millis(500));
    let tasks = || Arc::strong_count(&alive) - 1;
    let clients = || {
        servers.iter().map(|server| server.command(&["CLIENT", "LIST"]).lines().count() - 1).sum::<usize>()
    };
    smol::block_on(soon(async {
        let options = Options::new(Arc::new(Counting(alive.clone())));
        let redlock = builder_with(servers.iter().map(RedisServer::url), &options).unwrap().build().unwrap();
        let work = async |lease: Lease| {
            Timer::after(3 * ttl).await;
            lease.is_held()
        };
        assert!(redlock.lock("a", ttl).run(work).await.unwrap());

        let released = redlock.lock("b", ttl).keep_alive(KeepAlive::new()).await.unwrap();
        let dropped = redlock.lock("c", ttl).keep_alive(KeepAlive::new()).await.unwrap();
        let lost = redlock.lock("d", ttl).keep_alive(KeepAlive::new()).await.unwrap();
        assert!(tasks() > 3 + 3, "{} tasks, one for each lock and node at least", tasks() - 1);
        assert_eq!(ReleaseOutcome::Released, released.release().await.unwrap());
        drop(dropped);
        for server in &servers {
            server.command(&["DEL", "d"]);
        }
        assert_eq!(Loss::Revoked { holder: None }, lost.lost().await);
        drop((lost, redlock, options));
        while tasks() > 0 || clients() > 0 {
            Timer::after(Duration::from_millis(1)).await;
        }
    }));
    assert!(servers.iter().all(|server| server.keys().is_empty()));
}

#[test]
fn a_change_is_notified() {
    let server = RedisServer::start();
    let node = node(server.url(), &Options::smol()).unwrap();
    let resource = Resource::new("a").unwrap();
    smol::block_on(soon(async {
        for change in ["SET a other", "DEL a", "FLUSHALL", "CLIENT KILL TYPE normal"] {
            let watch = watching(node.call(Request::Watch(resource.clone())).await.unwrap());
            server.command(&change.split(' ').collect::<Vec<_>>());
            watch.changed.await;
        }
    }));
}
