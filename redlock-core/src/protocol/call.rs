//! One request to one node, as a future of its outcome.
//!
//! This is the only place where a vote is checked for [admission](crate::decide::admission). Releases always count.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::inner::{Peer, ReplyCount};
use crate::node::{Claim, ConfirmVote, FencedVote, LockEntry, LockNode, NodeError, Vote};
use crate::protocol::admission::Check;
use crate::types::report::Outcome;

/// The future that a method of [`LockNode`](crate::node::LockNode) returns.
type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, NodeError>> + Send + 'a>>;

/// A request to one node. It completes with the reply or the error of the node.
pub(crate) struct Call<'a> {
    /// The replies of the node to all requests of this client.
    replies: &'a ReplyCount,
    /// Their number when [`other_replies`](Self::other_replies) was called last.
    seen: u32,
    /// `None` if the reply counts in any case.
    check: Option<Check<'a>>,
    request: Request<'a>,
}

/// There is one variant for each type of reply. Every reply of a node becomes an outcome here.
pub(crate) enum Request<'a> {
    /// `acquire`, `extend` or `keep_for`.
    Plain(Reply<'a, Vote>),
    /// `acquire_fenced`.
    Fenced(Reply<'a, FencedVote>),
    /// `confirm` or `refill_fenced`.
    Confirm(Reply<'a, ConfirmVote>),
    Release(Reply<'a, bool>),
    Inspect(Reply<'a, Option<LockEntry>>),
    Vouch(Reply<'a, ()>),
}

impl<'a> Call<'a> {
    /// Sends `acquire`, `extend` or `keep_for`.
    pub(crate) fn plain(peer: &'a Peer, request: impl FnOnce(&'a dyn LockNode) -> Reply<'a, Vote>) -> Self {
        Self::checked(peer, Request::Plain(request(&*peer.node)))
    }

    /// Sends `acquire_fenced`.
    pub(crate) fn fenced(
        peer: &'a Peer,
        request: impl FnOnce(&'a dyn LockNode) -> Reply<'a, FencedVote>,
    ) -> Self {
        Self::checked(peer, Request::Fenced(request(&*peer.node)))
    }

    /// Sends `confirm` or `refill_fenced`.
    pub(crate) fn confirm(
        peer: &'a Peer,
        request: impl FnOnce(&'a dyn LockNode) -> Reply<'a, ConfirmVote>,
    ) -> Self {
        Self::checked(peer, Request::Confirm(request(&*peer.node)))
    }

    pub(crate) fn inspect(
        peer: &'a Peer,
        request: impl FnOnce(&'a dyn LockNode) -> Reply<'a, Option<LockEntry>>,
    ) -> Self {
        Self::checked(peer, Request::Inspect(request(&*peer.node)))
    }

    pub(crate) fn release(peer: &'a Peer, claim: &'a Claim) -> Self {
        Self::new(&peer.replies, None, Request::Release(peer.node.release(claim)))
    }

    pub(crate) fn vouch(peer: &'a Peer) -> Self {
        Self::new(&peer.replies, None, Request::Vouch(peer.node.vouch()))
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

    fn checked(peer: &'a Peer, request: Request<'a>) -> Self {
        Self::new(&peer.replies, Some(Check::new(peer)), request)
    }

    pub(crate) fn new(replies: &'a ReplyCount, check: Option<Check<'a>>, request: Request<'a>) -> Self {
        Self { replies, seen: replies.get(), check, request }
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
        let Self { replies, check, request, .. } = self.get_mut();
        if let Some(check) = check {
            ready!(check.poll_before(cx));
        }
        let outcome = ready!(request.poll(cx));
        if !matches!(outcome, Outcome::Failed(_)) {
            replies.add();
        }
        Poll::Ready(match check {
            Some(check) => check.judge(outcome),
            None => outcome,
        })
    }
}

impl Request<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        match self {
            Self::Plain(reply) => outcome(reply, cx, |vote| match vote {
                Vote::Granted => Outcome::Granted,
                Vote::Denied(denial) => Outcome::Denied(denial),
            }),
            Self::Fenced(reply) => outcome(reply, cx, |vote| match vote {
                FencedVote::Granted(counter) => Outcome::GrantedFenced(counter),
                FencedVote::Denied(denial) => Outcome::Denied(denial),
            }),
            Self::Confirm(reply) => outcome(reply, cx, |vote| match vote {
                ConfirmVote::Granted => Outcome::Granted,
                ConfirmVote::Denied(denial) => Outcome::Denied(denial),
                ConfirmVote::Superseded(counter) => Outcome::Superseded(counter),
            }),
            Self::Release(reply) => {
                outcome(reply, cx, |deleted| if deleted { Outcome::Released } else { Outcome::NotHeld })
            }
            Self::Inspect(reply) => outcome(reply, cx, |entry| entry.map_or(Outcome::Free, Outcome::Held)),
            Self::Vouch(reply) => outcome(reply, cx, |()| Outcome::Granted),
        }
    }
}

fn outcome<T>(
    reply: &mut Reply<'_, T>,
    cx: &mut Context<'_>,
    of: impl FnOnce(T) -> Outcome,
) -> Poll<Outcome> {
    reply.as_mut().poll(cx).map(|result| result.map_or_else(Outcome::Failed, of))
}
