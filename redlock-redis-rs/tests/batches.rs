//! Requests that meet on one connection and go as one: the order is kept.
#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redlock_redis_rs::node::{Claim, LockNode, NodeError, Token, Ttl, Vote};
use redlock_redis_rs::{IntoResources, Options, Resource, node};
use redlock_testkit::RedisServer;
use tokio::task::yield_now;

/// More than a task of tokio's may do before it must let others run (128).
const MANY: usize = 200;

type Asked = Pin<Box<dyn Future<Output = Result<Vote, NodeError>> + Send>>;

fn claim(name: &str) -> Claim {
    Claim::new(name.into_resources().unwrap(), Token::from_bytes("mine"))
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(60)).unwrap()
}

fn acquire(node: &Arc<dyn LockNode>, name: &str) -> Asked {
    let (node, claim) = (Arc::clone(node), claim(name));
    Box::pin(async move { node.acquire(&claim, ttl()).await })
}

async fn once(asked: &mut Asked) {
    poll_fn(|cx| {
        assert!(asked.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// A write is given up, and undone, at the very moment at which many others are answered.
#[tokio::test]
async fn a_release_does_not_overtake_its_write_where_many_are_answered_at_once() {
    let server = Arc::new(RedisServer::start());
    let asked = Arc::clone(&server);
    // In a task of its own, so that it takes turns with those of the connection.
    let left = tokio::spawn(async move {
        let server = asked;
        let node: Arc<dyn LockNode> = Arc::new(node(server.url(), &Options::tokio()).unwrap());
        node.inspect(&Resource::new("a").unwrap()).await.unwrap();
        server.pause();
        let mut others = Vec::new();
        for number in 0..MANY {
            let mut other = acquire(&node, &format!("other/{number}"));
            once(&mut other).await;
            others.push(other);
            for _ in 0..3 {
                yield_now().await;
            }
        }
        server.resume();
        // Kept busy, until all replies are there to be read at once.
        std::thread::sleep(Duration::from_millis(100));
        // Woken by the first reply, ahead of whoever waits for the others.
        others.remove(0).await.unwrap();
        let (mut write, mut beside) = (acquire(&node, "a"), acquire(&node, "b"));
        once(&mut write).await;
        once(&mut beside).await;
        let release = tokio::spawn({
            let node = Arc::clone(&node);
            async move {
                drop(write);
                node.release(&claim("a")).await.unwrap()
            }
        });
        release.await.unwrap();
        beside.await.unwrap();
        for other in others {
            other.await.unwrap();
        }
        node.inspect(&Resource::new("a").unwrap()).await.unwrap()
    });
    let left = left.await.unwrap();
    assert!(left.is_none(), "the write was carried out after its release");
}
