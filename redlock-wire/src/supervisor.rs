//! The task that keeps a node connected.
//!
//! It connects, waits for the loss, backs off and connects again, without end. A password that is corrected later
//! therefore takes effect, and a server that comes back is used again without any request. It holds only a `Weak`
//! reference to the node, so it ends, and its connection closes, when the node is dropped. When its runtime ends, its
//! drop records that, and the next request starts another supervisor.

use std::future::pending;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redlock_core::node::ClockReading;
use redlock_core::runtime::Instant;

use crate::admission::Behind;
use crate::admission::keeper::{Checks, Keeper};
use crate::admission::look::{self, Look};
use crate::attended::elapse;
use crate::backoff::{Backoff, jittered};
use crate::clock;
use crate::clock_rate::MeasuredClock;
use crate::conn_state::{Link, State};
use crate::connection::{Connection, Connector};
use crate::first::{First, first};
use crate::gate::Ticket;
use crate::gate::rule::Finding;
use crate::handshake::{Server, handshake};
use crate::inner::Inner;
use crate::options::Options;
use crate::probe::{LOST, MIN_SILENCE, REPLICA, UNRESPONSIVE, unresponsive};
use crate::push::Hub;
use crate::secret::Secret;
use crate::sentinel::{CONFIRMED_FOR, Master, reach};
use crate::until::until;

/// The time that a supervisor may be overdue before it is replaced as not running.
const PATIENCE: Duration = Duration::from_secs(1);

/// The lifetime of a connection that resets the backoff. One that is closed at once does not.
const STEADY: Duration = Duration::from_secs(1);

struct Supervisor<C: Connector> {
    node: Weak<Inner<C>>,
    connector: Arc<C>,
    options: Options,
    /// The restart admission, if it is enabled.
    keeper: Option<Arc<Keeper>>,
    clock_rate: Arc<MeasuredClock>,
    epoch: u64,
}

/// A connection that is ready for use.
struct Opened<K> {
    connection: K,
    hub: Hub,
    server: Server,
    /// The first look, if restart admission is enabled.
    found: Option<Found>,
    /// The first reading of the clock, if the server permits it.
    reading: Option<ClockReading>,
    /// The master that sentinels have named, and the time of the question.
    master: Option<(Master, Instant)>,
}

/// A look and its result.
type Found = (Ticket, Look, Finding);

/// Starts the supervisor of an epoch on the runtime of the caller.
fn supervise<C: Connector>(node: &Arc<Inner<C>>, epoch: u64) {
    let (connector, options) = (Arc::clone(&node.connector), node.options.clone());
    let (keeper, clock_rate) = (node.keeper.clone(), Arc::clone(&node.clock_rate));
    let supervisor = Supervisor { node: Arc::downgrade(node), connector, options, keeper, clock_rate, epoch };
    node.options.runtime.spawn(Box::pin(supervisor.run()));
}

