//! A node to which a test does what networks and machines do.
//!
//! [`Faulty`] stands in front of any [`LockNode`], a fake or a real one. It follows a script of [`Fault`]s, counts the
//! requests it sees, and holds back requests and replies until the test lets them go. A request arrives when its future
//! is first polled. All time comes from the runtime, so that simulated and paused time work.

mod fake;
mod fault;
pub(crate) mod state;

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use event_listener::Event;
use futures_channel::oneshot;
use redlock_core::{
    Capabilities, Claim, ConnectionId, Error, FencingToken, Holding, LockNode, NodeError, Refusal, Resource,
    Runtime, ServerId, Ttl, Vote, Watch, async_trait,
};

pub use self::fake::{FakeNode, fake_nodes};
use self::fault::Effect;
pub use self::fault::{Fault, Operation};
use self::state::{Admission, Answer, Held, Request, State, as_found};

/// Any [`LockNode`], with faults. Clones are handles to the same: give one to the code under test and keep one.
///
/// ```
/// use std::sync::Arc;
/// use redlock_core::{Claim, IntoResources, LockNode, NodeErrorKind, Token, Ttl};
/// use redlock_testkit::{FakeNode, Fault, Operation, ThreadRuntime, block_on};
///
/// let node = FakeNode::new("fake-1", Arc::new(ThreadRuntime));
/// node.inject(Fault::disconnect().on(Operation::Acquire).once());
///
/// let claim = Claim::new("invoice:42".into_resources()?, Token::from_bytes("alice"));
/// let error = block_on(node.acquire(&claim, Ttl::MAX)).unwrap_err();
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
    /// Puts an empty script in front of a node: everything passes through.
    pub fn wrap(node: N, runtime: Arc<dyn Runtime>) -> Self {
        let (arrived, crashed) = (Event::new(), Event::new());
        Self(Arc::new(Shared { node, runtime, state: Mutex::default(), arrived, crashed }))
    }

    /// Passes the inner node's [`connection`](LockNode::connection) on, with a new number after every loss.
    ///
    /// Without this there is none, since a connection promises that requests are carried out in the order in which they
    /// were sent, and a script may reorder them. An ordered node keeps the promise: what arrives behind a request that
    /// hangs hangs behind it, and faults that reorder are not taken.
    ///
    /// # Panics
    ///
    /// When a fault that reorders was injected before.
    #[must_use]
    pub fn ordered(self) -> Self {
        let mut state = self.state();
        assert!(!state.script.reorders(), "{NOT_ORDERED}");
        state.ordered = true;
        drop(state);
        self
    }

    /// Passes the inner node's [`watch`](LockNode::watch) on, which loses its changes when the node crashes.
    ///
    /// Without this there is none, and who waits asks again from time to time: so tests can count on when.
    #[must_use]
    pub fn watching(self) -> Self {
        self.state().watching = true;
        self
    }

    /// The node behind.
    pub fn inner(&self) -> &N {
        &self.0.node
    }

    /// Adds a fault for requests to come. A request meets one fault at most: of the counted ones that match it the first
    /// that was injected, else of the uncounted ones the last.
    ///
    /// # Panics
    ///
    /// When the node is [`ordered`](Faulty::ordered) and the fault reorders requests: a delay, or a late application.
    pub fn inject(&self, fault: Fault) {
        let mut state = self.state();
        assert!(!(state.ordered && fault.reorders()), "{NOT_ORDERED}");
        state.script.add(fault);
    }

    /// Forgets all faults. What is on its way or held back already stays so.
    pub fn clear_faults(&self) {
        self.state().script.clear();
    }

    /// Ends every hang and every holding of replies, and lets all that was held back go, oldest first. Returns when the
    /// inner node has carried out the last.
    ///
    /// # Cancel safety
    ///
    /// Dropped halfway, one request may have been carried out or not; what comes behind it stays held back.
    pub async fn resume(&self) {
        self.state().script.stop_holding();
        while self.let_go().await {}
    }

    /// Lets the oldest request or reply go that is held back, and leaves the fault in force. A request is carried out,
    /// also when its caller has stopped waiting; a reply that nobody waits for any more is passed over.
    ///
    /// `false` when nothing is held back.
    ///
    /// # Cancel safety
    ///
    /// As of [`resume`](Faulty::resume).
    pub async fn let_go(&self) -> bool {
        let held = self.state().pop_held();
        // The caller may have stopped waiting in either case: there is nobody to tell.
        match held {
            None => return false,
            Some(Held::Reply(reply)) => drop(reply.send(())),
            Some(Held::Request(request, reply)) => drop(reply.send(request.apply(&self.0.node).await)),
        }
        true
    }

    /// How many requests and replies are held back: what [`let_go`](Faulty::let_go) would let go one after the other.
    pub fn held(&self) -> usize {
        self.state().held_count()
    }

    /// Crashes: whoever waits for an answer hears that the outcome is unknown, what was on its way or held back is lost,
    /// and until [`restart`](Faulty::restart) the node is unavailable.
    pub fn crash(&self) {
        self.state().crash();
        self.0.crashed.notify(usize::MAX);
    }

    /// Comes back from a crash with all its data, and with its script.
    pub fn restart(&self) {
        self.state().down = false;
    }

    /// How many requests of an operation have arrived, however they ended.
    pub fn seen(&self, operation: Operation) -> u64 {
        self.state().seen(operation)
    }

    /// Waits until at least `count` requests of an operation have arrived since the beginning.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any time: it changes nothing.
    pub async fn reached(&self, operation: Operation, count: u64) {
        loop {
            let arrival = self.0.arrived.listen();
            if self.seen(operation) >= count {
                return;
            }
            arrival.await;
        }
    }

    async fn call(&self, request: Request) -> Answer {
        let (admission, crash) = {
            let mut state = self.state();
            (state.admit(request), self.0.crashed.listen())
        };
        self.0.arrived.notify(usize::MAX);
        first(self.answer(admission), async {
            crash.await;
            Err(connection_lost())
        })
        .await
    }

    async fn answer(&self, admission: Admission) -> Answer {
        match admission {
            Admission::Down => Err(NodeError::unavailable("connection refused")),
            Admission::Apply(request) => request.apply(&self.0.node).await,
            Admission::Hangs(answer) => answer.await.unwrap_or_else(|_| Err(connection_lost())),
            Admission::ReplyHeld(request, go) => {
                let answer = request.apply(&self.0.node).await;
                go.await.map_err(|_| connection_lost())?;
                answer
            }
            Admission::Fault(effect, request) => self.suffer(effect, request).await,
        }
    }

    async fn suffer(&self, effect: Effect, request: Request) -> Answer {
        match effect {
            Effect::Refuse => Ok(Vote::Refused(Refusal::default())),
            Effect::Fail(error) => Err(error),
            Effect::Delay(delay) => {
                self.0.runtime.sleep(delay).await;
                request.apply(&self.0.node).await
            }
            Effect::ApplyLate(delay) => self.apply_late(delay, request).await,
            Effect::DropRequest => pending().await,
            Effect::LoseReply => {
                drop(request.apply(&self.0.node).await);
                pending().await
            }
            Effect::Disconnect => {
                drop(request.apply(&self.0.node).await);
                self.state().connections_lost += 1;
                Err(connection_lost())
            }
            Effect::Miscount(counter) => match request.apply(&self.0.node).await {
                Ok(Vote::Counted(_)) => Ok(Vote::Counted(counter)),
                answer => answer,
            },
            Effect::Hang | Effect::HoldReply => unreachable!("admitted to the queue"),
        }
    }

    /// Hands the request to the background, where it goes on when the caller stops waiting.
    async fn apply_late(&self, delay: Duration, request: Request) -> Answer {
        let (reply, answer) = oneshot::channel();
        let (node, sent_before) = (self.clone(), self.state().crashes);
        self.0.runtime.spawn(Box::pin(async move {
            node.0.runtime.sleep(delay).await;
            if node.state().crashes == sent_before {
                // The caller may have stopped waiting: this is what the fault is for.
                drop(reply.send(request.apply(&node.0.node).await));
            }
        }));
        answer.await.unwrap_or_else(|_| Err(connection_lost()))
    }

    /// Nothing panics halfway through a change of the state but a refused fault, before the change.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl<N: LockNode> LockNode for Faulty<N> {
    fn label(&self) -> &str {
        self.0.node.label()
    }

    fn check(&self, resource: &Resource) -> Result<(), Error> {
        self.0.node.check(resource)
    }

    fn set_node_timeout(&self, timeout: Duration) {
        self.0.node.set_node_timeout(timeout);
    }

    async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        self.call(Request::Acquire(claim.clone(), ttl)).await
    }

    async fn extend(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        self.call(Request::Extend(claim.clone(), ttl)).await
    }

    async fn acquire_fenced(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        self.call(Request::AcquireFenced(claim.clone(), ttl)).await
    }

    async fn confirm(&self, claim: &Claim, ttl: Ttl, fence: FencingToken) -> Result<Vote, NodeError> {
        self.call(Request::Confirm(claim.clone(), ttl, fence)).await
    }

    async fn refill_fenced(&self, claim: &Claim, ttl: Ttl, fence: FencingToken) -> Result<Vote, NodeError> {
        self.call(Request::RefillFenced(claim.clone(), ttl, fence)).await
    }

    async fn release(&self, claim: &Claim) -> Result<Vote, NodeError> {
        self.call(Request::Release(claim.clone())).await
    }

    async fn inspect(&self, resource: &Resource) -> Result<Option<Holding>, NodeError> {
        self.call(Request::inspect(resource)).await.map(as_found)
    }

    async fn watch(&self, resource: &Resource) -> Result<Watch, NodeError> {
        if !self.capabilities().watch {
            return Err(NodeError::unsupported("watch"));
        }
        self.call(Request::watch(resource)).await?;
        let (watch, crash) = (self.0.node.watch(resource).await?, self.0.crashed.listen());
        Ok(Watch::new(watch.availability, first(watch.changed, crash)))
    }

    /// None, unless the node is [`ordered`](Faulty::ordered).
    fn connection(&self) -> Option<ConnectionId> {
        let inner = self.0.node.connection()?;
        self.state().connection(inner)
    }

    fn server(&self) -> Option<ServerId> {
        self.0.node.server()
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.0.node.capabilities();
        capabilities.watch &= self.state().watching;
        capabilities
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

fn connection_lost() -> NodeError {
    NodeError::unknown("the connection was lost")
}

/// Whichever is first; the left one where both are ready.
async fn first<T>(left: impl Future<Output = T>, right: impl Future<Output = T>) -> T {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|context| match left.as_mut().poll(context) {
        Poll::Pending => right.as_mut().poll(context),
        ready @ Poll::Ready(_) => ready,
    })
    .await
}
