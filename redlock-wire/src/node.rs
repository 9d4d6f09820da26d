//! A Redis or Valkey server as a [`LockNode`].
//!
//! A request uses the current connection and is never repeated here: core decides what a missing reply means. While the
//! first connection attempt is in progress, a request waits for it; core limits that wait by dropping the request. If
//! the node is known to be down, a request fails at once.
//!
//! Requests that are dropped without a reply make the connection doubtful. Its supervisor then [probes](crate::probe)
//! the server, and gives the connection up if the server does not reply. A hung server then has fewer late requests to
//! carry out, and requests to it fail at once instead of after their timeout. Meanwhile only a limited number of
//! requests is sent.

use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;

use redlock_core::node::{
    Admission, Capabilities, ConnectionId, LockNode, NodeError, NodeErrorKind, Reply, Request, ServerId,
    async_trait,
};
use redlock_core::runtime::Instant;
use redlock_core::{Error, Resource};

use crate::admission::keeper::Keeper;
use crate::admission::rule::Finding;
use crate::admission::{STAMP, is_stamp};
use crate::commands;
use crate::conn_state::{ConnState, Link, State};
use crate::connection::Connector;
use crate::fence;
use crate::journal::Journal;
use crate::options::{Keys, Options};
use crate::probe::{FAILURE_THRESHOLD, MIN_SILENCE, UNRESPONSIVE};
use crate::reply;
use crate::request::ClaimRequest;
use crate::supervisor::{due, supervise};

/// The time after which a doubted connection counts as unsupervised.
///
/// It is added to the length of a silence. A request then gives the connection up itself.
const UNATTENDED: Duration = Duration::from_secs(1);

/// The maximum number of requests sent over a doubted connection.
///
/// It applies from [`FAILURE_THRESHOLD`] unanswered requests on. Further ones fail at once.
const MAX_IN_DOUBT: u32 = 1024;

/// The shortest wait after which a dropped request is evidence against the server. No node timeout is shorter.
///
/// The first unanswered request counts in any case. Its waiting time is unknown, because a request to a responsive
/// server does not read the clock. A reading would cost about a twentieth of a lock.
const MIN_WAIT: Duration = Duration::from_millis(1);

/// One independent Redis or Valkey server, over any client.
///
/// It connects on first use, and again whenever the connection is lost, in a separate task. A server that comes back is
/// used again within a second, even without traffic. The task runs on the runtime of the request that started it. When
/// that runtime has ended, the next request starts another task.
///
/// Dropping the node ends the task and closes the connection.
pub struct Node<C: Connector>(Arc<Inner<C>>);

/// The state shared with the supervisor, which holds a `Weak` reference to it.
pub(crate) struct Inner<C: Connector> {
    pub(crate) connector: Arc<C>,
    pub(crate) options: Options,
    pub(crate) conn: ConnState<C::Connection>,
    /// Ensures that missing support for notifications is logged once.
    pub(crate) no_pushes: Once,
    pub(crate) journal: Journal,
    /// The restart admission, if there is any.
    pub(crate) keeper: Option<Arc<Keeper>>,
}

impl<C: Connector> Node<C> {
    /// Creates a node that connects on first use. It does no I/O and needs no current runtime.
    #[must_use]
    pub fn new(connector: C, options: &Options) -> Self {
        let (connector, options) = (Arc::new(connector), options.of_a_node());
        let keeper = options.longest.clone().map(|longest| Arc::new(Keeper::new(connector.label(), longest)));
        let conn = ConnState::new(connector.label());
        Self(Arc::new(Inner {
            connector,
            options,
            conn,
            no_pushes: Once::new(),
            journal: Journal::default(),
            keeper,
        }))
    }

    /// Returns the current connection. Waits for the first connection attempt.
    async fn link(&self) -> Result<Arc<Link<C::Connection>>, NodeError> {
        let conn = &self.0.conn;
        // True once this request, not another one, has started a supervisor.
        let mut started = false;
        loop {
            let is_supervised = match conn.state() {
                State::Up(link) => return Ok(link),
                State::Down { due, .. } | State::Connecting { due } if !started && self.is_past(due) => false,
                State::Down { reason, .. } => return Err(NodeError::unavailable(reason)),
                State::Idle if started => return Err(NodeError::unavailable(NO_RUNTIME)),
                State::Idle => false,
                State::Connecting { .. } => true,
            };
            if !is_supervised {
                started |= self.0.start();
                continue;
            }
            // Listens before looking, so that no change is missed.
            let changed = conn.listen();
            if matches!(conn.state(), State::Connecting { .. }) {
                changed.await;
            }
        }
    }

    fn is_past(&self, due: Instant) -> bool {
        self.0.options.runtime.now() > due
    }