impl<C: Connector> Inner<C> {
    /// Starts a supervisor if none is running. Returns whether it has started one.
    pub(crate) fn start(self: &Arc<Self>) -> bool {
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
    pub(crate) fn break_off(self: &Arc<Self>, generation: u64) {
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

/// Returns the time by which a supervisor should have changed the state.
///
/// The supervisor continues after `delay`.
pub(crate) fn due(options: &Options, delay: Duration) -> Instant {
    options.runtime.now() + delay + options.connect_timeout.get() + PATIENCE
}

impl<C: Connector> Supervisor<C> {
    async fn run(self) {
        let mut backoff = Backoff::new(self.options.reconnect_delay);
        loop {
            let (reason, delay) = match first(self.connect(), self.replaced()).await {
                First::Right(()) => return,
                First::Left(Err(reason)) => {
                    let delay = backoff.after(&reason);
                    (reason, delay)
                }
                First::Left(Ok(opened)) => {
                    let since = self.options.runtime.now();
                    let master = opened.master.clone();
                    let Some(link) = self.up(opened) else { return };
                    let reason = self.loss(&link, master.as_ref()).await;
                    if self.options.runtime.now() > since + STEADY {
                        backoff.reset();
                    }
                    (reason, backoff.next())
                }
            };
            let delay = jittered(delay, &*self.options.runtime);
            if !self.down(reason, delay) {
                return;
            }
            if let First::Right(()) = first(self.options.runtime.sleep(delay), self.replaced()).await {
                return;
            }
        }
    }

    /// Makes one connection attempt. The error is the reason of the failure.
    async fn connect(&self) -> Result<Opened<C::Connection>, String> {
        let hub = Hub::default();
        let attempt = hub.clone();
        let ready = async {
            let login = self.options.login().await?;
            let secret = Secret::of_login(login.as_ref(), &*self.connector);
            let asked = self.options.runtime.now();
            let reached = reach(&*self.connector, login.as_ref(), &hub).await;
            let (connection, master) = reached.map_err(|failure| secret.published(&failure.message))?;
            if master.is_some() {
                hub.gate().confirmed(asked + CONFIRMED_FOR);
            }
            let (runtime, began) = (&*self.options.runtime, self.options.runtime.now());
            let ticket = hub.gate().begin(began);
            let look = self.keeper.as_ref().map(|keeper| keeper.look(connection.pushes()));
            let mut commands = look.map(Look::commands::<C::Connection>).unwrap_or_default();
            commands.push(<C::Connection as Connection>::pack(clock::TIME));
            let (server, mut replies) = handshake(&connection, &self.options, commands, &secret).await?;
            let reading = replies.pop().and_then(|time| clock::reading(began, &time, runtime));
            let found = match look {
                None => None,
                Some(look) => {
                    let found = look::found(&connection, &replies).await;
                    let found = found.map_err(|failure| secret.published(&failure.message))?;
                    if let (Some(master), Finding::Replica) = (&master, &found) {
                        return Err(format!("the sentinels name {master}, which is a replica"));
                    }
                    Some((ticket, look, found))
                }
            };
            let master = master.map(|master| (master, asked));
            Ok(Opened { connection, hub, server, found, reading, master })
        };
        let timeout = self.options.connect_timeout.get();
        match first(ready, elapse(&*self.options.runtime, timeout)).await {
            First::Left(outcome) => outcome,
            First::Right(()) => {
                Err(format!("connection attempt timed out ({timeout:?}){}", attempt.unfinished()))
            }
        }
    }

    /// Publishes a connection. Returns `None` if this supervisor was replaced or the node dropped.
    fn up(&self, opened: Opened<C::Connection>) -> Option<Arc<Link<C::Connection>>> {
        let node = self.node.upgrade()?;
        let Opened { connection, hub, server, found, reading, master } = opened;
        self.clock_rate.connected(server.id);
        let mut checks = None;
        if let (Some(keeper), Some((ticket, look, finding))) = (&self.keeper, found) {
            keeper.apply(hub.gate(), ticket, look, &finding, self.options.runtime.now());
            keeper.read_clock(hub.gate(), reading);
            let behind = if !connection.keeps_order() {
                Behind::Look(keeper.look_behind())
            } else if server.pushes.is_ok() && connection.reports_flushes() {
                Behind::Nothing
            } else {
                Behind::Comparison
            };
            let are_common = behind != Behind::Nothing && connection.queues_at_first_poll();
            let clock = AtomicBool::new(reading.is_some());
            checks = Some(Checks { keeper: Arc::clone(keeper), behind, are_common, clock });
        } else if let Some(reading) = reading {
            self.clock_rate.record(reading);
        }
        let link = node.conn.up(self.epoch, connection, hub, server, checks)?;
        let reached = master.map(|(master, _)| master.to_string());
        node.journal.up(node.connector.label(), reached.as_deref());
        if let Err(reason) = &link.server.pushes {
            node.no_pushes.call_once(|| {
                tracing::warn!(
                    node = node.connector.label(),
                    reason,
                    "CLIENT TRACKING unavailable; waiters will poll"
                );
            });
        }
        Some(link)
    }

    /// Publishes that there is no connection. Returns whether this supervisor is needed.
    ///
    /// The state lasts until `delay` has passed and another attempt was made.
    fn down(&self, reason: String, delay: Duration) -> bool {
        let Some(node) = self.node.upgrade() else { return false };
        let text = reason.clone();
        if !node.conn.down(self.epoch, reason, due(&self.options, delay)) {
            return false;
        }
        node.journal.down(node.connector.label(), &text, self.options.runtime.now());
        true
    }

    /// Waits until the connection ends. Returns the reason.
    ///
    /// The connection ends when it is lost, unresponsive, or not in use any more.
    async fn loss(&self, link: &Link<C::Connection>, master: Option<&(Master, Instant)>) -> String {
        let displaced = self.until(|node| !node.conn.is_up(link.generation));
        let over = first(link.connection.lost(), displaced);
        let silence = || self.options.connect_timeout.node_timeout().max(MIN_SILENCE);
        // With restart admission, the keeper reads the clock.
        let clock = if link.checks.is_some() { None } else { Some(&*self.clock_rate) };
        let over = first(over, unresponsive(link, &*self.options.runtime, silence, clock));
        let found = first(self.keep(link), self.unconfirmed(link, master));
        let reason = match first(over, found).await {
            First::Left(First::Right(reason)) => reason.to_owned(),
            First::Left(First::Left(_)) => LOST.to_owned(),
            First::Right(First::Left(())) => REPLICA.to_owned(),
            First::Right(First::Right(reason)) => reason,
        };
        // A request may have found the reason.
        let found = self.node.upgrade().and_then(|node| node.conn.reason());
        found.unwrap_or(reason)
    }

    /// Waits until the sentinels do not confirm the server any more. Returns the reason.
    async fn unconfirmed(&self, link: &Link<C::Connection>, master: Option<&(Master, Instant)>) -> String {
        let (Some(sentinels), Some((master, asked))) = (self.connector.sentinels(), master) else {
            return pending().await;
        };
        let confirmed = |asked| link.hub.gate().confirmed(asked + CONFIRMED_FOR);
        let inquiry = sentinels.inquiry();
        // Boxed: most nodes have no sentinels, and the space would be part of every supervisor.
        Box::pin(inquiry.watch(master, *asked, &*self.options.runtime, confirmed)).await
    }

    /// Keeps the admission of the connection up to date. Completes if the server is a replica.
    async fn keep(&self, link: &Link<C::Connection>) {
        match &link.checks {
            Some(checks) => checks.keeper.keep(&link.checked(checks), &*self.options.runtime).await,
            None => pending().await,
        }
    }

    /// Completes when this supervisor is replaced or the node is dropped.
    async fn replaced(&self) {
        self.until(|node| !node.conn.is_current(self.epoch)).await;
    }

    /// Completes when `over` holds for the node, or the node is dropped.
    async fn until(&self, over: impl Fn(&Inner<C>) -> bool) {
        until(&self.node, |node| node.conn.listen(), over).await;
    }
}

/// Also runs if the runtime drops the task: the next request then starts another one.
impl<C: Connector> Drop for Supervisor<C> {
    fn drop(&mut self) {
        if let Some(node) = self.node.upgrade() {
            node.conn.ended(self.epoch);
        }
    }
}
