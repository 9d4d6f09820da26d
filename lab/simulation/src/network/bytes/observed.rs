//! A node that records its requests and their outcomes in the history.

use std::future::{Future, poll_fn};
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::Duration;

use redlock_core::node::{
    Begun, Exchange, LockNode, NodeError, NodeErrorKind, Profile, Quarantine, Reply, Request, Status,
};
use redlock_core::{Error, Resource};

use crate::history::{self, EventKind, FaultKind, Place, TokenNumber};
use crate::network::Network;
use crate::server::Server;

pub(super) struct Observed<N>(N, Arc<Observer>);

struct Observer {
    network: Network,
    client: usize,
    server: Server,
}

impl<N: LockNode> Observed<N> {
    pub(super) fn new(node: N, network: Network, client: usize, server: Server) -> Self {
        Self(node, Arc::new(Observer { network, client, server }))
    }
}

impl Observer {
    /// Records a request once it was sent, and its outcome.
    async fn exchange(
        self: Arc<Self>,
        request: Request,
        reply: impl Future<Output = Result<Reply, NodeError>> + Send,
    ) -> Result<Reply, NodeError> {
        let mut reply = Box::pin(reply);
        // Nothing arrives at a server during the first poll.
        let first = poll_fn(|cx| Poll::Ready(reply.as_mut().poll(cx))).await;
        let outcome = match first {
            // Without a connection, nothing was sent.
            Poll::Ready(outcome @ Err(_)) => return outcome,
            Poll::Ready(outcome) => (self.sent(&request), outcome),
            Poll::Pending => (self.sent(&request), reply.await),
        };
        let (shown, outcome) = outcome;
        if let Some(reply) = received(&outcome) {
            if request.is_vote() && reply != history::Reply::Uncounted && self.has_jumped_unseen(shown) {
                let place = Place::Between(self.client, self.server.number());
                self.network.recorder().record(EventKind::FaultBegins(place, FaultKind::Unwatched));
            }
            self.network.recorder().record(EventKind::Received { request: shown, reply });
        }
        outcome
    }

    /// Returns whether the clock of the server has jumped before this client began to watch it, so recently that a lock may
    /// be lost, and no client has renewed the stamp since.
    fn has_jumped_unseen(&self, request: history::Request) -> bool {
        let (longest, calls) = {
            let state = self.network.state();
            (state.longest_ttl, Arc::clone(&state.calls_of_claims))
        };
        let at = calls.lock().unwrap_or_else(PoisonError::into_inner).carried_out_at(request);
        longest.zip(at).is_some_and(|(longest, at)| {
            self.server.has_jumped_unseen_by(self.client, at, Quarantine::duration(longest).mul_f64(1.1))
        })
    }

    fn sent(&self, request: &Request) -> history::Request {
        let recorder = self.network.recorder();
        let shown = history::Request {
            client: self.client,
            server: self.server.number(),
            operation: request.operation(),
            call: self.network.next_call(),
            token: request.claim().map_or(TokenNumber::NONE, |claim| recorder.number(claim.token())),
        };
        if request.claim().is_some() {
            let calls = Arc::clone(&self.network.state().calls_of_claims);
            calls.lock().unwrap_or_else(PoisonError::into_inner).begin(shown);
        }
        recorder.record(EventKind::Sent(shown));
        shown
    }
}

/// Returns the reply of the server; `None` if none has arrived.
fn received(outcome: &Result<Reply, NodeError>) -> Option<history::Reply> {
    match outcome {
        Ok(Reply::Quarantined(..)) => Some(history::Reply::Uncounted),
        Err(error) if matches!(error.kind(), NodeErrorKind::Unknown | NodeErrorKind::Unavailable) => None,
        outcome => Some(history::Reply::of(outcome)),
    }
}

impl<N: LockNode> LockNode for Observed<N> {
    fn label(&self) -> &str {
        self.0.label()
    }

    fn profile(&self) -> Profile {
        self.0.profile()
    }

    fn status(&self) -> Status {
        self.0.status()
    }

    fn begin(&self, request: &Request) -> Begun {
        match self.0.begin(request) {
            Begun::Sent(Exchange { connection, server, reply }) => {
                let reply = Box::pin(Arc::clone(&self.1).exchange(request.clone(), reply));
                Begun::Sent(Exchange { connection, server, reply })
            }
            connecting @ Begun::Connecting(_) => connecting,
        }
    }

    fn check(&self, resource: &Resource) -> Result<(), Error> {
        self.0.check(resource)
    }

    fn set_node_timeout(&self, timeout: Duration) {
        self.0.set_node_timeout(timeout);
    }

    fn set_clock_drift_factor(&self, factor: f64) {
        self.0.set_clock_drift_factor(factor);
    }
}
