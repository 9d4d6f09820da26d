//! A fault-injecting wrapper around any [`LockNode`].
//!
//! [`Faulty`] wraps a fake or a real node. It follows a script of [`Fault`]s and counts the requests. It holds requests
//! and replies back until the test releases them. A request arrives when its future is first polled. All time comes
//! from the runtime, so that simulated and paused time work.

mod fake;
mod fault;
mod matcher;
mod request_log;
mod state;

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use event_listener::Event;
use futures_channel::oneshot;
use redlock_core::node::{
    Admission, Begun, Denial, Exchange, LockNode, NodeError, Operation, Profile, Quarantine,
    QuarantineReason, Reply, Request, Status, Watch,
};
use redlock_core::runtime::Runtime;
use redlock_core::{Error, Resource};

pub use self::fake::{FakeNode, fake_nodes, fake_redlock, fake_redlock_on};
use self::fault::Effect;
pub use self::fault::Fault;
pub use self::request_log::RequestLog;
use self::state::{Arrival, Held, Outcome, Reception, State};

/// Any [`LockNode`], with faults.
///
/// Clones are handles to the same node: give one to the code under test and keep one.
///
/// ```
/// use std::sync::Arc;
/// use redlock_core::node::{Claim, LockNode, NodeErrorKind, Request, Token, Ttl};
/// use redlock_core::IntoResources;
/// use redlock_testkit::{FakeNode, Fault, Operation, ThreadRuntime, block_on};
///
/// let node = FakeNode::new("fake-1", Arc::new(ThreadRuntime));
/// node.inject(Fault::disconnect().on(Operation::Acquire).once());
///
/// let claim = Claim::new("invoice:42".into_resources()?, Token::from_bytes("alice"));
/// let request = Request::Acquire(claim.clone(), Ttl::MAX);
/// let error = block_on(node.call(request)).unwrap_err();
/// assert_eq!(NodeErrorKind::Unknown, error.kind());
/// assert_eq!(Some(claim.token().clone()), node.inner().holder("invoice:42"), "it was carried out");
/// # Ok::<(), redlock_core::Error>(())
/// ```
pub struct Faulty<N>(Arc<Shared<N>>);

struct Shared<N> {
    node: N,
    runtime: Arc<dyn Runtime>,
    state: Mutex<State>,
    arrived: Event,
    crashed: Event,
}

