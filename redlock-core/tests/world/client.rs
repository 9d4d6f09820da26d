//! A program that locks, extends and releases at random, drops its futures at any await, and checks every result.

use std::future::{IntoFuture, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redlock_core::runtime::{Instant, Runtime};
use redlock_core::{ErrorKind, Guard, LeaseState, Redlock, ReleaseOutcome};
use redlock_testkit::sim::Process;

use crate::common::{MS, builder};
use crate::world::World;
use crate::world::network::Link;
use crate::{CALM, STORM, die, millis};

const NODE_TIMEOUT: Duration = Duration::from_millis(80);

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) process: Process,
    world: Arc<World>,
    redlock: Redlock,
    links: Vec<Link>,
    /// True if the client is paused now and then. Its operations may then take any time.
    stops: bool,
}

impl Client {
    pub(crate) fn new(world: &Arc<World>, process: Process) -> Self {
        let stops = die(&process, 3) == 0;
        let links: Vec<_> = world.nodes.iter().map(|node| Link::new(world, node, stops)).collect();
        let nodes: Vec<_> = links.iter().map(|link| link.node.clone()).collect();
        let settings = builder(&process, &nodes).node_timeout(NODE_TIMEOUT).retry_delay(20 * MS);
        let redlock = settings.build().unwrap();
        Self { process, world: world.clone(), redlock, links, stops }
    }

    pub(crate) fn start(&self) {
        self.process.spawn(Box::pin(self.clone().work()));
        self.process.spawn(Box::pin(self.clone().work()));
        let outside = &self.world.outside;
        for link in &self.links {
            outside.spawn(Box::pin(link.clone().suffer(self.world.clone())));
        }
        if self.stops {
            outside.spawn(Box::pin(self.clone().stop_now_and_then()));
        }
    }

    /// Acquires the lock after the storm. Then the client is closed, or just dropped.
    pub(crate) async fn recover(self) {
        let lock = self.redlock.lock(["a", "b", "c"], 10 * CALM).max_wait(CALM);
        let guard = lock.await.unwrap_or_else(|error| panic!("the faults are over, but {error}"));
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
        if self.die(3) > 0 {
            let start = self.process.now();
            self.redlock.close().await;
            assert!(self.process.now() <= start + CALM, "closing takes too long");
        }
    }

    async fn stop_now_and_then(self) {
        let outside = &self.world.outside;
        while self.world.is_stormy() {
            outside.sleep(millis(outside, 400)).await;
            self.process.pause();
            outside.sleep(millis(outside, 200)).await;
            self.process.resume();
        }
    }

    async fn work(self) {
        while self.world.is_stormy() {
            self.process.sleep(millis(&self.process, 20)).await;
            if let Some(guard) = self.acquire().await {
                self.world.granted(guard.lease());
                self.hold(&guard).await;
                self.release(guard).await;
            }
        }
    }

    async fn acquire(&self) -> Option<Guard> {
        let names = [vec!["a"], vec!["b"], vec!["b", "a"], vec!["c", "a"]][self.die(4)].clone();
        let (ttl, start) = (self.ttl(), self.process.now());
        let result = if self.die(2) == 0 {
            let result = self.impatiently(self.redlock.try_lock(names, ttl)).await?;
            self.was_quick(start);
            result
        } else {
            let request = self.redlock.lock(names, ttl).max_wait(millis(&self.process, 300));
            match self.impatiently(request).await? {
                Err(error) if error.kind() == ErrorKind::Contended => Ok(None),
                result => result.map(Some),
            }
        };
        result.unwrap_or_else(|error| {
            assert!(matches!(error.kind(), ErrorKind::NoQuorum | ErrorKind::TooSlow), "{error}");
            None
        })
    }

    async fn hold(&self, guard: &Guard) {
        for _ in 0..self.die(4) {
            self.process.sleep(millis(&self.process, 100)).await;
            let (start, left) = (self.process.now(), guard.remaining());
            match self.impatiently(guard.extend(self.ttl())).await {
                None => continue,
                Some(Ok(())) => self.world.extended(),
                Some(Err(error)) if error.kind() == ErrorKind::NoQuorum => {}
                Some(Err(error)) if error.kind() == ErrorKind::TooSlow => {
                    assert!(
                        matches!(guard.state(), LeaseState::Lost(_)),
                        "{guard:?} is not lost, but {error}"
                    );
                }
                // No node loses data, so a quorum has the keys of every valid lease.
                Some(Err(error)) => assert!(self.process.now() >= start + left, "after {left:?}: {error}"),
            }
            self.was_quick(start);
        }
    }

    async fn release(&self, guard: Guard) {
        let (start, left) = (self.process.now(), guard.remaining());
        match self.die(3) {
            0 => drop(guard),
            1 => drop(self.impatiently(guard.release()).await),
            _ => {
                let released = guard.release().await;
                self.was_quick(start);
                match released {
                    Ok(ReleaseOutcome::Released) => assert!(!left.is_zero(), "released after its expiry"),
                    Ok(ReleaseOutcome::AlreadyExpired) => {
                        assert!(left.is_zero(), "reported as expired before its expiry");
                    }
                    // Its keys may expire while the release is in flight. Nothing else removes them.
                    Ok(other) => assert!(self.process.now() >= start + left, "{other:?} after {left:?}"),
                    Err(error) => assert_eq!(ErrorKind::NoQuorum, error.kind(), "{error}"),
                }
            }
        }
    }

    /// Polls a future until it completes or is dropped, at one of the first awaits or after some time.
    async fn impatiently<T>(&self, future: impl IntoFuture<Output = T>) -> Option<T> {
        let (mut polls, time) = match self.die(4) {
            0 => (self.die(4), STORM),
            1 => (usize::MAX, millis(&self.process, 100)),
            _ => (usize::MAX, CALM),
        };
        let (mut future, mut timer) = (pin!(future.into_future()), self.process.sleep(time));
        poll_fn(|cx| {
            if polls == 0 {
                return Poll::Ready(None);
            }
            polls -= 1;
            match future.as_mut().poll(cx) {
                Poll::Ready(value) => Poll::Ready(Some(value)),
                Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
            }
        })
        .await
    }

    /// Asserts that a call took no longer than the node timeout.
    fn was_quick(&self, start: Instant) {
        let took = self.process.now().saturating_duration_since(start);
        assert!(self.stops || took <= NODE_TIMEOUT, "it took {took:?}");
    }

    fn ttl(&self) -> Duration {
        [60, 200, 1_000, 60_000].map(|millis| millis * MS)[self.die(4)]
    }

    fn die(&self, sides: usize) -> usize {
        die(&self.process, sides)
    }
}