    /// Sends a request about a claim.
    ///
    /// Such a future is created for every node of a round, so its size matters. The rarely needed follow-up is boxed.
    async fn send(&self, request: &ClaimRequest<'_>) -> Result<Reply, NodeError> {
        let link = self.link().await?;
        let flight = self.begin(&link)?;
        let dialect = link.dialect();
        let mut exchange = request.first(dialect);
        let mut reply = link.request(request.pack::<C::Connection>(exchange), request.is_vote()).await;
        while let Some(next) = ClaimRequest::next(exchange, &reply, dialect) {
            link.learn(exchange, &reply);
            exchange = next;
            reply = Box::pin(link.request(request.pack::<C::Connection>(exchange), request.is_vote())).await;
        }
        let reply = request.without_secrets(reply);
        flight.finish(reply.and_then(|reply| request.read(reply, exchange)))
    }

    async fn inspect(&self, resource: &Resource) -> Result<Reply, NodeError> {
        let (link, options) = (self.link().await?, &self.0.options);
        let flight = self.begin(&link)?;
        flight.finish(commands::inspect(&link, options, resource).await)
    }

    async fn watch(&self, resource: &Resource, for_reader: bool) -> Result<Reply, NodeError> {
        let (link, options) = (self.link().await?, &self.0.options);
        if link.server.pushes.is_err() {
            return Err(NodeError::unsupported("watch"));
        }
        let flight = self.begin(&link)?;
        let (connection, hub) = (&link.connection, &link.hub);
        flight.finish(if for_reader {
            commands::watch_shared(connection, hub, options, resource).await
        } else {
            commands::watch(connection, hub, options, resource).await
        })
    }

    async fn vouch(&self) -> Result<Reply, NodeError> {
        let Some(keeper) = &self.0.keeper else {
            return Err(NodeError::unsupported("vouch without longest_ttl"));
        };
        let link = self.link().await?;
        let flight = self.begin(&link)?;
        let found = keeper.vouch(&link, &*self.0.options.runtime).await;
        let found = flight.finish(found.map_err(|failure| reply::unanswered(&failure)))?;
        match found {
            Finding::Stamp(_) => Ok(Reply::Granted),
            Finding::Replica => Err(NodeError::rejected("the server is a replica")),
            Finding::LaterVersion => Err(NodeError::rejected("a later version has checked the server")),
            Finding::Failed(error) => Err(NodeError::rejected(error)),
            Finding::Uptime { .. } | Finding::Nothing => {
                Err(NodeError::rejected("no permission for the key redlock:admission, EVAL or INFO"))
            }
        }
    }

    /// Starts a request over `link`. The caller awaits its future in place and does not pass it in: a future that is an
    /// argument of another takes its space twice, and client futures are large.
    fn begin<'a>(&'a self, link: &'a Link<C::Connection>) -> Result<InFlight<'a, C>, NodeError> {
        let unanswered = link.unanswered();
        if unanswered >= FAILURE_THRESHOLD && link.sent_in_doubt() >= MAX_IN_DOUBT {
            return Err(NodeError::unavailable(format!(
                "server not responding: {MAX_IN_DOUBT} requests without a reply"
            )));
        }
        let since = (unanswered > 0).then(|| self.0.options.runtime.now());
        Ok(InFlight { node: &self.0, link, since, over: false })
    }
}

/// Returns the error of a request whose connection ended together with its runtime.
fn orphaned(error: &NodeError) -> NodeError {
    match error.kind() {
        NodeErrorKind::Unknown => NodeError::unknown(RUNTIME_ENDED),
        NodeErrorKind::Unavailable => NodeError::unavailable(RUNTIME_ENDED),
        _ => error.clone(),
    }
}

const RUNTIME_ENDED: &str = "the runtime that opened the connection has shut down";

const NO_RUNTIME: &str = "no runtime available to run the connection";

impl<C: Connector> Inner<C> {
    /// Starts a supervisor if none is running. Returns whether it has started one.
    fn start(self: &Arc<Self>) -> bool {
        let (now, later) = (self.options.runtime.now(), due(&self.options, Duration::ZERO));
        let epoch = self.conn.take_over(|state| match state {
            State::Idle => Some(State::Connecting { due: later }),
            State::Connecting { due } if now > *due => Some(State::Connecting { due: later }),
            State::Down { reason, due } if now > *due => {
                Some(State::Down { reason: reason.clone(), due: later })
            }
            _ => None,
        });
        if let Some(epoch) = epoch {
            supervise(self, epoch);
        }
        epoch.is_some()
    }

    /// Gives up a connection that is unresponsive and unsupervised. A new supervisor takes over.
    fn break_off(self: &Arc<Self>, generation: u64) {
        let reason = UNRESPONSIVE.to_owned();
        let due = due(&self.options, Duration::ZERO);
        let epoch = self.conn.take_over(|state| {
            if state.is_up(generation) { Some(State::Down { reason, due }) } else { None }
        });
        if let Some(epoch) = epoch {
            self.journal.down(self.connector.label(), UNRESPONSIVE, self.options.runtime.now());
            supervise(self, epoch);
        }
    }
}

/// Wakes the supervisor, which then finds that the node is gone.
impl<C: Connector> Drop for Inner<C> {
    fn drop(&mut self) {
        self.conn.notify();
    }
}

