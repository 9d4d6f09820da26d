//! The order of requests that one connection sends together.
#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redlock_redis_rs::node::{Claim, LockNode, NodeError, Reply, Request, Token, Ttl};
use redlock_redis_rs::{IntoResources, Options, Resource, node};
use redlock_testkit::{RedisServer, holder};
use tokio::task::yield_now;

/// More operations than tokio allows a task before the task must yield (128).
const MANY: usize = 200;

type AcquireFuture = Pin<Box<dyn Future<Output = Result<Reply, NodeError>> + Send>>;

fn claim(name: &str) -> Claim {
    Claim::new(name.into_resources().unwrap(), Token::from_bytes("mine"))
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(60)).unwrap()
}

fn acquire(node: &Arc<dyn LockNode>, name: &str) -> AcquireFuture {
    let (node, claim) = (Arc::clone(node), claim(name));
    Box::pin(async move { node.call(Request::Acquire(claim.clone(), ttl())).await })
}

async fn once(request: &mut AcquireFuture) {
    poll_fn(|cx| {
        assert!(request.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// A write is dropped and released at the moment when the replies to many other writes arrive.
#[tokio::test]
async fn a_release_does_not_overtake_its_write_when_many_replies_arrive_at_once() {
    let server = Arc::new(RedisServer::start());
    let task_server = Arc::clone(&server);
    // A separate task, so that it alternates with the tasks of the connection.
    let left = tokio::spawn(async move {
        let server = task_server;
        let node: Arc<dyn LockNode> = Arc::new(node(server.url(), &Options::tokio()).unwrap());
        node.call(Request::Inspect(Resource::new("a").unwrap())).await.unwrap();
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
        // Blocks the thread until all replies have arrived, so that they are read at once.
        std::thread::sleep(Duration::from_millis(100));
        // The first reply wakes this task before the tasks that wait for the other replies.
        others.remove(0).await.unwrap();
        let (mut write, mut beside) = (acquire(&node, "a"), acquire(&node, "b"));
        once(&mut write).await;
        once(&mut beside).await;
        let release = tokio::spawn({
            let node = Arc::clone(&node);
            async move {
                drop(write);
                node.call(Request::Release(claim("a"))).await.unwrap()
            }
        });
        release.await.unwrap();
        beside.await.unwrap();
        for other in others {
            other.await.unwrap();
        }
        holder(node.call(Request::Inspect(Resource::new("a").unwrap())).await.unwrap())
    });
    let left = left.await.unwrap();
    assert!(left.is_none(), "the write was carried out after its release");
}
