//! One request to all nodes at once, and the count of their votes.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::decide::tally::{Decision, RoundKind};
use crate::inner::{Inner, Peer};
use crate::protocol::call::Call;
use crate::protocol::fan_out::Calls;
use crate::protocol::responses::Responses;
use crate::types::instant::Instant;
use crate::types::ttl::Ttl;

pub(crate) struct Round<'a> {
    inner: &'a Inner,
    operation: &'static str,
    calls: Calls<'a>,
    pub(crate) responses: Responses,
}

impl<'a> Round<'a> {
    /// Prepares the request to every node, and starts the clock. The requests are sent at the first poll of the round.
    pub(crate) fn new(
        inner: &'a Inner,
        operation: &'static str,
        limit: Duration,
        request: impl Fn(usize, &'a Peer) -> Call<'a>,
    ) -> Self {
        Self::since(inner.now(), inner, operation, limit, request)
    }

    /// Same as [`new`](Round::new), with a clock that started at `start`.
    pub(crate) fn since(
        start: Instant,
        inner: &'a Inner,
        operation: &'static str,
        limit: Duration,
        request: impl Fn(usize, &'a Peer) -> Call<'a>,
    ) -> Self {
        let calls = inner.peers.iter().enumerate().map(|(index, peer)| request(index, peer));
        let calls = Calls::new(&*inner.runtime, start, limit, calls);
        Self { inner, operation, calls, responses: Responses::new(start, inner.peers.len()) }
    }

    /// Returns the next node whose outcome is known; `None` when all are.
    ///
    /// This future may be dropped: no outcome is lost.
    pub(crate) async fn next(&mut self) -> Option<usize> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Returns the calls that have not ended, and the votes so far. The caller keeps the votes from now on.
    pub(crate) fn into_parts(self) -> (Calls<'a>, Responses) {
        (self.calls, self.responses)
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let Some((index, outcome)) = ready!(self.calls.poll_next(cx)) else { return Poll::Ready(None) };
        self.responses.record(index, outcome, self.operation, self.calls.completed_at(), self.inner);
        Poll::Ready(Some(index))
    }

    /// Drops the requests that were not sent yet, and returns their nodes.
    pub(crate) fn drop_unsent(&mut self) -> Vec<usize> {
        self.calls.drop_unsent()
    }

    /// Returns when the last vote was seen.
    pub(crate) fn completed_at(&self) -> Instant {
        self.calls.completed_at()
    }

    pub(crate) fn decision(&self, kind: RoundKind) -> Decision {
        self.responses.tally(self.inner).decide(kind, self.inner.quorum())
    }

    /// Returns the end of the validity of a lease that this round has granted.
    pub(crate) fn deadline(&self, ttl: Ttl) -> Instant {
        self.inner.settings.drift.deadline(self.responses.start, ttl)
    }
}
