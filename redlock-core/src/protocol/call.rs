//! One request to one node, as a future of its outcome.
//!
//! This is the only place where a vote is checked for [admission](crate::decide::admission). Releases always count.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::inner::{Peer, ReplyCount};
use crate::node::{NodeError, Reply, Request};
use crate::protocol::admission::Check;
use crate::protocol::outcome::outcome as outcome_of;
use crate::types::report::Outcome;

/// The future of a reply.
type ReplyFuture<'a> = Pin<Box<dyn Future<Output = Result<Reply, NodeError>> + Send + 'a>>;

/// A request to one node. It completes with the reply or the error of the node.
pub(crate) struct Call<'a> {
    /// The replies of the node to all requests of this client.
    replies: &'a ReplyCount,
    /// Their number when [`other_replies`](Self::other_replies) was called last.
    seen: u32,
    /// `None` if the reply counts in any case.
    check: Option<Check<'a>>,
    request: Request,
    reply: ReplyFuture<'a>,
}

impl<'a> Call<'a> {
    /// Prepares a request, which is sent at the first poll.
    pub(crate) fn new(peer: &'a Peer, request: Request) -> Self {
        Self::counted_by(&peer.replies, peer, request)
    }

    /// Same as [`new`](Self::new), with a separate count of replies.
    pub(crate) fn counted_by(replies: &'a ReplyCount, peer: &'a Peer, request: Request) -> Self {
        let check = request.is_vote().then(|| Check::new(peer));
        let reply = peer.node.call(request.clone());
        Self { replies, seen: replies.get(), check, request, reply }
    }

    /// Returns whether the request may have been sent.
    pub(crate) fn is_begun(&self) -> bool {
        self.check.as_ref().is_none_or(Check::is_read)
    }

    /// Returns the outcome if the request has not ended at its time limit. It must not be polled any more.
    pub(crate) fn outcome_at_limit(&self) -> Outcome {
        if self.is_begun() {
            Outcome::TimedOut
        } else {
            Outcome::Failed(NodeError::unavailable("not connected in time"))
        }
    }

    /// Returns the number of replies to other requests of this client since the last call.
    pub(crate) fn other_replies(&mut self) -> u32 {
        let before = mem::replace(&mut self.seen, self.replies.get());
        self.seen.wrapping_sub(before)
    }
}

impl Future for Call<'_> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let Self { replies, check, request, reply, .. } = self.get_mut();
        if let Some(check) = check {
            ready!(check.poll_before(cx));
        }
        let outcome = outcome_of(ready!(reply.as_mut().poll(cx)), request);
        if !matches!(outcome, Outcome::Failed(_)) {
            replies.add();
        }
        Poll::Ready(match check {
            Some(check) => check.judge(outcome),
            None => outcome,
        })
    }
}

#[cfg(test)]
impl<'a> Call<'a> {
    /// Creates the call of a release with this reply.
    pub(crate) fn release_with(
        replies: &'a ReplyCount,
        reply: impl Future<Output = Result<Reply, NodeError>> + Send + 'a,
    ) -> Self {
        use crate::node::{Claim, Token};
        use crate::types::resource::IntoResources;

        let resources = "a".into_resources().expect("the name is valid");
        let request = Request::Release(Claim::new(resources, Token::from_bytes("t")));
        Self { replies, seen: replies.get(), check: None, request, reply: Box::pin(reply) }
    }
}