impl<N: LockNode> Faulty<N> {
    /// Wraps a node with an empty script: all requests pass through.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_core::{ErrorKind, Redlock};
    /// # use redlock_testkit::{Faulty, MemoryNode, ThreadRuntime, block_on};
    /// # let ttl = Duration::from_secs(10);
    /// let node = Faulty::wrap(MemoryNode::new("fake-1"), Arc::new(ThreadRuntime));
    /// let redlock = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// assert!(block_on(redlock.lock("orders:42", ttl).try_now())?.is_some());
    /// node.crash();
    /// let error = block_on(redlock.lock("orders:43", ttl).try_now()).unwrap_err();
    /// assert_eq!(ErrorKind::NoQuorum, error.kind());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn wrap(node: N, runtime: Arc<dyn Runtime>) -> Self {
        let (arrived, crashed) = (Event::new(), Event::new());
        Self(Arc::new(Shared { node, runtime, state: Mutex::default(), arrived, crashed }))
    }

    /// Passes on the inner node's [`connection`](Exchange::connection).
    ///
    /// Every loss of the connection leads to a new number. By default there is no connection, because a connection
    /// guarantees that requests are carried out in the order in which they were sent, and a script may reorder them. An
    /// ordered node keeps the guarantee: a request behind one that hangs hangs as well, and faults that reorder are
    /// rejected.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use redlock_core::node::LockNode;
    /// # use redlock_testkit::{FakeNode, ThreadRuntime};
    /// let node = FakeNode::new("fake-1", Arc::new(ThreadRuntime));
    /// assert_eq!(None, node.status().connection);
    /// let node = node.ordered();
    /// let first = node.status().connection.expect("requests keep their order");
    /// node.crash();
    /// node.restart();
    /// assert_ne!(Some(first), node.status().connection, "another connection after a loss");
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if a fault that reorders requests was injected before.
    #[must_use]
    pub fn ordered(self) -> Self {
        let mut state = self.state();
        assert!(!state.script.reorders(), "{NOT_ORDERED}");
        state.ordered = true;
        drop(state);
        self
    }

    /// Passes on the inner node's [watches](Request::Watch), until the node crashes.
    ///
    /// By default there are no watches and waiters poll, so that tests can rely on the times of their requests.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_core::{Redlock, node::{Token, Ttl}};
    /// # use redlock_testkit::{FakeNode, Operation, ThreadRuntime, block_on};
    /// let node = FakeNode::new("fake-1", Arc::new(ThreadRuntime)).watching();
    /// node.inner().set_holder("orders:42", Token::from_bytes("another"), Ttl::MAX);
    /// # let redlock = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// # let waiting = move || block_on(redlock.lock("orders:42", Duration::from_secs(10))).map(drop);
    /// let waiter = std::thread::spawn(waiting); // waits for the lock
    /// block_on(node.wait_for_requests(Operation::Watch, 1));
    /// node.inner().remove("orders:42"); // notifies the waiter
    /// waiter.join().unwrap()?;
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    #[must_use]
    pub fn watching(self) -> Self {
        self.state().watching = true;
        self
    }

    /// Returns the inner node.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, faulty, ttl| {
    /// // Another client holds the lock.
    /// faulty.inner().set_holder("orders:42", Token::from_bytes("another"), Ttl::MAX);
    /// assert!(redlock.lock("orders:42", ttl).try_now().await?.is_none());
    /// # });
    /// ```
    pub fn inner(&self) -> &N {
        &self.0.node
    }

    /// Adds a fault for future requests.
    ///
    /// A request meets at most one fault. Counted faults take precedence: the first injected one that matches applies.
    /// Otherwise the last uncounted one that matches applies.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// nodes[0].inject(Fault::reject());
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// assert!(guard.is_held(), "the lock works without a minority");
    /// nodes[1].inject(Fault::reject());
    /// let error = redlock.lock("orders:43", ttl).try_now().await.unwrap_err();
    /// assert_eq!(ErrorKind::NoQuorum, error.kind());
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the node is [`ordered`](Faulty::ordered) and the fault reorders requests: a delay, or a late
    /// application.
    pub fn inject(&self, fault: Fault) {
        let mut state = self.state();
        assert!(!(state.ordered && fault.reorders()), "{NOT_ORDERED}");
        state.script.add(fault);
    }

    /// Removes all faults. Requests that are already in flight or held back stay so.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, faulty, ttl| {
    /// faulty.inject(Fault::unavailable());
    /// assert!(redlock.lock("orders:42", ttl).try_now().await.is_err());
    /// faulty.clear_faults();
    /// assert!(redlock.lock("orders:42", ttl).try_now().await?.is_some());
    /// # });
    /// ```
    pub fn clear_faults(&self) {
        self.state().script.clear();
    }

    /// Ends every hang and every holding of replies.
    ///
    /// All held requests and replies proceed, oldest first. The method returns when the inner node has carried out the
    /// last one.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// nodes[0].inject(Fault::hang());
    /// let _guard = redlock.lock("orders:42", ttl).await?; // by the other two nodes
    /// assert!(nodes[0].inner().is_empty());
    /// nodes[0].resume().await;
    /// assert!(nodes[0].inner().holder("orders:42").is_some(), "carried out late");
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, one request may have been carried out or not; all later ones stay held back.
    pub async fn resume(&self) {
        self.state().script.stop_holding();
        while self.step().await {}
    }

    /// Releases the oldest held request or reply. The fault stays in force.
    ///
    /// A request is carried out even if its caller has stopped waiting. A reply without a waiting caller is skipped.
    /// Returns `false` if nothing is held back.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// nodes[0].inject(Fault::hang());
    /// let _guard = redlock.lock("orders:42", ttl).await?; // by the other two nodes
    /// assert!(nodes[0].step().await, "carries out the acquisition");
    /// assert!(nodes[0].inner().holder("orders:42").is_some());
    /// assert!(!nodes[0].step().await, "nothing else is held back");
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Same as [`resume`](Faulty::resume).
    pub async fn step(&self) -> bool {
        let held = self.state().pop_held();
        // The caller may have stopped waiting in either case.
        match held {
            None => return false,
            Some(Held::Reply(reply)) => drop(reply.send(())),
            Some(Held::Request(request, reply)) => drop(reply.send(request.await)),
        }
        true
    }

    /// Returns the number of held requests and replies.
    ///
    /// [`step`](Faulty::step) releases them one by one.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// nodes[0].inject(Fault::hang());
    /// let _guard = redlock.lock("orders:42", ttl).await?; // by the other two nodes
    /// assert_eq!(1, nodes[0].pending(), "the acquisition");
    /// nodes[0].resume().await;
    /// assert_eq!(0, nodes[0].pending());
    /// # });
    /// ```
    pub fn pending(&self) -> usize {
        self.state().held_count()
    }

    /// Crashes the node.
    ///
    /// Waiting callers get an error with unknown outcome. Requests in flight or held back are lost. The node is
    /// unavailable until [`restart`](Faulty::restart).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// nodes[0].crash();
    /// nodes[1].crash();
    /// let error = guard.extend(ttl).await.unwrap_err();
    /// assert_eq!(ErrorKind::NoQuorum, error.kind());
    /// assert!(guard.is_held(), "until its deadline");
    /// # });
    /// ```
    pub fn crash(&self) {
        self.state().crash();
        self.0.crashed.notify(usize::MAX);
    }

    /// Ends the outage of a crash: the node is available, with its data and its script.
    ///
    /// It is the same server as before, as after a failure of its network. It therefore counts at once, even with a
    /// [longest TTL](crate::MemoryNode::set_longest_ttl). A server whose process restarts does not count for a time,
    /// even with all its data: see [`restart_with_data`](FakeNode::restart_with_data) and
    /// [`restart_empty`](FakeNode::restart_empty).
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, faulty, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// faulty.crash();
    /// faulty.restart();
    /// assert!(faulty.inner().holder("orders:42").is_some(), "the data is kept");
    /// guard.extend(ttl).await?;
    /// # });
    /// ```
    pub fn restart(&self) {
        self.state().down = false;
    }

    /// Returns how many requests of an operation have arrived, with any outcome.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, faulty, ttl| {
    /// let _guard = redlock.lock("orders:42", ttl).await?;
    /// assert!(redlock.lock("orders:42", ttl).try_now().await?.is_none());
    /// // The second request sent nothing.
    /// assert_eq!(1, faulty.request_count(Operation::Acquire));
    /// # });
    /// ```
    pub fn request_count(&self, operation: Operation) -> u64 {
        self.state().request_count(operation)
    }

    /// Returns the latest requests, oldest first: at most 1,024.
    ///
    /// A request is logged when it arrives, with any outcome.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_testkit::{Operation, block_on, fake_redlock};
    /// # let ttl = Duration::from_secs(10);
    /// let (redlock, nodes) = fake_redlock(3);
    /// let guard = block_on(redlock.lock("orders:42", ttl))?;
    /// block_on(guard.extend(ttl))?;
    /// let log = nodes[0].requests().of("orders:42");
    /// assert_eq!(2, log.len(), "{log}");
    /// assert!(log.on(Operation::Release).is_empty());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn requests(&self) -> RequestLog {
        self.state().log.clone()
    }

    /// Empties the log of [`requests`](Faulty::requests). [Counts](Faulty::request_count) stay.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_testkit::{block_on, fake_redlock};
    /// # let ttl = Duration::from_secs(10);
    /// let (redlock, nodes) = fake_redlock(1);
    /// let guard = block_on(redlock.lock("orders:42", ttl))?;
    /// nodes[0].clear_requests();
    /// assert!(guard.is_held());
    /// assert!(nodes[0].requests().is_empty(), "`is_held` sends nothing");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn clear_requests(&self) {
        self.state().log = RequestLog::default();
    }

    /// Waits until at least `count` requests of an operation have arrived in total.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_core::{Redlock, node::{Token, Ttl}};
    /// # use redlock_testkit::{FakeNode, Operation, ThreadRuntime, block_on};
    /// # let node = FakeNode::new("fake-1", Arc::new(ThreadRuntime));
    /// # let redlock = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// # let waiting = move || block_on(redlock.lock("orders:42", Duration::from_secs(10))).map(drop);
    /// node.inner().set_holder("orders:42", Token::from_bytes("another"), Ttl::MAX);
    /// let waiter = std::thread::spawn(waiting); // waits for the lock
    /// block_on(node.wait_for_requests(Operation::Acquire, 2)); // was denied once
    /// node.inner().remove("orders:42"); // the other client releases it
    /// waiter.join().unwrap()?;
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, nothing changes.
    pub async fn wait_for_requests(&self, operation: Operation, count: u64) {
        loop {
            let arrival = self.0.arrived.listen();
            if self.request_count(operation) >= count {
                return;
            }
            arrival.await;
        }
    }

    /// Adds a request to the count, and carries it out as the script says.
    ///
    /// `reply` is the one of the inner node, over a connection that began after this number of losses.
    async fn carry_out(self, request: Request, reply: Reception, losses: u64) -> Outcome {
        let (arrival, crash) = {
            let mut state = self.state();
            (state.receive(&request, reply, losses), self.0.crashed.listen())
        };
        self.0.arrived.notify(usize::MAX);
        let crashed = async {
            crash.await;
            Err(connection_lost())
        };
        Ok(match first(self.outcome(arrival, &request), crashed).await? {
            // A crash completes the watch.
            Reply::Watching(watch) => {
                let changed = first(watch.changed, self.0.crashed.listen());
                Reply::Watching(Watch::new(watch.availability, changed).held_by(watch.holder))
            }
            // A fault may have held the reply back, or replaced it.
            reply if request.is_vote() => self.judge(reply),
            reply => reply,
        })
    }

    async fn outcome(&self, arrival: Arrival, request: &Request) -> Outcome {
        match arrival {
            Arrival::Down => Err(connection_refused()),
            Arrival::Apply(reply) => reply.await,
            Arrival::Hangs(reply) => reply.await.unwrap_or_else(|_| Err(connection_lost())),
            Arrival::ReplyHeld(reply, go) => {
                let outcome = reply.await;
                go.await.map_err(|_| connection_lost())?;
                outcome
            }
            Arrival::Fault(effect, reply) => self.apply_fault(effect, request, reply).await,
        }
    }

    async fn apply_fault(&self, effect: Effect, request: &Request, reply: Reception) -> Outcome {
        match effect {
            Effect::Deny => Ok(denial_of(request)),
            Effect::Fail(error) => Err(error),
            Effect::Delay(delay) => {
                self.0.runtime.sleep(delay).await;
                reply.await
            }
            Effect::ApplyLate(delay) => self.apply_late(delay, reply).await,
            Effect::DropRequest => pending().await,
            Effect::LoseReply => {
                drop(reply.await);
                pending().await
            }
            Effect::Disconnect => {
                drop(reply.await);
                self.state().losses += 1;
                Err(connection_lost())
            }
            Effect::Miscount(counter) => match reply.await {
                Ok(Reply::Counted(_)) => Ok(Reply::Counted(counter)),
                outcome => outcome,
            },
            Effect::Hang | Effect::HoldReply => unreachable!("received into the queue"),
        }
    }

    /// Runs the request in the background, independent of its caller.
    async fn apply_late(&self, delay: Duration, reply: Reception) -> Outcome {
        let (sender, receiver) = oneshot::channel();
        let (node, sent_before) = (self.clone(), self.state().crashes);
        self.0.runtime.spawn(Box::pin(async move {
            node.0.runtime.sleep(delay).await;
            if node.state().crashes == sent_before {
                // The caller may have stopped waiting; the fault exists for this case.
                drop(sender.send(reply.await));
            }
        }));
        receiver.await.unwrap_or_else(|_| Err(connection_lost()))
    }

    /// Takes the vote of a reply away, if the inner node is in quarantine when the reply is read.
    fn judge(&self, reply: Reply) -> Reply {
        match self.0.node.status().quarantine.map(Admission::Quarantined) {
            Some(quarantined) => quarantined.judge(reply, quarantined),
            None => reply,
        }
    }

    /// Only the rejection of a fault panics, and that precedes the change. A poisoned state is therefore intact.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<N: LockNode> LockNode for Faulty<N> {
    fn label(&self) -> &str {
        self.0.node.label()
    }

    /// Returns the profile of the inner node, without watches unless the node is [`watching`](Faulty::watching).
    fn profile(&self) -> Profile {
        let mut profile = self.0.node.profile();
        profile.watch &= self.state().watching;
        profile
    }

    /// Returns the status of the inner node.
    ///
    /// It has no connection, unless the node is [`ordered`](Faulty::ordered). While the node is down, a node with
    /// restart admission is in quarantine.
    fn status(&self) -> Status {
        let mut status = self.0.node.status();
        let is_checked = self.0.node.profile().longest_ttl.is_some();
        let mut state = self.state();
        status.connection = status.connection.and_then(|inner| state.connection(inner));
        if state.down && is_checked {
            status.quarantine.get_or_insert(Quarantine::new(QuarantineReason::NotChecked));
        }
        status
    }

    fn begin(&self, request: &Request) -> Begun {
        if matches!(request, Request::Watch(_) | Request::WatchShared(_)) && !self.profile().watch {
            return Begun::failed(NodeError::unsupported(request));
        }
        let (is_down, losses) = {
            let state = self.state();
            (state.down, state.losses)
        };
        let begun = if is_down { Begun::failed(connection_refused()) } else { self.0.node.begin(request) };
        match begun {
            Begun::Sent(Exchange { connection, server, reply }) => Begun::Sent(Exchange {
                connection: connection.and_then(|inner| self.state().connection(inner)),
                server,
                reply: Box::pin(self.clone().carry_out(request.clone(), reply, losses)),
            }),
            connecting @ Begun::Connecting(_) => connecting,
        }
    }

    fn check(&self, resource: &Resource) -> Result<(), Error> {
        self.0.node.check(resource)
    }

    fn check_together(&self, resources: &[Resource]) -> Result<(), Error> {
        self.0.node.check_together(resources)
    }

    fn set_node_timeout(&self, timeout: Duration) {
        self.0.node.set_node_timeout(timeout);
    }

    fn set_clock_drift_factor(&self, factor: f64) {
        self.0.node.set_clock_drift_factor(factor);
    }
}