/// A request in flight. If it is dropped before it completes, it counts against the connection.
///
/// Dropping it does not poll it once more for a reply: a poll may send a request that is still unsent.
struct InFlight<'a, C: Connector> {
    node: &'a Arc<Inner<C>>,
    link: &'a Link<C::Connection>,
    /// The start time, if the connection was already doubted.
    since: Option<Instant>,
    over: bool,
}

impl<C: Connector> InFlight<'_, C> {
    /// Records the outcome for the connection.
    fn finish<T>(mut self, outcome: Result<T, NodeError>) -> Result<T, NodeError> {
        self.over = true;
        let outcome = outcome.map_err(|error| if self.link.is_orphaned() { orphaned(&error) } else { error });
        match &outcome {
            Err(error) if matches!(error.kind(), NodeErrorKind::Unavailable | NodeErrorKind::Unknown) => {
                // The connection is not reused after a client failure: its further behavior is unknown.
                let due = due(&self.node.options, Duration::ZERO);
                self.node.conn.broken(self.link.generation, &error.to_string(), due);
            }
            _ => self.link.answered(),
        }
        outcome
    }
}

impl<C: Connector> Drop for InFlight<'_, C> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let now = self.node.options.runtime.now();
        let Some(since) = self.since else { return self.link.doubt(now) };
        if now.saturating_duration_since(since) < MIN_WAIT {
            return;
        }
        let (unanswered, silent) = self.link.request_dropped(now);
        let silence = self.node.options.connect_timeout.node_timeout().max(MIN_SILENCE);
        if unanswered >= FAILURE_THRESHOLD && silent >= silence + UNATTENDED {
            self.node.break_off(self.link.generation);
        }
    }
}

#[async_trait]
impl<C: Connector> LockNode for Node<C> {
    fn label(&self) -> &str {
        self.0.connector.label()
    }

    async fn call(&self, request: Request) -> Result<Reply, NodeError> {
        if let Some(request) = ClaimRequest::new(&request, &self.0.options) {
            return self.send(&request).await;
        }
        // Boxed, because these requests are rare, and the space of their futures would be part of every other one.
        match &request {
            Request::Inspect(resource) => Box::pin(self.inspect(resource)).await,
            Request::Watch(resource) => Box::pin(self.watch(resource, false)).await,
            Request::WatchShared(resource) => Box::pin(self.watch(resource, true)).await,
            Request::Vouch => Box::pin(self.vouch()).await,
            other => Err(NodeError::unsupported(other)),
        }
    }

    fn longest_ttl(&self) -> Option<Duration> {
        self.0.options.longest.as_ref().map(|longest| longest.stated())
    }

    fn admission(&self) -> Admission {
        match &self.0.keeper {
            Some(keeper) => self.0.conn.admission(|| keeper.wait(), || self.0.options.runtime.now()),
            None => Admission::Unchecked,
        }
    }

    async fn connected(&self) {
        // A request reports the reason, if there is no connection.
        drop(self.link().await);
    }

    fn connection(&self) -> Option<ConnectionId> {
        self.0.conn.connection()
    }

    fn server(&self) -> Option<ServerId> {
        self.0.conn.server()
    }

    fn check(&self, resource: &Resource) -> Result<(), Error> {
        let Keys { prefix, fence_prefix, .. } = &*self.0.options.keys;
        if is_stamp(prefix, resource.as_bytes()) {
            let (prefix, stamp) = (prefix.escape_ascii(), STAMP.escape_ascii());
            return Err(Error::invalid(format!(
                "invalid resource name {resource:?}: its key \"{prefix}{resource}\" is reserved for the restart check \
                 (\"{stamp}\")"
            )));
        }
        if fence::is_counter(fence_prefix, prefix, resource.as_bytes()) {
            let (prefix, counters) = (prefix.escape_ascii(), fence_prefix.escape_ascii());
            return Err(Error::invalid(format!(
                "invalid resource name {resource:?}: its key \"{prefix}{resource}\" is reserved for fencing counters \
                 (\"{counters}{{...}}\")"
            )));
        }
        Ok(())
    }

    fn set_node_timeout(&self, timeout: Duration) {
        self.0.options.connect_timeout.raise(timeout);
    }

    /// Reports the current connection's support of watches; assumes it before the first.
    fn capabilities(&self) -> Capabilities {
        let can = Capabilities::default().with_inspect().with_fencing().with_keep().with_shared();
        let can = can.with_fence_retention(self.0.options.keys.fence_retention);
        let denied = || matches!(self.0.conn.state(), State::Up(link) if link.server.pushes.is_err());
        if !C::RECEIVES_PUSHES || denied() { can } else { can.with_watch() }
    }
}

impl<C: Connector> fmt::Debug for Node<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connected = matches!(self.0.conn.state(), State::Up(_));
        f.debug_struct("Node")
            .field("label", &self.0.connector.label())
            .field("connected", &connected)
            .finish()
    }
}
