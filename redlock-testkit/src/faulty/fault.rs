//! The faults of requests, and the selection of the next one. Pure functions on values.

use std::collections::VecDeque;
use std::time::Duration;

use redlock_core::FencingToken;
use redlock_core::node::{NodeError, Operation};

/// A fault of requests to a [`Faulty`](crate::Faulty) node.
///
/// It affects all requests until it is cleared, unless [`times`](Fault::times) or [`on`](Fault::on) restrict it.
///
/// ```
/// use redlock_testkit::{Fault, Operation};
///
/// let one_reply_is_lost = Fault::lose_reply().on(Operation::Acquire).once();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a fault does nothing until it is injected"]
pub struct Fault {
    effect: Effect,
    only: Option<Operation>,
    left: Option<u32>,
}

#[derive(Clone, Debug)]
pub(super) enum Effect {
    Deny,
    Fail(NodeError),
    Delay(Duration),
    ApplyLate(Duration),
    Hang,
    HoldReply,
    DropRequest,
    LoseReply,
    Disconnect,
    Miscount(FencingToken),
}

impl Fault {
    /// Denies the request and changes nothing.
    ///
    /// A release returns `false`, as if the node did not have the lock. Inspections, watches and
    /// [`Vouch`](redlock_core::node::Request::Vouch) are not affected, because they cannot be denied.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{Fault, ThreadRuntime, block_on, fake_nodes};
    /// # let nodes = fake_nodes(3, Arc::new(ThreadRuntime));
    /// # let redlock = Redlock::builder(ThreadRuntime).nodes(nodes.iter().cloned().map(Into::into)).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// nodes.iter().for_each(|node| node.inject(Fault::deny()));
    /// let guard = block_on(redlock.lock("orders:42", ttl).try_now())?;
    /// assert!(guard.is_none(), "as if another client held the lock");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn deny() -> Self {
        Self::new(Effect::Deny)
    }

    /// Returns an error reply and changes nothing, like a server that is out of memory.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{Fault, Operation, ThreadRuntime, block_on, fake_nodes};
    /// # let nodes = fake_nodes(3, Arc::new(ThreadRuntime));
    /// # let redlock = Redlock::builder(ThreadRuntime).nodes(nodes.iter().cloned().map(Into::into)).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let full = Fault::reject().on(Operation::Extend);
    /// nodes.iter().for_each(|node| node.inject(full.clone()));
    /// let guard = block_on(redlock.lock("orders:42", ttl))?;
    /// let error = block_on(guard.extend(ttl)).unwrap_err();
    /// assert!(error.to_string().contains("OOM"), "the cause is in the message");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn reject() -> Self {
        Self::fail(NodeError::rejected("OOM command not allowed when used memory > 'maxmemory'."))
    }

    /// Fails at once: nothing can be sent.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_core::{ErrorKind, Redlock};
    /// # use redlock_testkit::{Fault, ThreadRuntime, block_on, fake_nodes};
    /// # let nodes = fake_nodes(3, Arc::new(ThreadRuntime));
    /// # let redlock = Redlock::builder(ThreadRuntime).nodes(nodes.iter().cloned().map(Into::into)).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// nodes[1..].iter().for_each(|node| node.inject(Fault::unavailable()));
    /// let error = block_on(redlock.lock("orders:42", ttl).try_now()).unwrap_err();
    /// assert_eq!(ErrorKind::NoQuorum, error.kind());
    /// assert!(error.to_string().contains("connection refused"));
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn unavailable() -> Self {
        Self::fail(NodeError::unavailable("connection refused"))
    }

    /// Returns this error; nothing is carried out.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_core::Redlock;
    /// # use redlock_core::node::{NodeError, Operation};
    /// # use redlock_testkit::{FakeNode, Fault, ThreadRuntime, block_on};
    /// # let node = FakeNode::new("fake-1", Arc::new(ThreadRuntime));
    /// # let redlock = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let denied = NodeError::rejected("NOPERM no permissions to run 'evalsha'");
    /// node.inject(Fault::fail(denied));
    /// let error = block_on(redlock.lock("orders:42", ttl).try_now()).unwrap_err();
    /// assert!(error.to_string().contains("NOPERM"));
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn fail(error: NodeError) -> Self {
        Self::new(Effect::Fail(error))
    }

    /// Delays the sending of the request, which is then carried out.
    ///
    /// A request whose caller stops waiting before that is never carried out. See [`apply_late`](Fault::apply_late) for
    /// one that cannot be canceled.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{Fault, fake_nodes, sim::Simulation};
    /// # let simulation = Simulation::new(42);
    /// # let service = simulation.process("service");
    /// # let nodes = fake_nodes(3, service.runtime());
    /// # let redlock = Redlock::builder(service.clone()).nodes(nodes.iter().cloned().map(Into::into)).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # simulation.block_on(&service.clone(), async move {
    /// let delay = Duration::from_millis(50);
    /// nodes.iter().for_each(|node| node.inject(Fault::delay(delay)));
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// assert!(guard.remaining() <= ttl - delay, "it counts from before the request");
    /// # Ok::<(), redlock_core::Error>(()) })?; Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn delay(delay: Duration) -> Self {
        Self::new(Effect::Delay(delay))
    }

    /// Delays the request on its way, and then carries it out in any case.
    ///
    /// The caller gets the reply if it still waits. The cleanup of a lock ends when the node has replied to two releases
    /// that are at least a node timeout apart. The key of a request that is carried out later remains until its TTL ends.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{Fault, fake_nodes, sim::Simulation};
    /// # let simulation = Simulation::new(42);
    /// # let service = simulation.process("service");
    /// # let nodes = fake_nodes(3, service.runtime());
    /// # let redlock = Redlock::builder(service.clone()).nodes(nodes.iter().cloned().map(Into::into)).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # simulation.block_on(&service.clone(), async move {
    /// nodes[0].inject(Fault::apply_late(Duration::from_millis(150)).once());
    /// let guard = redlock.lock("orders:42", ttl).await?; // by the other two nodes
    /// guard.release().await?; // overtakes the acquisition on the first node
    /// redlock.close().await; // waits for the cleanup
    /// assert!(nodes[0].inner().is_empty(), "the late key is deleted");
    /// # Ok::<(), redlock_core::Error>(()) })?; Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn apply_late(delay: Duration) -> Self {
        Self::new(Effect::ApplyLate(delay))
    }

    /// Makes the node hang, like a server that was stopped with `SIGSTOP`.
    ///
    /// Requests are neither carried out nor get a reply. [`resume`](crate::Faulty::resume) carries them all out in the
    /// order in which they were sent, even if their callers have stopped waiting.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{Fault, fake_nodes, sim::Simulation};
    /// # let simulation = Simulation::new(42);
    /// # let service = simulation.process("service");
    /// # let nodes = fake_nodes(3, service.runtime());
    /// # let redlock = Redlock::builder(service.clone()).nodes(nodes.iter().cloned().map(Into::into)).build()?;
    /// # simulation.block_on(&service.clone(), async move {
    /// nodes[0].inject(Fault::hang());
    /// let health = redlock.health().await;
    /// assert!(health.is_available(), "the other two nodes are a quorum");
    /// assert_eq!(2, health.healthy_nodes());
    /// # Ok::<(), redlock_core::Error>(()) })?; Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn hang() -> Self {
        Self::new(Effect::Hang)
    }

    /// Carries the request out at once, and holds the reply back.
    ///
    /// [`step`](crate::Faulty::step) or [`resume`](crate::Faulty::resume) releases it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{Fault, fake_nodes, sim::Simulation};
    /// # let simulation = Simulation::new(42);
    /// # let service = simulation.process("service");
    /// # let nodes = fake_nodes(3, service.runtime());
    /// # let redlock = Redlock::builder(service.clone()).nodes(nodes.iter().cloned().map(Into::into)).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # simulation.block_on(&service.clone(), async move {
    /// nodes[0].inject(Fault::hold_reply().once());
    /// let _guard = redlock.lock("orders:42", ttl).await?; // by the other two nodes
    /// assert!(nodes[0].inner().holder("orders:42").is_some(), "carried out");
    /// assert!(nodes[0].step().await, "the reply comes late");
    /// # Ok::<(), redlock_core::Error>(()) })?; Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn hold_reply() -> Self {
        Self::new(Effect::HoldReply)
    }

    /// Loses the request: it is never carried out and never gets a reply.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{Fault, Operation, fake_nodes, sim::Simulation};
    /// # let simulation = Simulation::new(42);
    /// # let service = simulation.process("service");
    /// # let nodes = fake_nodes(3, service.runtime());
    /// # let redlock = Redlock::builder(service.clone()).nodes(nodes.iter().cloned().map(Into::into)).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # simulation.block_on(&service.clone(), async move {
    /// nodes.iter().for_each(|node| node.inject(Fault::drop_request().once()));
    /// let _guard = redlock.lock("orders:42", ttl).await?; // at the second attempt
    /// let counts = nodes.iter().map(|node| node.request_count(Operation::Acquire));
    /// assert_eq!([2, 2, 2], counts.collect::<Vec<_>>()[..]);
    /// # Ok::<(), redlock_core::Error>(()) })?; Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn drop_request() -> Self {
        Self::new(Effect::DropRequest)
    }

    /// Carries the request out and loses the reply.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{Fault, fake_nodes, sim::Simulation};
    /// # let simulation = Simulation::new(42);
    /// # let service = simulation.process("service");
    /// # let nodes = fake_nodes(3, service.runtime());
    /// # let redlock = Redlock::builder(service.clone()).nodes(nodes.iter().cloned().map(Into::into)).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # simulation.block_on(&service.clone(), async move {
    /// nodes[1..].iter().for_each(|node| node.inject(Fault::lose_reply().once()));
    /// let result = redlock.lock("orders:42", ttl).try_now().await;
    /// assert!(result.is_err(), "one reply of three");
    /// redlock.close().await;
    /// assert!(nodes.iter().all(|node| node.inner().is_empty()), "cleaned up");
    /// # Ok::<(), redlock_core::Error>(()) })?; Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn lose_reply() -> Self {
        Self::new(Effect::LoseReply)
    }

    /// Carries the request out and loses the connection before the reply.
    ///
    /// The caller gets an error with unknown outcome at once.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_core::{ErrorKind, Redlock};
    /// # use redlock_testkit::{FakeNode, Fault, Operation, ThreadRuntime, block_on};
    /// # let node = FakeNode::new("fake-1", Arc::new(ThreadRuntime));
    /// # let redlock = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = block_on(redlock.lock("orders:42", ttl))?;
    /// node.inject(Fault::disconnect().on(Operation::Extend).once());
    /// let error = block_on(guard.extend(ttl)).unwrap_err();
    /// assert_eq!(ErrorKind::NoQuorum, error.kind());
    /// block_on(guard.extend(ttl))?; // a second try
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn disconnect() -> Self {
        Self::new(Effect::Disconnect)
    }

    /// Carries the request out, and replaces the counter of a fenced grant.
    ///
    /// It simulates a server whose clock is wrong, or that lies.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_core::{FencingToken, Redlock};
    /// # use redlock_testkit::{Fault, ThreadRuntime, block_on, fake_nodes};
    /// # let nodes = fake_nodes(3, Arc::new(ThreadRuntime));
    /// # let redlock = Redlock::builder(ThreadRuntime).nodes(nodes.iter().cloned().map(Into::into)).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// nodes.iter().for_each(|node| node.inner().count_from_one());
    /// nodes[0].inject(Fault::miscount(FencingToken::MAX));
    /// let guard = block_on(redlock.lock("orders:42", ttl).fenced())?;
    /// let others = FencingToken::new(1);
    /// assert_eq!(others, guard.fencing_token(), "a quorum agrees on 1");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn miscount(counter: FencingToken) -> Self {
        Self::new(Effect::Miscount(counter))
    }

    /// Restricts the fault to requests of this operation.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{FakeNode, Fault, Operation, ThreadRuntime, block_on};
    /// # let node = FakeNode::new("fake-1", Arc::new(ThreadRuntime));
    /// # let redlock = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// node.inject(Fault::reject().on(Operation::Extend));
    /// let guard = block_on(redlock.lock("orders:42", ttl))?;
    /// assert!(block_on(guard.extend(ttl)).is_err());
    /// block_on(guard.release())?;
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn on(mut self, operation: Operation) -> Self {
        self.only = Some(operation);
        self
    }

    /// Restricts the fault to the next `count` matching requests.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{Fault, Operation, fake_nodes, sim::Simulation};
    /// # let simulation = Simulation::new(42);
    /// # let service = simulation.process("service");
    /// # let nodes = fake_nodes(3, service.runtime());
    /// # let redlock = Redlock::builder(service.clone()).nodes(nodes.iter().cloned().map(Into::into)).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # simulation.block_on(&service.clone(), async move {
    /// let twice = Fault::deny().on(Operation::Acquire).times(2);
    /// nodes.iter().for_each(|node| node.inject(twice.clone()));
    /// let _guard = redlock.lock("orders:42", ttl).await?; // at the third attempt
    /// assert_eq!(3, nodes[0].request_count(Operation::Acquire));
    /// # Ok::<(), redlock_core::Error>(()) })?; Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn times(mut self, count: u32) -> Self {
        self.left = Some(count);
        self
    }

    /// Restricts the fault to the next matching request.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{FakeNode, Fault, ThreadRuntime, block_on};
    /// # let node = FakeNode::new("fake-1", Arc::new(ThreadRuntime));
    /// # let redlock = Redlock::builder(ThreadRuntime).node(node.clone()).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// node.inject(Fault::deny().once());
    /// assert!(block_on(redlock.lock("orders:42", ttl).try_now())?.is_none());
    /// assert!(block_on(redlock.lock("orders:42", ttl).try_now())?.is_some());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn once(self) -> Self {
        self.times(1)
    }

    fn new(effect: Effect) -> Self {
        Self { effect, only: None, left: None }
    }

    pub(super) fn reorders(&self) -> bool {
        matches!(self.effect, Effect::Delay(_) | Effect::ApplyLate(_))
    }

    fn matches(&self, operation: Operation) -> bool {
        let has_no_denial = matches!(operation, Operation::Inspect | Operation::Watch | Operation::Vouch);
        !(has_no_denial && matches!(self.effect, Effect::Deny))
            && self.only.is_none_or(|only| only == operation)
    }
}

