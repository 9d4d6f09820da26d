//! The faults of requests, and the selection of the next one. Pure functions on values.

use std::collections::VecDeque;
use std::time::Duration;

use redlock_core::node::{NodeError, Operation, Request};
use redlock_core::{FencingToken, IntoResource};

use super::matcher::Matcher;
use crate::memory::name;

/// A fault of requests to a [`Faulty`](crate::Faulty) node.
///
/// It affects all requests until it is cleared, unless [`on`](Fault::on), [`of`](Fault::of) or [`times`](Fault::times)
/// restrict it.
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
    matcher: Matcher,
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
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// nodes.iter().for_each(|node| node.inject(Fault::deny()));
    /// let guard = redlock.lock("orders:42", ttl).try_now().await?;
    /// assert!(guard.is_none(), "as if another client held the lock");
    /// # });
    /// ```
    pub fn deny() -> Self {
        Self::new(Effect::Deny)
    }

    /// Returns an error reply and changes nothing, like a server that is out of memory.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// let full = Fault::reject().on(Operation::Extend);
    /// nodes.iter().for_each(|node| node.inject(full.clone()));
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// let error = guard.extend(ttl).await.unwrap_err();
    /// assert!(error.to_string().contains("OOM"), "the cause is in the message");
    /// # });
    /// ```
    pub fn reject() -> Self {
        Self::fail(NodeError::rejected("OOM command not allowed when used memory > 'maxmemory'."))
    }

    /// Fails at once: nothing can be sent.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// nodes[1..].iter().for_each(|node| node.inject(Fault::unavailable()));
    /// let error = redlock.lock("orders:42", ttl).try_now().await.unwrap_err();
    /// assert_eq!(ErrorKind::NoQuorum, error.kind());
    /// assert!(error.to_string().contains("connection refused"));
    /// # });
    /// ```
    pub fn unavailable() -> Self {
        Self::fail(NodeError::unavailable("connection refused"))
    }

    /// Returns this error; nothing is carried out.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, faulty, ttl| {
    /// let denied = NodeError::rejected("NOPERM no permissions to run 'evalsha'");
    /// faulty.inject(Fault::fail(denied));
    /// let error = redlock.lock("orders:42", ttl).try_now().await.unwrap_err();
    /// assert!(error.to_string().contains("NOPERM"));
    /// # });
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
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// let delay = Duration::from_millis(50);
    /// nodes.iter().for_each(|node| node.inject(Fault::delay(delay)));
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// assert!(guard.remaining() <= ttl - delay, "it counts from before the request");
    /// # });
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
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// nodes[0].inject(Fault::apply_late(Duration::from_millis(150)).once());
    /// let guard = redlock.lock("orders:42", ttl).await?; // by the other two nodes
    /// guard.release().await?; // overtakes the acquisition on the first node
    /// redlock.close().await; // waits for the cleanup
    /// assert!(nodes[0].inner().is_empty(), "the late key is deleted");
    /// # });
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
    /// # redlock_testkit::example!(|redlock, nodes| {
    /// nodes[0].inject(Fault::hang());
    /// let health = redlock.health().await;
    /// assert!(health.is_available(), "the other two nodes are a quorum");
    /// assert_eq!(2, health.healthy_nodes());
    /// # });
    /// ```
    pub fn hang() -> Self {
        Self::new(Effect::Hang)
    }

    /// Carries the request out at once, and holds the reply back.
    ///
    /// [`step`](crate::Faulty::step) or [`resume`](crate::Faulty::resume) releases it.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// nodes[0].inject(Fault::hold_reply().once());
    /// let _guard = redlock.lock("orders:42", ttl).await?; // by the other two nodes
    /// assert!(nodes[0].inner().holder("orders:42").is_some(), "carried out");
    /// assert!(nodes[0].step().await, "the reply comes late");
    /// # });
    /// ```
    pub fn hold_reply() -> Self {
        Self::new(Effect::HoldReply)
    }

    /// Loses the request: it is never carried out and never gets a reply.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// nodes.iter().for_each(|node| node.inject(Fault::drop_request().once()));
    /// let _guard = redlock.lock("orders:42", ttl).await?; // at the second attempt
    /// let counts = nodes.iter().map(|node| node.request_count(Operation::Acquire));
    /// assert_eq!([2, 2, 2], counts.collect::<Vec<_>>()[..]);
    /// # });
    /// ```
    pub fn drop_request() -> Self {
        Self::new(Effect::DropRequest)
    }

    /// Carries the request out and loses the reply.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// nodes[1..].iter().for_each(|node| node.inject(Fault::lose_reply().once()));
    /// let result = redlock.lock("orders:42", ttl).try_now().await;
    /// assert!(result.is_err(), "one reply of three");
    /// redlock.close().await;
    /// assert!(nodes.iter().all(|node| node.inner().is_empty()), "cleaned up");
    /// # });
    /// ```
    pub fn lose_reply() -> Self {
        Self::new(Effect::LoseReply)
    }

    /// Carries the request out and loses the connection before the reply.
    ///
    /// The caller gets an error with unknown outcome at once.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, faulty, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// faulty.inject(Fault::disconnect().on(Operation::Extend).once());
    /// let error = guard.extend(ttl).await.unwrap_err();
    /// assert_eq!(ErrorKind::NoQuorum, error.kind());
    /// guard.extend(ttl).await?; // a second try
    /// # });
    /// ```
    pub fn disconnect() -> Self {
        Self::new(Effect::Disconnect)
    }

    /// Carries the request out, and replaces the counter of a fenced grant.
    ///
    /// It simulates a server whose clock is wrong, or that lies.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// nodes.iter().for_each(|node| node.inner().count_from_one());
    /// nodes[0].inject(Fault::miscount(FencingToken::MAX));
    /// let guard = redlock.lock("orders:42", ttl).fenced().await?;
    /// let others = FencingToken::new(1);
    /// assert_eq!(others, guard.fencing_token(), "a quorum agrees on 1");
    /// # });
    /// ```
    pub fn miscount(counter: FencingToken) -> Self {
        Self::new(Effect::Miscount(counter))
    }

    /// Restricts the fault to requests of this operation.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, faulty, ttl| {
    /// faulty.inject(Fault::reject().on(Operation::Extend));
    /// let guard = redlock.lock("orders:42", ttl).await?;
    /// assert!(guard.extend(ttl).await.is_err());
    /// guard.release().await?;
    /// # });
    /// ```
    pub fn on(mut self, operation: Operation) -> Self {
        self.matcher.operation = Some(operation);
        self
    }

    /// Restricts the fault to requests of this resource.
    ///
    /// A request of several resources matches if it names this one.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_testkit::{Fault, block_on, fake_redlock};
    /// # let ttl = Duration::from_secs(10);
    /// let (redlock, nodes) = fake_redlock(3);
    /// nodes.iter().for_each(|node| node.inject(Fault::deny().of("orders:42")));
    /// assert!(block_on(redlock.lock("orders:42", ttl).try_now())?.is_none());
    /// assert!(block_on(redlock.lock("orders:43", ttl).try_now())?.is_some());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name is invalid.
    pub fn of(mut self, resource: impl IntoResource) -> Self {
        self.matcher.resource = Some(name(resource));
        self
    }

    /// Restricts the fault to the next `count` matching requests.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, nodes, ttl| {
    /// let twice = Fault::deny().on(Operation::Acquire).times(2);
    /// nodes.iter().for_each(|node| node.inject(twice.clone()));
    /// let _guard = redlock.lock("orders:42", ttl).await?; // at the third attempt
    /// assert_eq!(3, nodes[0].request_count(Operation::Acquire));
    /// # });
    /// ```
    pub fn times(mut self, count: u32) -> Self {
        self.left = Some(count);
        self
    }

    /// Restricts the fault to the next matching request.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, faulty, ttl| {
    /// faulty.inject(Fault::deny().once());
    /// assert!(redlock.lock("orders:42", ttl).try_now().await?.is_none());
    /// assert!(redlock.lock("orders:42", ttl).try_now().await?.is_some());
    /// # });
    /// ```
    pub fn once(self) -> Self {
        self.times(1)
    }

    fn new(effect: Effect) -> Self {
        Self { effect, matcher: Matcher::default(), left: None }
    }

    pub(super) fn reorders(&self) -> bool {
        matches!(self.effect, Effect::Delay(_) | Effect::ApplyLate(_))
    }

    fn matches(&self, request: &Request) -> bool {
        let has_no_denial =
            matches!(request.operation(), Operation::Inspect | Operation::Watch | Operation::Vouch);
        !(has_no_denial && matches!(self.effect, Effect::Deny)) && self.matcher.matches(request)
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

    pub(super) fn next(&mut self, request: &Request) -> Option<Effect> {
        if let Some(position) = self.counted.iter().position(|fault| fault.matches(request)) {
            let fault = &mut self.counted[position];
            fault.left = fault.left.map(|left| left - 1);
            let effect = fault.effect.clone();
            if fault.left == Some(0) {
                self.counted.remove(position);
            }
            return Some(effect);
        }
        self.lasting.iter().rfind(|fault| fault.matches(request)).map(|fault| fault.effect.clone())
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
    use redlock_core::IntoResources;
    use redlock_core::node::{Claim, Token, Ttl};

    use super::*;

    fn effect_of(script: &mut Script, operation: Operation) -> &'static str {
        let resource = name("a");
        let claim = Claim::new((&resource).into_resources().unwrap(), Token::from_bytes("t"));
        let request = match operation {
            Operation::Extend => Request::Extend(claim, Ttl::MAX),
            Operation::Release => Request::Release(claim),
            Operation::Inspect => Request::Inspect(resource),
            Operation::Watch => Request::Watch(resource),
            _ => Request::Acquire(claim, Ttl::MAX),
        };
        match script.next(&request) {
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
    fn a_fault_of_one_resource_does_not_affect_others() {
        let mut script = Script::default();
        script.add(Fault::deny().of("b"));
        assert_eq!("nothing", effect_of(&mut script, Operation::Acquire));
        script.add(Fault::deny().of("a").on(Operation::Extend));
        assert_eq!("nothing", effect_of(&mut script, Operation::Acquire));
        assert_eq!("deny", effect_of(&mut script, Operation::Extend));
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
