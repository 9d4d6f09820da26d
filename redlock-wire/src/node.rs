//! A Redis or Valkey server as a [`LockNode`].
//!
//! A request uses the current connection and is never repeated here: core decides what a missing reply means. While the
//! first connection attempt is in progress, a request waits for it; core limits that wait by dropping the request. If
//! the node is known to be down, a request fails at once.

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use redlock_core::node::{
    Admission, Begun, Exchange, LockNode, NodeError, Profile, Request, ServerId, Status,
};
use redlock_core::runtime::Instant;
use redlock_core::{Error, Resource};

use crate::admission::is_stamp;
use crate::conn_state::{Link, State};
use crate::connection::Connector;
use crate::exchange::exchange;
use crate::fence;
use crate::gate::STAMP;
use crate::inner::Inner;
use crate::options::{Keys, Options};
use crate::places;

/// One independent Redis or Valkey server, over any client.
///
/// It connects on first use, and again whenever the connection is lost, in a separate task. A server that comes back is
/// used again within a second, even without traffic. The task runs on the runtime of the request that started it. When
/// that runtime has ended, the next request starts another task.
///
/// Dropping the node ends the task and closes the connection, once no request is in flight any more.
pub struct Node<C: Connector>(Arc<Inner<C>>);

const NO_RUNTIME: &str = "no runtime available to run the connection";

impl<C: Connector> Node<C> {
    /// Creates a node that connects on first use. It does no I/O and needs no current runtime.
    #[must_use]
    pub fn new(connector: C, options: &Options) -> Self {
        Self(Arc::new(Inner::new(connector, options)))
    }

    /// Begins a request over a connection.
    fn over(&self, link: Arc<Link<C::Connection>>, server: Option<ServerId>, request: &Request) -> Exchange {
        if matches!(request, Request::Watch(_) | Request::WatchShared(_)) && link.server.pushes.is_err() {
            return failed(NodeError::unsupported(request), server);
        }
        let before = if request.is_vote() { self.0.admission(Some(&link)) } else { Admission::Unchecked };
        let connection = link.id();
        let reply = exchange(Arc::clone(&self.0), link, before, request.clone());
        Exchange { connection, server, reply: Box::pin(reply) }
    }

    fn is_past(&self, due: Instant) -> bool {
        self.0.options.runtime.now() > due
    }
}

/// Returns a request that has failed before anything was sent.
fn failed(error: NodeError, server: Option<ServerId>) -> Exchange {
    Exchange { connection: None, server, reply: Box::pin(ready(Err(error))) }
}

/// Waits until a connection attempt that is in progress has ended.
async fn attempt<C: Connector>(node: Arc<Inner<C>>) {
    loop {
        // Listens before looking, so that no change is missed.
        let changed = node.conn.listen();
        if !matches!(node.conn.state(), State::Connecting { .. }) {
            return;
        }
        changed.await;
    }
}

impl<C: Connector> LockNode for Node<C> {
    fn label(&self) -> &str {
        self.0.connector.label()
    }

    /// States that watches are supported if the client can receive pushes. A connection may still not receive any. Native
    /// commands release without a look at the places of waiters.
    fn profile(&self) -> Profile {
        let Options { keys, longest, .. } = &self.0.options;
        let mut profile = Profile::default().with_inspect().with_fencing().with_keep().with_shared();
        profile.places = !self.0.options.native_commands;
        profile = profile.with_fence_retention(keys.fence_retention);
        if C::RECEIVES_PUSHES {
            profile = profile.with_watch();
        }
        match longest {
            Some(longest) => profile.with_longest_ttl(longest.stated()),
            None => profile,
        }
    }

    fn status(&self) -> Status {
        let state = self.0.conn.state();
        let mut status = Status::default().with_clock_rate(self.0.clock_rate.rate());
        let link = state.link();
        if let Some(connection) = link.and_then(|link| link.id()) {
            status = status.over(connection);
        }
        match self.0.admission(link.map(|link| &**link)) {
            Admission::Quarantined(quarantine) => status.in_quarantine(quarantine),
            _ => status,
        }
    }

    fn begin(&self, request: &Request) -> Begun {
        if matches!(request, Request::Vouch) && self.0.keeper.is_none() {
            return Begun::failed(NodeError::unsupported("vouch without longest_ttl"));
        }
        // True once this call, not another request, has started a supervisor. It then waits for it in any case, or
        // fails: without a runtime, it would start one forever.
        let mut started = false;
        loop {
            let (state, server) = self.0.conn.state_and_server();
            let exchange = match state {
                State::Up(link) => self.over(link, server, request),
                State::Connecting { due } if started || !self.is_past(due) => {
                    return Begun::connecting(attempt(Arc::clone(&self.0)));
                }
                State::Down { reason, due } if started || !self.is_past(due) => {
                    failed(NodeError::unavailable(reason), server)
                }
                State::Idle if started => failed(NodeError::unavailable(NO_RUNTIME), server),
                State::Idle | State::Connecting { .. } | State::Down { .. } => {
                    started |= self.0.start();
                    continue;
                }
            };
            return Begun::Sent(exchange);
        }
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
        if places::is_of_places(resource.as_bytes()) {
            return Err(Error::invalid(format!(
                "invalid resource name {resource:?}: names that end in \"#waiting\" are reserved for the order of waiters"
            )));
        }
        Ok(())
    }

    fn set_node_timeout(&self, timeout: Duration) {
        self.0.options.connect_timeout.raise(timeout);
    }

    fn set_clock_drift_factor(&self, factor: f64) {
        self.0.clock_rate.set_drift_factor(factor);
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
