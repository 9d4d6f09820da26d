//! A single Redis or Valkey server.
//!
//! A request uses the current connection and is never repeated here: core decides what a missing reply means. While the
//! first connection attempt is in progress, a request waits for it; core limits that wait by dropping the request. If
//! the node is known to be down, a request fails at once.

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
use crate::inner::Inner;
use crate::options::{Keys, Options};
use crate::places;
use crate::stamp::STAMP;

/// One server. Clones share its connection.
pub(crate) struct ServerNode<C: Connector>(Arc<Inner<C>>);

impl<C: Connector> Clone for ServerNode<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

pub(crate) const NO_RUNTIME: &str = "no runtime available to run the connection";

impl<C: Connector> ServerNode<C> {
    pub(crate) fn new(connector: C, options: &Options) -> Self {
        Self(Arc::new(Inner::new(connector, options)))
    }

    /// Returns whether there is a connection.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.0.conn.state(), State::Up(_))
    }

    /// Begins to connect, as the first request does.
    pub(crate) fn connect(&self) {
        self.0.start();
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

/// Returns what a node with these options supports.
///
/// It states that watches are supported if the client can receive pushes. A connection may still not receive any. Native
/// commands release without a look at the places of waiters.
pub(crate) fn profile<C: Connector>(options: &Options) -> Profile {
    let Options { keys, longest, .. } = options;
    let mut profile = Profile::default().with_inspect().with_fencing().with_keep().with_shared();
    profile.places = !options.native_commands;
    profile = profile.with_fence_retention(keys.fence_retention);
    if C::RECEIVES_PUSHES {
        profile = profile.with_watch();
    }
    match longest {
        Some(longest) => profile.with_longest_ttl(longest.stated()),
        None => profile,
    }
}

/// Checks that no service key has the key of this resource.
pub(crate) fn check(options: &Options, resource: &Resource) -> Result<(), Error> {
    let Keys { prefix, fence_prefix, .. } = &*options.keys;
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

impl<C: Connector> LockNode for ServerNode<C> {
    fn label(&self) -> &str {
        self.0.connector.label()
    }

    fn profile(&self) -> Profile {
        profile::<C>(&self.0.options)
    }

    fn status(&self) -> Status {
        let state = self.0.conn.state();
        let longer_ttl = self.0.keeper.as_ref().and_then(|keeper| keeper.longer_ttl());
        let mut status =
            Status::default().with_clock_rate(self.0.clock_rate.rate()).with_longer_ttl(longer_ttl);
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
        check(&self.0.options, resource)
    }

    fn set_node_timeout(&self, timeout: Duration) {
        self.0.options.connect_timeout.raise(timeout);
    }

    fn set_clock_drift_factor(&self, factor: f64) {
        self.0.clock_rate.set_drift_factor(factor);
    }
}
