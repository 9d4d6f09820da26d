//! One request to one node, as a future of its outcome.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::node::{ConfirmVote, FencedVote, LockEntry, NodeError, Vote};
use crate::types::report::Outcome;

/// The future that a method of [`LockNode`](crate::node::LockNode) returns.
type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, NodeError>> + Send + 'a>>;

/// A request to one node. It completes with the reply or the error of the node.
///
/// There is one variant for each type of reply. Every reply of a node becomes an outcome here.
pub(crate) enum Call<'a> {
    /// `acquire` or `extend`.
    Plain(Reply<'a, Vote>),
    /// `acquire_fenced`.
    Fenced(Reply<'a, FencedVote>),
    /// `confirm` or `refill_fenced`.
    Confirm(Reply<'a, ConfirmVote>),
    Release(Reply<'a, bool>),
    Inspect(Reply<'a, Option<LockEntry>>),
}

impl Future for Call<'_> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        match self.get_mut() {
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
