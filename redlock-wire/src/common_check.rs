//! One check behind several votes of a connection.
//!
//! A vote counts only after a check that the server has carried out behind it, over the same connection. After an
//! earlier check, the server may have lost data or its clock may have stepped before it carried the vote out. A check
//! behind several votes is behind each of them, so it serves all of them. Two rules follow:
//!
//! - A vote joins a check once it is sent itself.
//! - Once a check is sent, no further vote joins it.
//!
//! The vote that is the first to join a check also sends it. If there are other votes in flight, other tasks run before,
//! so that more votes can join. Nothing else is waited for: the check is sent without the replies to the votes. If the
//! first vote is dropped before, another one sends the check once its own reply has arrived.

#[cfg(all(test, loom))]
mod loom_tests;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::{BoxFuture, FutureExt, Shared, TryFutureExt, WeakShared, try_join};

use crate::message::{Failure, Reply};
use crate::sync::{Mutex, locked};

/// Sends a check, and completes when the replies were judged.
type Check = BoxFuture<'static, Result<(), Failure>>;

/// The votes of a connection, and the check that is to be sent next.
#[derive(Default)]
pub(crate) struct CommonCheck {
    /// The check that votes can join. It is gone if all votes that have joined it are gone.
    next: Arc<Mutex<Option<WeakShared<Check>>>>,
    /// Each vote in flight has a clone.
    in_flight: Arc<()>,
}

impl CommonCheck {
    /// Sends a vote, and a check behind it. Returns the reply to the vote.
    ///
    /// The first poll of `vote` must send it. `check` returns a check that is sent when it is first polled.
    pub(crate) async fn behind<C>(
        &self,
        mut vote: Pin<&mut (impl Future<Output = Result<Reply, Failure>> + Send)>,
        check: impl FnOnce() -> C + Send,
    ) -> Result<Reply, Failure>
    where
        C: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let is_alone = Arc::strong_count(&self.in_flight) == 1;
        let _in_flight = Arc::clone(&self.in_flight);
        let sent = poll_fn(|cx| Poll::Ready(vote.as_mut().poll(cx))).await;
        let (check, is_first) = self.join(check);
        let check = check.map_err(Failure::of_another_command);
        match sent {
            Poll::Pending if is_first => {
                let check = async {
                    if !is_alone {
                        others_run().await;
                    }
                    check.await
                };
                try_join(vote, check).await.map(|(reply, ())| reply)
            }
            Poll::Pending => {
                let reply = vote.await?;
                check.await.map(|()| reply)
            }
            Poll::Ready(reply) => {
                let reply = reply?;
                check.await.map(|()| reply)
            }
        }
    }

    /// Joins the next check. Returns whether this vote is the first.
    fn join<C>(&self, check: impl FnOnce() -> C) -> (Shared<Check>, bool)
    where
        C: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut next = locked(&self.next);
        if let Some(check) = next.as_ref().and_then(WeakShared::upgrade) {
            return (check, false);
        }
        let (next_check, check) = (Arc::clone(&self.next), check());
        let check = async move {
            *locked(&next_check) = None;
            check.await
        };
        let check = check.boxed().shared();
        *next = check.downgrade();
        (check, true)
    }
}

