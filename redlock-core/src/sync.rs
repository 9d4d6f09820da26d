//! The mutex of this crate.
//!
//! Under `cfg(loom)` it is that of loom, which runs each model in every interleaving (`scripts/loom`).

use std::sync::PoisonError;

#[cfg(all(test, loom))]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks a mutex whose values stay consistent even if a critical section panics.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(all(test, not(loom)))]
    tests::COUNT.with(|count| count.set(count.get() + 1));
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::future::{Future, pending, ready};
    use std::pin::pin;
    use std::sync::Arc;
    use std::time::Duration;

    use futures_util::FutureExt;

    use crate::client::redlock::Redlock;
    use crate::node::{Begun, Denial, LockNode, Reply, Request, Token};
    use crate::runtime::{BoxFuture, Instant, Runtime};

    thread_local! {
        /// The number of times that this thread has locked a mutex.
        pub(super) static COUNT: Cell<u64> = const { Cell::new(0) };
    }

    #[derive(Debug)]
    struct StoppedClock;

    impl Runtime for StoppedClock {
        fn now(&self) -> Instant {
            Instant::ORIGIN
        }

        fn sleep(&self, _: Duration) -> BoxFuture<()> {
            Box::pin(pending())
        }

        fn spawn(&self, _: BoxFuture<()>) {}
    }

    /// A node that replies at once.
    struct AtOnce {
        label: String,
        denies: bool,
    }

    impl LockNode for AtOnce {
        fn label(&self) -> &str {
            &self.label
        }

        fn begin(&self, request: &Request) -> Begun {
            Begun::sent(ready(Ok(match request {
                Request::Release(_) => Reply::Deleted(!self.denies),
                _ if self.denies => Reply::Denied(Denial::by(Token::from_bytes("other"))),
                _ => Reply::Granted,
            })))
        }
    }

    fn redlock(denies: bool) -> Redlock {
        let node =
            |number| -> Arc<dyn LockNode> { Arc::new(AtOnce { label: format!("node-{number}"), denies }) };
        Redlock::builder(StoppedClock).nodes((0..5).map(node)).build().expect("valid settings")
    }

    fn count<T>(work: impl Future<Output = T>) -> (u64, T) {
        let (before, mut work) = (COUNT.get(), pin!(work));
        // A denied request lets other tasks run once.
        let output = work.as_mut().now_or_never().or_else(|| work.now_or_never());
        (COUNT.get() - before, output.expect("the nodes reply at once"))
    }

    /// Mutexes are not the largest cost of a lock. But a new one on the path of every request is a decision.
    #[test]
    fn a_cycle_of_five_nodes_locks_few_mutexes() {
        let (redlock, ttl) = (redlock(false), Duration::from_secs(10));
        let (acquired, guard) = count(async { redlock.lock("a", ttl).await.expect("granted") });
        let (extended, ()) = count(async { guard.extend(ttl).await.expect("granted") });
        let (released, _) = count(async { guard.release().await.expect("confirmed") });
        assert_eq!((24, 17, 13), (acquired, extended, released));
    }

    #[test]
    fn a_denied_attempt_on_five_nodes_locks_few_mutexes() {
        let redlock = redlock(true);
        let (denied, guard) = count(async { redlock.lock("a", Duration::from_secs(10)).try_now().await });
        assert!(guard.expect("the nodes reply").is_none());
        assert_eq!(27, denied);
    }
}
