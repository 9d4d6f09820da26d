//! A Redis or Valkey server as a [`LockNode`].
//!
//! A request uses the connection that stands, and never repeats itself: what a lost reply means is for core to decide.
//! While the first connect is under way it waits (core bounds that by dropping it); a node known to be down answers at
//! once. Requests that were given up unanswered make the connection doubtful. Its supervisor then finds out whether the
//! server answers ([`probe`](crate::probe)), and gives the connection up if not: a server that hangs then has fewer late
//! requests to carry out, and requests to it fail at once instead of running into their timeout. Meanwhile a bounded number
//! of requests is sent.

use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;

use redlock_core::{
    Capabilities, Claim, ConnectionId, Error, FencingToken, Holding, Instant, LockNode, NodeError,
    NodeErrorKind, Resource, ServerId, Ttl, Vote, Watch, async_trait,
};

use crate::asked::{Asked, Verb};
use crate::commands;
use crate::connection::{Connection, Connector};
use crate::fence;
use crate::journal::Journal;
use crate::options::{Keys, Options};
use crate::probe::{FAILURES, SILENCE, UNRESPONSIVE};
use crate::slot::{Link, Slot, State};
use crate::supervisor::{due, supervise};

/// Doubt that no supervisor has looked after for so long, and for a silence, means that none is run: a request then gives the
/// connection up.
const UNATTENDED: Duration = Duration::from_millis(150);

/// So many requests are sent over a connection over which [`FAILURES`] have failed; further ones fail at once.
const MAX_IN_DOUBT: u32 = 1024;

/// A request that was dropped sooner says nothing about the server. No node timeout is shorter. The first of those in a row
/// counts anyway: for how long it waited is not known, because a request to a server that answers does without a look
/// at the clock, which costs more than it seems (a twentieth of what a lock costs).
const TELLING: Duration = Duration::from_millis(1);

/// One independent Redis or Valkey server, over any client.
///
/// Connects when it is first used, and again whenever the connection was lost, in a task of its own: a server that comes
/// back votes again within a second, also without traffic. The task lives in the runtime of the request that started it;
/// when that runtime has ended, the next request starts another.
///
/// Dropping the node ends the task and closes the connection.
pub struct Node<C: Connector>(Arc<Shared<C>>);

/// What the node shares with its supervisor, which holds a `Weak` of it.
pub(crate) struct Shared<C: Connector> {
    pub(crate) connector: Arc<C>,
    pub(crate) label: String,
    pub(crate) options: Options,
    pub(crate) slot: Slot<C::Connection>,
    /// It was said that the server does not tell of changes.
    pub(crate) no_pushes: Once,
    pub(crate) journal: Journal,
}

impl<C: Connector> Node<C> {
    /// A node that connects when it is first used. Does no I/O and needs no runtime around it.
    ///
    /// `label` is what people know the node by, normalised as the `Display` of an [`Endpoint`](crate::Endpoint) is, so
    /// that one server listed twice is noticed.
    #[must_use]
    pub fn new(connector: C, label: String, options: &Options) -> Self {
        let (connector, options) = (Arc::new(connector), options.of_a_node());
        Self(Arc::new(Shared {
            connector,
            label,
            options,
            slot: Slot::new(),
            no_pushes: Once::new(),
            journal: Journal::default(),
        }))
    }

    /// The connection to use, once the first connect has come to something.
    async fn link(&self) -> Result<Arc<Link<C::Connection>>, NodeError> {
        let slot = &self.0.slot;
        let mut started = false;
        loop {
            let found = slot.look(|state| match state {
                State::Up(link) => Found::Link(Arc::clone(link)),
                State::Down { due, .. } | State::Connecting { due } if !started && self.is_past(*due) => {
                    Found::Nobody
                }
                State::Down { reason, .. } => Found::Error(NodeError::unavailable(reason.clone())),
                State::Idle if started => Found::Error(NodeError::unavailable(NO_RUNTIME)),
                State::Idle => Found::Nobody,
                State::Connecting { .. } => Found::Wait,
            });
            match found {
                Found::Link(link) => return Ok(link),
                Found::Error(error) => return Err(error),
                Found::Nobody => {
                    started = true;
                    self.0.start();
                }
                Found::Wait => {
                    // Armed before looking, so that no change is missed.
                    let changed = slot.listen();
                    if slot.look(|state| matches!(state, State::Connecting { .. })) {
                        changed.await;
                    }
                }
            }
        }
    }