/// Lets other tasks run once.
async fn others_run() {
    let mut have_run = false;
    poll_fn(|cx| {
        if have_run {
            return Poll::Ready(());
        }
        have_run = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Waker};

    use super::*;
    use crate::message::Sent;

    /// A server that records what it receives.
    #[derive(Clone)]
    struct Server {
        received: Arc<Mutex<Vec<&'static str>>>,
        replies: Arc<AtomicBool>,
        /// The outcome of each check.
        check: Result<(), Failure>,
    }

    impl Server {
        fn new() -> Self {
            Self { received: Arc::default(), replies: Arc::default(), check: Ok(()) }
        }

        fn receives(&self, what: &'static str) -> impl Future<Output = ()> + Send + use<> {
            let Self { received, replies, .. } = self.clone();
            async move {
                locked(&received).push(what);
                poll_fn(|_| if replies.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending })
                    .await;
            }
        }

        async fn vote(&self, checks: &CommonCheck) -> Result<Reply, Failure> {
            let vote = pin!(self.receives("vote").map(|()| Ok(Reply::Nil)));
            checks.behind(vote, || self.check()).await
        }

        fn check(&self) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
            let outcome = self.check.clone();
            self.receives("check").map(|()| outcome)
        }

        fn reply(&self) {
            self.replies.store(true, Ordering::Relaxed);
        }

        fn received(&self) -> Vec<&'static str> {
            locked(&self.received).split_off(0)
        }
    }

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_vote_without_others_is_sent_together_with_its_check() {
        let (server, checks) = (Server::new(), CommonCheck::default());
        for _ in 0..2 {
            assert!(poll(pin!(server.vote(&checks))).is_pending());
            assert_eq!(vec!["vote", "check"], server.received());
        }
    }

    #[test]
    fn votes_join_a_check_until_it_is_sent() {
        let (server, checks) = (Server::new(), CommonCheck::default());
        let votes = [(); 4].map(|()| Box::pin(server.vote(&checks)));
        let [mut alone, mut one, mut two, mut late] = votes;
        assert!(poll(alone.as_mut()).is_pending());
        assert_eq!(vec!["vote", "check"], server.received());
        assert!(poll(one.as_mut()).is_pending() && poll(two.as_mut()).is_pending());
        assert_eq!(vec!["vote", "vote"], server.received());
        assert!(poll(one.as_mut()).is_pending());
        assert_eq!(vec!["check"], server.received());
        assert!(poll(late.as_mut()).is_pending() && poll(late.as_mut()).is_pending());
        assert_eq!(vec!["vote", "check"], server.received());
        server.reply();
        for mut vote in [alone, one, two, late] {
            assert!(poll(vote.as_mut()).is_ready());
        }
        assert!(server.received().is_empty());
    }

    /// The thread of another vote sends the check just before the server receives this vote.
    #[test]
    fn a_check_that_is_sent_before_a_vote_does_not_serve_it() {
        let (server, checks) = (Server::new(), CommonCheck::default());
        let [mut alone, mut other] = [(); 2].map(|()| Box::pin(server.vote(&checks)));
        assert!(poll(alone.as_mut()).is_pending() && poll(other.as_mut()).is_pending());
        server.received();
        let vote = pin!(async {
            assert!(poll(other.as_mut()).is_pending());
            server.receives("vote").await;
            Ok(Reply::Nil)
        });
        let mut late = pin!(checks.behind(vote, || server.check()));
        assert!(poll(late.as_mut()).is_pending() && poll(late.as_mut()).is_pending());
        assert_eq!(vec!["check", "vote", "check"], server.received());
    }

    #[test]
    fn another_vote_sends_the_check_of_one_that_is_dropped() {
        let (server, checks) = (Server::new(), CommonCheck::default());
        let votes = [(); 4].map(|()| Box::pin(server.vote(&checks)));
        let [mut alone, mut dropped, mut other, mut last] = votes;
        for vote in [&mut alone, &mut dropped, &mut other] {
            assert!(poll(vote.as_mut()).is_pending());
        }
        drop(dropped);
        server.received();
        server.reply();
        assert!(poll(other.as_mut()).is_ready());
        assert_eq!(vec!["check"], server.received());
        assert!(poll(last.as_mut()).is_ready());
        assert_eq!(vec!["vote", "check"], server.received());
    }

    #[test]
    fn a_vote_whose_check_was_not_sent_may_have_been_sent() {
        let check = Err(Failure::not_sent("queue full"));
        let (server, checks) = (Server { check, ..Server::new() }, CommonCheck::default());
        server.reply();
        let Poll::Ready(Err(failure)) = poll(pin!(server.vote(&checks))) else { panic!() };
        assert_eq!(Sent::Maybe, failure.sent);
    }
}
