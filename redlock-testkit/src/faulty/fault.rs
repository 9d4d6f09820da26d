//! The faults of requests, and the selection of the next one. Pure functions on values.

use std::collections::VecDeque;
use std::time::Duration;

use redlock_core::FencingToken;
use redlock_core::node::NodeError;

use crate::request::Operation;

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
    /// A release returns `false`, as if the node did not have the lock. Inspections and watches are not affected, because
    /// they cannot be denied.
    pub fn deny() -> Self {
        Self::new(Effect::Deny)
    }

    /// Returns an error reply and changes nothing, like a server that is out of memory.
    pub fn reject() -> Self {
        Self::fail(NodeError::rejected("OOM command not allowed when used memory > 'maxmemory'."))
    }

    /// Fails at once: nothing can be sent.
    pub fn unavailable() -> Self {
        Self::fail(NodeError::unavailable("connection refused"))
    }

    /// Returns this error; nothing is carried out.
    pub fn fail(error: NodeError) -> Self {
        Self::new(Effect::Fail(error))
    }

    /// Delays the sending of the request, which is then carried out.
    ///
    /// A request whose caller stops waiting before that is never carried out. See [`apply_late`](Fault::apply_late) for
    /// one that cannot be canceled.
    pub fn delay(delay: Duration) -> Self {
        Self::new(Effect::Delay(delay))
    }

    /// Delays the request on its way, and then carries it out in any case.
    ///
    /// The caller gets the reply if it still waits.
    pub fn apply_late(delay: Duration) -> Self {
        Self::new(Effect::ApplyLate(delay))
    }

    /// Makes the node hang, like a server that was stopped with `SIGSTOP`.
    ///
    /// Requests are neither carried out nor get a reply. [`resume`](crate::Faulty::resume) carries them all out in the
    /// order in which they were sent, even if their callers have stopped waiting.
    pub fn hang() -> Self {
        Self::new(Effect::Hang)
    }

    /// Carries the request out at once, and holds the reply back.
    ///
    /// [`step`](crate::Faulty::step) or [`resume`](crate::Faulty::resume) releases it.
    pub fn hold_reply() -> Self {
        Self::new(Effect::HoldReply)
    }

    /// Loses the request: it is never carried out and never gets a reply.
    pub fn drop_request() -> Self {
        Self::new(Effect::DropRequest)
    }

    /// Carries the request out and loses the reply.
    pub fn lose_reply() -> Self {
        Self::new(Effect::LoseReply)
    }

    /// Carries the request out and loses the connection before the reply.
    ///
    /// The caller gets an error with unknown outcome at once.
    pub fn disconnect() -> Self {
        Self::new(Effect::Disconnect)
    }

    /// Carries the request out, and replaces the counter of a fenced grant.
    ///
    /// It simulates a server whose clock is wrong, or that lies.
    pub fn miscount(counter: FencingToken) -> Self {
        Self::new(Effect::Miscount(counter))
    }

    /// Restricts the fault to requests of this operation.
    pub fn on(mut self, operation: Operation) -> Self {
        self.only = Some(operation);
        self
    }

    /// Restricts the fault to the next `count` matching requests.
    pub fn times(mut self, count: u32) -> Self {
        self.left = Some(count);
        self
    }

    /// Restricts the fault to the next matching request.
    pub fn once(self) -> Self {
        self.times(1)
    }

    fn new(effect: Effect) -> Self {
        Self { effect, only: None, left: None }
    }

    pub(super) fn reorders(&self) -> bool {
        matches!(self.effect, Effect::Delay(_) | Effect::ApplyLate(_))
    }

    fn strikes(&self, operation: Operation) -> bool {
        let is_read = matches!(operation, Operation::Inspect | Operation::Watch);
        !(is_read && matches!(self.effect, Effect::Deny)) && self.only.is_none_or(|only| only == operation)
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
        if let Some(position) = self.counted.iter().position(|fault| fault.strikes(operation)) {
            let fault = &mut self.counted[position];
            fault.left = fault.left.map(|left| left - 1);
            let effect = fault.effect.clone();
            if fault.left == Some(0) {
                self.counted.remove(position);
            }
            return Some(effect);
        }
        self.lasting.iter().rfind(|fault| fault.strikes(operation)).map(|fault| fault.effect.clone())
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

    fn strikes(script: &mut Script, operation: Operation) -> &'static str {
        match script.next(operation) {
            None => "nothing",
            Some(Effect::Deny) => "deny",
            Some(Effect::Hang) => "hang",
            Some(Effect::LoseReply) => "lose reply",
            other => panic!("{other:?} was never injected"),
        }
    }

    #[test]
    fn counted_faults_come_first_in_their_order_then_the_last_lasting_one() {
        let mut script = Script::default();
        script.add(Fault::hang());
        script.add(Fault::lose_reply());
        script.add(Fault::deny().times(2));
        script.add(Fault::hang().once());
        let four: Vec<_> = (0..5).map(|_| strikes(&mut script, Operation::Acquire)).collect();
        assert_eq!(vec!["deny", "deny", "hang", "lose reply", "lose reply"], four);
        script.clear();
        assert_eq!("nothing", strikes(&mut script, Operation::Acquire));
    }

    #[test]
    fn a_fault_on_one_operation_spares_the_others() {
        let mut script = Script::default();
        script.add(Fault::deny().on(Operation::Release).once());
        assert_eq!("nothing", strikes(&mut script, Operation::Acquire));
        assert_eq!("nothing", strikes(&mut script, Operation::Extend));
        assert_eq!("deny", strikes(&mut script, Operation::Release));
        assert_eq!("nothing", strikes(&mut script, Operation::Release));
    }

    #[test]
    fn inspections_and_watches_are_never_denied() {
        let mut script = Script::default();
        script.add(Fault::deny());
        assert_eq!("nothing", strikes(&mut script, Operation::Inspect));
        assert_eq!("nothing", strikes(&mut script, Operation::Watch));
        script.add(Fault::hang());
        assert_eq!("hang", strikes(&mut script, Operation::Inspect));
    }

    #[test]
    fn no_times_is_no_fault() {
        let mut script = Script::default();
        script.add(Fault::deny().times(0));
        assert_eq!("nothing", strikes(&mut script, Operation::Acquire));
    }
}