/// The injected faults. A request meets at most one fault: the first matching counted one, or else the last matching
/// uncounted one.
#[derive(Debug, Default)]
pub(super) struct Script {
    counted: VecDeque<Fault>,
    lasting: Vec<Fault>,
}

impl Script {
    pub(super) fn add(&mut self, fault: Fault) {
        match fault.left {
            Some(0) => {}
            Some(_) => self.counted.push_back(fault),
            None => self.lasting.push(fault),
        }
    }

    pub(super) fn next(&mut self, operation: Operation) -> Option<Effect> {
        if let Some(position) = self.counted.iter().position(|fault| fault.matches(operation)) {
            let fault = &mut self.counted[position];
            fault.left = fault.left.map(|left| left - 1);
            let effect = fault.effect.clone();
            if fault.left == Some(0) {
                self.counted.remove(position);
            }
            return Some(effect);
        }
        self.lasting.iter().rfind(|fault| fault.matches(operation)).map(|fault| fault.effect.clone())
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Removes the faults that hold requests or replies back.
    pub(super) fn stop_holding(&mut self) {
        let holds = |fault: &Fault| matches!(fault.effect, Effect::Hang | Effect::HoldReply);
        self.counted.retain(|fault| !holds(fault));
        self.lasting.retain(|fault| !holds(fault));
    }

    pub(super) fn reorders(&self) -> bool {
        self.counted.iter().chain(&self.lasting).any(Fault::reorders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect_of(script: &mut Script, operation: Operation) -> &'static str {
        match script.next(operation) {
            None => "nothing",
            Some(Effect::Deny) => "deny",
            Some(Effect::Hang) => "hang",
            Some(Effect::LoseReply) => "lose reply",
            other => panic!("{other:?} was never injected"),
        }
    }

    #[test]
    fn counted_faults_apply_in_their_order_before_the_last_lasting_one() {
        let mut script = Script::default();
        script.add(Fault::hang());
        script.add(Fault::lose_reply());
        script.add(Fault::deny().times(2));
        script.add(Fault::hang().once());
        let four: Vec<_> = (0..5).map(|_| effect_of(&mut script, Operation::Acquire)).collect();
        assert_eq!(vec!["deny", "deny", "hang", "lose reply", "lose reply"], four);
        script.clear();
        assert_eq!("nothing", effect_of(&mut script, Operation::Acquire));
    }

    #[test]
    fn a_fault_on_one_operation_does_not_affect_others() {
        let mut script = Script::default();
        script.add(Fault::deny().on(Operation::Release).once());
        assert_eq!("nothing", effect_of(&mut script, Operation::Acquire));
        assert_eq!("nothing", effect_of(&mut script, Operation::Extend));
        assert_eq!("deny", effect_of(&mut script, Operation::Release));
        assert_eq!("nothing", effect_of(&mut script, Operation::Release));
    }

    #[test]
    fn inspections_and_watches_are_never_denied() {
        let mut script = Script::default();
        script.add(Fault::deny());
        assert_eq!("nothing", effect_of(&mut script, Operation::Inspect));
        assert_eq!("nothing", effect_of(&mut script, Operation::Watch));
        script.add(Fault::hang());
        assert_eq!("hang", effect_of(&mut script, Operation::Inspect));
    }

    #[test]
    fn zero_times_is_no_fault() {
        let mut script = Script::default();
        script.add(Fault::deny().times(0));
        assert_eq!("nothing", effect_of(&mut script, Operation::Acquire));
    }
}