impl<N> Clone for Faulty<N> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<N: LockNode> fmt::Debug for Faulty<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Faulty")
            .field("label", &self.0.node.label())
            .field("down", &state.down)
            .field("script", &state.script)
            .field("held", &state.held_count())
            .finish_non_exhaustive()
    }
}

impl<N: LockNode> From<Faulty<N>> for Arc<dyn LockNode> {
    fn from(node: Faulty<N>) -> Self {
        Arc::new(node)
    }
}

const NOT_ORDERED: &str = "a delay or a late application reorders requests, which an ordered node must not";

/// Returns the reply of a node that denies a request. A release deletes nothing then.
fn denial_of(request: &Request) -> Reply {
    match request {
        Request::Release(_) => Reply::Deleted(false),
        _ => Reply::Denied(Denial::default()),
    }
}

fn connection_refused() -> NodeError {
    NodeError::unavailable("connection refused")
}

fn connection_lost() -> NodeError {
    NodeError::unknown("the connection was lost")
}

/// Returns the output of the faster future, or of `left` if both are ready.
async fn first<T>(left: impl Future<Output = T>, right: impl Future<Output = T>) -> T {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|context| match left.as_mut().poll(context) {
        Poll::Pending => right.as_mut().poll(context),
        ready @ Poll::Ready(_) => ready,
    })
    .await
}