    fn is_past(&self, due: Instant) -> bool {
        self.0.options.runtime.now() > due
    }

    /// Asks the server about a claim.
    ///
    /// A future like this is made for every node of a round, and what it carries is paid for each time: what is rarely
    /// needed has a place of its own.
    async fn ask(&self, asked: &Asked<'_>) -> Result<Vote, NodeError> {
        let link = self.link().await?;
        let flight = self.depart(&link)?;
        let set_get = link.server.set_get;
        let reply = link.call(asked.packed::<C::Connection>(set_get)).await;
        let outcome = match asked.again::<C::Connection>(&reply, set_get) {
            None => asked.vote(reply, set_get, false),
            Some(then) => asked.vote(Box::pin(link.call(then)).await, set_get, true),
        };
        flight.land(outcome)
    }

    fn asked<'a>(
        &'a self,
        verb: Verb,
        claim: &'a Claim,
        ttl: Option<Ttl>,
        fence: Option<FencingToken>,
    ) -> Asked<'a> {
        Asked { verb, claim, ttl, fence, options: &self.0.options }
    }

    /// A request is about to be sent over `link`. It is awaited where it is made, and not handed in here: a future that is
    /// an argument of another takes up its room twice, and a client's futures are large.
    fn depart<'a>(&'a self, link: &'a Link<C::Connection>) -> Result<Flight<'a, C>, NodeError> {
        let in_doubt = link.is_doubted();
        if link.unanswered() >= FAILURES && link.sent_in_doubt() >= MAX_IN_DOUBT {
            return Err(NodeError::unavailable(format!("{MAX_IN_DOUBT} requests are unanswered")));
        }
        let since = in_doubt.then(|| self.0.options.runtime.now());
        Ok(Flight { node: &self.0, link, since, over: false })
    }
}

/// What a request finds when it looks for a connection.
enum Found<K: Connection> {
    Link(Arc<Link<K>>),
    Error(NodeError),
    /// Nobody who would connect.
    Nobody,
    Wait,
}

/// The error of a request whose connection has ended together with the runtime that opened it.
fn orphaned(error: &NodeError) -> NodeError {
    match error.kind() {
        NodeErrorKind::Unknown => NodeError::unknown(RUNTIME_ENDED),
        NodeErrorKind::Unavailable => NodeError::unavailable(RUNTIME_ENDED),
        _ => error.clone(),
    }
}

const RUNTIME_ENDED: &str = "the runtime that opened the connection has shut down";

const NO_RUNTIME: &str = "no runtime is there to run the connection in";

impl<C: Connector> Shared<C> {
    /// Starts a supervisor where there is none that is run.
    fn start(self: &Arc<Self>) {
        let (now, later) = (self.options.runtime.now(), due(&self.options, Duration::ZERO));
        let epoch = self.slot.take_over(|state| match state {
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
    }

    /// Gives up a connection that is not answered over, and that nobody looks after: a new supervisor takes over, here.
    fn break_off(self: &Arc<Self>, generation: u64) {
        let reason = UNRESPONSIVE.to_owned();
        let due = due(&self.options, Duration::ZERO);
        let epoch = self.slot.take_over(|state| {
            if state.is_up(generation) { Some(State::Down { reason, due }) } else { None }
        });
        if let Some(epoch) = epoch {
            self.journal.down(&self.label, UNRESPONSIVE, self.options.runtime.now());
            supervise(self, epoch);
        }
    }
}

/// Wakes the supervisor, which then finds that there is no node.
impl<C: Connector> Drop for Shared<C> {
    fn drop(&mut self) {
        self.slot.notify();
    }
}

/// A request on its way. Dropped before it has come to something, it counts against the connection.
///
/// It is not polled again for that, to see whether an answer is there: a poll may send what has not been sent yet.
struct Flight<'a, C: Connector> {
    node: &'a Arc<Shared<C>>,
    link: &'a Link<C::Connection>,
    /// Of a link that is doubted.
    since: Option<Instant>,
    over: bool,
}

impl<C: Connector> Flight<'_, C> {
    /// What is learnt about the connection.
    fn land<T>(mut self, outcome: Result<T, NodeError>) -> Result<T, NodeError> {
        self.over = true;
        let outcome = outcome.map_err(|error| if self.link.is_orphaned() { orphaned(&error) } else { error });
        match &outcome {
            Err(error) if matches!(error.kind(), NodeErrorKind::Unavailable | NodeErrorKind::Unknown) => {
                // A client that fails once is not asked again: what it would do next is anyone's guess.
                let due = due(&self.node.options, Duration::ZERO);
                self.node.slot.broken(self.link.generation, &error.to_string(), due);
            }
            _ => self.link.answered(),
        }
        outcome
    }
}

