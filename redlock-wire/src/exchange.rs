//! One request over one connection.
//!
//! The connection is chosen when the request begins, and the request owns it from then on. It never moves to another
//! connection: its cleanup relies on the order of this one.
//!
//! Requests that are dropped without a reply make the connection doubtful. Its supervisor then [probes](crate::probe)
//! the server, and gives the connection up if the server does not reply. A hung server then has fewer late requests to
//! carry out, and requests to it fail at once instead of after their timeout. Meanwhile only a limited number of
//! requests is sent.

use std::sync::Arc;
use std::time::Duration;

use redlock_core::Resource;
use redlock_core::node::{Admission, NodeError, NodeErrorKind, Operation, Reply, Request};
use redlock_core::runtime::Instant;

use crate::admission::keeper::Checks;
use crate::conn_state::Link;
use crate::connection::{Connection, Connector};
use crate::gate::rule::Finding;
use crate::inner::Inner;
use crate::message::RUNTIME_ENDED;
use crate::probe::{FAILURE_THRESHOLD, LOST, MIN_SILENCE, REPLICA};
use crate::request::ClaimRequest;
use crate::script::is_unknown_script;
use crate::supervisor::due;
use crate::{commands, reply};

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

/// Sends a request over a connection, and reads its reply.
///
/// `before` is the admission when the request began. Such a future is allocated for every node of a round, so its size
/// matters.
pub(crate) async fn exchange<C: Connector>(
    node: Arc<Inner<C>>,
    link: Arc<Link<C::Connection>>,
    before: Admission,
    request: Request,
) -> Result<Reply, NodeError> {
    if let Some(error) = without_scripts(&link, &request) {
        return Err(error);
    }
    let mut flight = InFlight::begin(node, link)?;
    let is_vote = request.is_vote();
    let outcome = match ClaimRequest::new(&request, &flight.node.options) {
        Some(claim) => flight.carry_out(&claim, is_vote).await,
        // Boxed, because these requests are rare, and the space of their futures would be part of every other one.
        None => Box::pin(flight.carry_out_rare(&request)).await,
    };
    let reply = flight.finish(outcome)?;
    // The only place where a vote is taken away.
    Ok(if is_vote { before.judge(reply, flight.admission()) } else { reply })
}

/// Returns the error of a claim on several resources that a server without scripts cannot carry out.
///
/// Nothing is sent. The server rejects each release of such a claim, too, so the cleanup after a lost reply would never end.
fn without_scripts<K: Connection>(link: &Link<K>, request: &Request) -> Option<NodeError> {
    let reason = link.server.scripts.as_ref().err()?;
    let is_acquire = request.operation() == Operation::Acquire;
    let is_of_several = request.claim().is_some_and(|claim| claim.resources().len() > 1);
    (is_acquire && is_of_several).then(|| NodeError::rejected(reason.clone()))
}

/// A request in flight. If it is dropped before it completes, it counts against the connection.
///
/// Dropping it does not poll it once more for a reply: a poll may send a request that is still unsent.
struct InFlight<C: Connector> {
    node: Arc<Inner<C>>,
    link: Arc<Link<C::Connection>>,
    /// The start time, if the connection was already doubted.
    since: Option<Instant>,
    over: bool,
}

impl<C: Connector> InFlight<C> {
    /// Begins to send a request.
    fn begin(node: Arc<Inner<C>>, link: Arc<Link<C::Connection>>) -> Result<Self, NodeError> {
        // The connection was replaced since the request began. If the node closes the socket, as for the pipeline of
        // redlock-redis-rs and the relay of redlock-fred, nothing can be sent over it. Other clients, and connections of
        // the application, rely on this check. The latter keep no order, so no cleanup relies on them.
        if link.is_replaced() {
            let reason = if link.is_orphaned() { Some(RUNTIME_ENDED.to_owned()) } else { node.conn.reason() };
            return Err(NodeError::unavailable(reason.unwrap_or_else(|| LOST.to_owned())));
        }
        let unanswered = link.unanswered();
        if unanswered >= FAILURE_THRESHOLD && link.sent_in_doubt() >= MAX_IN_DOUBT {
            return Err(NodeError::unavailable(format!(
                "server not responding: {MAX_IN_DOUBT} requests without a reply"
            )));
        }
        let since = (unanswered > 0).then(|| node.options.runtime.now());
        Ok(Self { node, link, since, over: false })
    }

