//! One request to one node, as a future of its outcome.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::inner::{Peer, ReplyCount};
use crate::node::{Begun, Connecting, Exchange, NodeError, Reply, Request};
use crate::protocol::outcome::outcome as outcome_of;
use crate::sync::locked;
use crate::types::BoxFuture;
use crate::types::report::Outcome;

/// A request to one node. It completes with the reply or the error of the node.
pub(crate) struct Call<'a> {
    /// The replies of the node to all requests of this client.
    replies: &'a ReplyCount,
    /// Their number when [`other_replies`](Self::other_replies) was called last.
    seen: u32,
    peer: Option<&'a Peer>,
    request: Request,
    state: State,
}

enum State {
    New,
    Connecting(Connecting),
    Sent(BoxFuture<Result<Reply, NodeError>>),
}

impl<'a> Call<'a> {
    /// Prepares a request, which is sent at the first poll.
    pub(crate) fn new(peer: &'a Peer, request: Request) -> Self {
        Self::counted_by(&peer.replies, peer, request)
    }

    /// Same as [`new`](Self::new), with a separate count of replies.
    pub(crate) fn counted_by(replies: &'a ReplyCount, peer: &'a Peer, request: Request) -> Self {
        Self { replies, seen: replies.get(), peer: Some(peer), request, state: State::New }
    }

    /// Returns whether the request may have been sent.
    pub(crate) fn is_begun(&self) -> bool {
        matches!(self.state, State::Sent(_))
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

    fn begin(&self) -> State {
        let peer = self.peer.expect("a call without a peer has begun");
        match peer.node.begin(&self.request) {
            Begun::Sent(Exchange { reply, server, .. }) => {
                *locked(&peer.server) = server;
                State::Sent(reply)
            }
            Begun::Connecting(attempt) => State::Connecting(attempt),
        }
    }
}

impl Future for Call<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = &mut *self;
        let reply = loop {
            match &mut this.state {
                State::New => this.state = this.begin(),
                State::Connecting(attempt) => {
                    ready!(Pin::new(attempt).poll(cx));
                    this.state = this.begin();
                }
                State::Sent(reply) => break ready!(reply.as_mut().poll(cx)),
            }
        };
        let outcome = outcome_of(reply, &this.request);
        if let Some(peer) = this.peer {
            peer.note(&this.request, &outcome);
        }
        if !matches!(outcome, Outcome::Failed(_)) {
            this.replies.add();
        }
        Poll::Ready(outcome)
    }
}

#[cfg(test)]
impl<'a> Call<'a> {
    /// Creates the call of a release with this reply.
    pub(crate) fn release_with(
        replies: &'a ReplyCount,
        reply: impl Future<Output = Result<Reply, NodeError>> + Send + 'static,
    ) -> Self {
        use crate::node::{Claim, Token};
        use crate::types::resource::IntoResources;

        let resources = "a".into_resources().expect("the name is valid");
        let request = Request::Release(Claim::new(resources, Token::from_bytes("t")));
        Self { replies, seen: replies.get(), peer: None, request, state: State::Sent(Box::pin(reply)) }
    }
}
