//! A request that has begun.

use std::fmt;
use std::future::{Future, ready};

use super::Reply;
use crate::types::BoxFuture;
use crate::types::identity::{ConnectionId, ServerId};
use crate::types::node_error::NodeError;

/// A request that has begun, or cannot begin yet.
#[derive(Debug)]
pub enum Begun {
    /// From the first poll of its reply on, the request may be carried out.
    Sent(Exchange),
    /// A connection attempt is in progress. Nothing was sent, and nothing will be.
    ///
    /// Begin the request again when the attempt has ended, however it ended.
    Connecting(Connecting),
}

/// A connection attempt that a request waits for. It completes when the attempt has ended.
///
/// If it is dropped, the attempt continues.
pub struct Connecting(BoxFuture<()>);

/// One request over one connection.
pub struct Exchange {
    /// The ordered connection over which the request is sent, if there is one.
    ///
    /// The server carries out the requests of one connection in the order of their first polls. An identifier is never
    /// reused. Once a request begins over another connection, nothing more is sent over this one. This includes
    /// requests whose replies are still polled, and requests that the client has queued. A write that arrives after its
    /// cleanup leaves a key until its TTL expires.
    ///
    /// The core uses it to recognize that a release followed a write whose reply was lost. Without it, the core sends a
    /// second release.
    pub connection: Option<ConnectionId>,
    /// The server at the other end, if the backend knows it. Nodes with the same identity have one vote.
    pub server: Option<ServerId>,
    /// The reply.
    ///
    /// Nothing is sent before its first poll. If it is dropped, the request is carried out completely or not at all, and
    /// never sent later.
    pub reply: BoxFuture<Result<Reply, NodeError>>,
}

impl Begun {
    /// Creates a request without an ordered connection.
    ///
    /// ```
    /// # use redlock_core::node::{Begun, Reply};
    /// let Begun::Sent(exchange) = Begun::sent(async { Ok(Reply::Granted) }) else { panic!() };
    /// assert_eq!(None, exchange.connection);
    /// ```
    pub fn sent(reply: impl Future<Output = Result<Reply, NodeError>> + Send + 'static) -> Self {
        Self::Sent(Exchange { connection: None, server: None, reply: Box::pin(reply) })
    }

    /// Creates a request that failed at once.
    ///
    /// ```
    /// # use redlock_core::node::{Begun, NodeError};
    /// let begun = Begun::failed(NodeError::unavailable("connection refused"));
    /// assert!(matches!(begun, Begun::Sent(_)));
    /// ```
    pub fn failed(error: NodeError) -> Self {
        Self::sent(ready(Err(error)))
    }

    /// Creates a request that waits for a connection attempt.
    ///
    /// ```
    /// # use redlock_core::node::Begun;
    /// let begun = Begun::connecting(async { /* until the attempt has ended */ });
    /// assert!(matches!(begun, Begun::Connecting(_)));
    /// ```
    pub fn connecting(attempt: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::Connecting(Connecting(Box::pin(attempt)))
    }

    /// Changes the reply, for a node that wraps another one.
    ///
    /// ```
    /// # use redlock_core::node::{Begun, NodeError, Reply};
    /// // The reply is lost.
    /// let begun = Begun::sent(async { Ok(Reply::Granted) });
    /// let lost = begun.map(|reply| reply.and(Err(NodeError::unknown("connection lost"))));
    /// ```
    #[must_use]
    pub fn map(
        self,
        change: impl FnOnce(Result<Reply, NodeError>) -> Result<Reply, NodeError> + Send + 'static,
    ) -> Self {
        match self {
            Self::Sent(exchange) => {
                let reply = exchange.reply;
                Self::Sent(Exchange { reply: Box::pin(async { change(reply.await) }), ..exchange })
            }
            Self::Connecting(connecting) => Self::Connecting(connecting),
        }
    }
}

impl Future for Connecting {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connecting").finish_non_exhaustive()
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connection, server, reply: _ } = self;
        f.debug_struct("Exchange")
            .field("connection", connection)
            .field("server", server)
            .finish_non_exhaustive()
    }
}