    /// Carries out a request about a claim. The rarely needed follow-up is boxed.
    async fn carry_out(&self, request: &ClaimRequest<'_>, is_vote: bool) -> Result<Reply, NodeError> {
        let (link, dialect) = (&self.link, self.link.dialect());
        let mut step = request.first(dialect);
        let runtime = &self.node.options.runtime;
        let mut reply = link.request(request.pack::<C::Connection>(step), is_vote, runtime).await;
        while let Some(next) = ClaimRequest::next(step, &reply, dialect) {
            link.learn(step, &reply);
            step = next;
            reply = Box::pin(link.request(request.pack::<C::Connection>(step), is_vote, runtime)).await;
        }
        request.read(request.without_secrets(reply)?, step)
    }

    /// Carries out a request that is not about a claim.
    async fn carry_out_rare(&self, request: &Request) -> Result<Reply, NodeError> {
        let (link, options) = (&*self.link, &self.node.options);
        match (request, &link.checks) {
            (Request::Inspect(resource), _) => self.inspect(resource).await,
            (Request::Watch(resource), _) => {
                commands::watch(&link.connection, &link.hub, options, resource).await
            }
            (Request::WatchShared(resource), _) => {
                commands::watch_shared(&link.connection, &link.hub, options, resource).await
            }
            (Request::Vouch, Some(checks)) => self.vouch(checks).await,
            (other, _) => Err(NodeError::unsupported(other)),
        }
    }

    /// Reads the holder of a resource and the remaining time.
    async fn inspect(&self, resource: &Resource) -> Result<Reply, NodeError> {
        let (script, args) = (&commands::INSPECT, commands::inspection(&self.node.options, resource));
        let runtime = &self.node.options.runtime;
        let call = |name, script| self.link.request(args.call::<C::Connection>(name, script), true, runtime);
        let mut reply = call("EVALSHA", &script.sha).await;
        if is_unknown_script(&reply) {
            reply = call("EVAL", script.text).await;
        }
        reply::holding(reply.map_err(|failure| reply::unanswered(&failure))?, resource)
    }

    async fn vouch(&self, checks: &Checks) -> Result<Reply, NodeError> {
        let over = self.link.checked(checks);
        let found = checks.keeper.vouch(&over, &*self.node.options.runtime).await;
        match found.map_err(|failure| reply::unanswered(&failure))? {
            Finding::Stamp(_) => Ok(Reply::Granted),
            Finding::Replica => Err(NodeError::rejected(REPLICA)),
            Finding::LaterVersion => Err(NodeError::rejected("a later version has checked the server")),
            Finding::Failed(error) => Err(NodeError::rejected(error)),
            Finding::Uptime { .. } | Finding::Nothing => {
                Err(NodeError::rejected("no permission for the key redlock:admission, EVAL or INFO"))
            }
        }
    }

    /// Records the outcome for the connection.
    fn finish(&mut self, outcome: Result<Reply, NodeError>) -> Result<Reply, NodeError> {
        self.over = true;
        let outcome = outcome.map_err(|error| if self.link.is_orphaned() { orphaned(&error) } else { error });
        match &outcome {
            Err(error) if matches!(error.kind(), NodeErrorKind::Unavailable | NodeErrorKind::Unknown) => {
                // The connection is not reused after a client failure: its further behavior is unknown.
                let due = due(&self.node.options, Duration::ZERO);
                self.node.conn.broken(self.link.generation, &error.to_string(), due);
            }
            Err(error) if is_read_only(error) => {
                // A connection by a name that leads to another server now reaches it with the next attempt.
                let due = due(&self.node.options, Duration::ZERO);
                self.node.conn.broken(self.link.generation, REPLICA, due);
            }
            _ => self.link.answered(),
        }
        outcome
    }

    /// Returns the present admission of the node.
    ///
    /// A connection that is still in use needs no look at the state of the node. If it is replaced after the check, the
    /// reply counts as read before: an admission never returns, so an equal one has lasted all the time.
    fn admission(&self) -> Admission {
        if self.link.is_replaced() {
            self.node.admission(self.node.conn.state().link().map(|link| &**link))
        } else {
            self.node.admission(Some(&self.link))
        }
    }
}

/// Returns whether the server has rejected a write because it is a replica.
fn is_read_only(error: &NodeError) -> bool {
    error.kind() == NodeErrorKind::Rejected && error.to_string().starts_with("READONLY")
}

/// Returns the error of a request whose connection ended together with its runtime.
fn orphaned(error: &NodeError) -> NodeError {
    match error.kind() {
        NodeErrorKind::Unknown => NodeError::unknown(RUNTIME_ENDED),
        NodeErrorKind::Unavailable => NodeError::unavailable(RUNTIME_ENDED),
        _ => error.clone(),
    }
}

impl<C: Connector> Drop for InFlight<C> {
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