impl<C: Connector> Drop for Flight<'_, C> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let now = self.node.options.runtime.now();
        let Some(since) = self.since else { return self.link.doubt(now) };
        if now.saturating_duration_since(since) < TELLING {
            return;
        }
        let (unanswered, silent) = self.link.given_up(now);
        let silence = self.node.options.connect_timeout.node_timeout().max(SILENCE);
        if unanswered >= FAILURES && silent >= silence + UNATTENDED {
            self.node.break_off(self.link.generation);
        }
    }
}

#[async_trait]
impl<C: Connector> LockNode for Node<C> {
    fn label(&self) -> &str {
        &self.0.label
    }

    async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        let verb = if claim.resources().len() == 1 { Verb::Set } else { Verb::Acquire };
        self.ask(&self.asked(verb, claim, Some(ttl), None)).await
    }

    async fn extend(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        self.ask(&self.asked(Verb::Extend, claim, Some(ttl), None)).await
    }

    async fn release(&self, claim: &Claim) -> Result<Vote, NodeError> {
        self.ask(&self.asked(Verb::Release, claim, None, None)).await
    }

    async fn acquire_fenced(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        self.ask(&self.asked(Verb::AcquireFenced, claim, Some(ttl), None)).await
    }

    async fn confirm(&self, claim: &Claim, ttl: Ttl, fence: FencingToken) -> Result<Vote, NodeError> {
        self.ask(&self.asked(Verb::Confirm, claim, Some(ttl), Some(fence))).await
    }

    async fn refill_fenced(&self, claim: &Claim, ttl: Ttl, fence: FencingToken) -> Result<Vote, NodeError> {
        self.ask(&self.asked(Verb::Refill, claim, Some(ttl), Some(fence))).await
    }

    async fn inspect(&self, resource: &Resource) -> Result<Option<Holding>, NodeError> {
        let (link, options) = (self.link().await?, &self.0.options);
        let flight = self.depart(&link)?;
        flight.land(commands::inspect(&link.connection, options, resource).await)
    }

    async fn watch(&self, resource: &Resource) -> Result<Watch, NodeError> {
        let (link, options) = (self.link().await?, &self.0.options);
        if link.server.pushes.is_err() {
            return Err(NodeError::unsupported("watch"));
        }
        let flight = self.depart(&link)?;
        flight.land(commands::watch(&link.connection, &link.hub, options, resource).await)
    }

    fn connection(&self) -> Option<ConnectionId> {
        self.0.slot.connection()
    }

    fn server(&self) -> Option<ServerId> {
        self.0.slot.server()
    }

    fn check(&self, resource: &Resource) -> Result<(), Error> {
        let Keys { prefix, fence_prefix, .. } = &*self.0.options.keys;
        if fence::is_counter(fence_prefix, prefix, resource.as_bytes()) {
            let (prefix, counters) = (prefix.escape_ascii(), fence_prefix.escape_ascii());
            return Err(Error::invalid(format!(
                "the resource {resource:?} would have the key \"{prefix}{resource}\": keys like \"{counters}{{...}}\" \
                 are those of fencing counters"
            )));
        }
        Ok(())
    }

    fn set_node_timeout(&self, timeout: Duration) {
        self.0.options.connect_timeout.raise(timeout);
    }

    /// Whether it can watch is known of a connection that stands, and hoped for until there is one.
    fn capabilities(&self) -> Capabilities {
        let can = Capabilities::default().with_inspect().with_fencing();
        let can = can.with_fence_retention(self.0.options.keys.fence_retention);
        let refuses = |state: &State<_>| matches!(state, State::Up(link) if link.server.pushes.is_err());
        if !C::HEARS_PUSHES || self.0.slot.look(refuses) { can } else { can.with_watch() }
    }
}

impl<C: Connector> fmt::Debug for Node<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connected = self.0.slot.look(|state| matches!(state, State::Up(_)));
        f.debug_struct("Node").field("label", &self.0.label).field("connected", &connected).finish()
    }
}
