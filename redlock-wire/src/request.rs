//! The request that a round sends to every node: the same for each, one right after the other, from one thread.
//!
//! Each thread therefore keeps the last request in the client's packed form. It is packed once for all nodes, and no
//! caller has to pass it on.

use std::borrow::Cow;
use std::sync::Arc;

use redlock_core::{Claim, FencingToken, NodeError, Ttl, Vote};

use crate::connection::{Command, Connection, Failure, Reply};
use crate::options::{Keys, Options};
use crate::reply::{self, unanswered};
use crate::script::{Script, ScriptArgs, is_unknown, key};
use crate::secret::Secret;
use crate::{commands, fence};

/// An operation on a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Sets a single resource to the token, if the key is absent. A plain command, not a script.
    Set,
    /// Sets every resource to the token, or none.
    Acquire,
    /// Raises the TTL of every resource to at least this long, if all hold the token.
    Extend,
    /// Deletes the keys that hold the token.
    Release,
    /// Sets every resource to the token, or none, and advances the fencing counters.
    AcquireFenced,
    /// Raises every TTL to at least this long, and every counter to the fencing token.
    ///
    /// Requires that all resources hold the token and no counter is greater.
    Confirm,
    /// Sets absent resources to the token and every counter to the fencing token. Requires that no resource belongs to
    /// another claim and no counter is greater.
    Refill,
}

/// One operation on one claim.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) verb: Op,
    pub(crate) claim: &'a Claim,
    /// `None` for operations that set nothing.
    pub(crate) ttl: Option<Ttl>,
    pub(crate) fence: Option<FencingToken>,
    pub(crate) options: &'a Options,
}

impl<'a> Request<'a> {
    /// Returns the request in the client's packed form. `set_get`: whether the server supports `SET .. NX GET`.
    pub(crate) fn packed<C: Connection>(&self, set_get: bool) -> C::Packed {
        C::last(|last| last.or_pack(self, set_get, || self.pack::<C>(set_get)))
    }

    fn pack<C: Connection>(&self, set_get: bool) -> C::Packed {
        match self.verb {
            Op::Set => C::pack(Command::SetIfAbsent {
                key: &self.key(),
                value: self.claim.token().as_bytes(),
                millis: self.ttl.map_or(0, Ttl::as_millis),
                get: set_get,
            }),
            _ => self.script_args().call::<C>("EVALSHA", &self.script().sha),
        }
    }

    /// Returns the follow-up request, if the first reply is not sufficient.
    pub(crate) fn again<C: Connection>(
        &self,
        reply: &Result<Reply, Failure>,
        set_get: bool,
    ) -> Option<C::Packed> {
        match (self.verb, reply) {
            // Nothing was set. `GET` distinguishes another holder from a replay of this claim.
            (Op::Set, Ok(Reply::Nil)) if !set_get => {
                Some(C::pack(Command::Other { name: "GET", args: &[&self.key()] }))
            }
            (Op::Set, _) => None,
            (_, reply) if is_unknown(reply) => Some(self.script_args().call::<C>("EVAL", self.script().text)),
            _ => None,
        }
    }

    /// Interprets the reply. `again`: whether it is the reply to the follow-up request.
    pub(crate) fn vote(
        &self,
        reply: Result<Reply, Failure>,
        set_get: bool,
        again: bool,
    ) -> Result<Vote, NodeError> {
        let (reply, claim) = (reply.map_err(|failure| unanswered(&failure))?, self.claim);
        let reply = match reply {
            Reply::Error(message) => {
                // The error may repeat the arguments.
                let token = std::str::from_utf8(claim.token().as_bytes()).ok();
                Reply::Error(Secret::of(token).hidden(&message).into_owned())
            }
            reply => reply,
        };
        match self.verb {
            Op::Set if set_get => reply::set_get(reply, claim),
            Op::Set if again => reply::get(reply, claim),
            Op::Set => reply::set(&reply),
            Op::Acquire | Op::Extend | Op::Release => reply::verdict(&reply, claim),
            Op::AcquireFenced => reply::counted(&reply, claim),
            Op::Confirm | Op::Refill => reply::confirmed(&reply, claim),
        }
    }

    /// Returns the key of a claim on one resource.
    fn key(&self) -> Cow<'a, [u8]> {
        key(&self.options.keys.prefix, &self.claim.resources()[0]) // a claim has at least one
    }

    fn script(&self) -> &'static Script {
        match self.verb {
            // A single resource may also be set by the script.
            Op::Set | Op::Acquire => &commands::ACQUIRE,
            Op::Extend => &commands::EXTEND,
            Op::Release => &commands::RELEASE,
            Op::AcquireFenced => &fence::ACQUIRE,
            Op::Confirm => &fence::CONFIRM,
            Op::Refill => &fence::REFILL,
        }
    }

    fn script_args(&self) -> ScriptArgs<'a> {
        match self.verb {
            Op::Set | Op::Acquire | Op::Extend | Op::Release => {
                ScriptArgs::claim(&self.options.keys.prefix, self.claim, self.ttl)
            }
            Op::AcquireFenced | Op::Confirm | Op::Refill => fence::script_args(self),
        }
    }
}

/// The last request that a thread packed, in the client's packed form.
pub struct Last<P>(Option<Kept<P>>);

/// The limit in bytes on the names of a kept request: the thread keeps it until its next request.
const KEPT: usize = 64 * 1024;

struct Kept<P> {
    verb: Op,
    set_get: bool,
    claim: Claim,
    ttl: Option<Ttl>,
    fence: Option<FencingToken>,
    keys: Arc<Keys>,
    packed: P,
}

impl<P: Clone> Last<P> {
    /// Returns an empty cache.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    fn or_pack(&mut self, asked: &Request<'_>, set_get: bool, pack: impl FnOnce() -> P) -> P {
        match &self.0 {
            Some(kept) if kept.is(asked, set_get) => kept.packed.clone(),
            _ => {
                let packed = pack();
                let names = asked.claim.resources().iter().map(|resource| resource.as_bytes().len());
                self.0 = (names.sum::<usize>() <= KEPT).then(|| Kept::of(asked, set_get, packed.clone()));
                packed
            }
        }
    }
}

impl<P> Kept<P> {
    fn of(asked: &Request<'_>, set_get: bool, packed: P) -> Self {
        let Request { verb, claim, ttl, fence, options } = *asked;
        Self { verb, set_get, claim: claim.clone(), ttl, fence, keys: Arc::clone(&options.keys), packed }
    }

    fn is(&self, asked: &Request<'_>, set_get: bool) -> bool {
        let Request { verb, claim, ttl, fence, options } = *asked;
        self.verb == verb
            && self.set_get == set_get
            && self.claim == *claim
            && self.ttl == ttl
            && self.fence == fence
            && self.keys == options.keys
    }
}

/// Shows nothing of the request: it contains a token.
impl<P> std::fmt::Debug for Last<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Last").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use redlock_core::{Resource, Resources, Token, TokioRuntime};

    use super::*;

    fn claim(resources: &[&str], token: &str) -> Claim {
        let resources = resources.iter().map(|name| Resource::new(name).unwrap());
        Claim::new(Resources::new(resources).unwrap(), Token::from_bytes(token))
    }

    fn ttl(seconds: u64) -> Ttl {
        Ttl::new(Duration::from_secs(seconds)).unwrap()
    }

    /// Sends each request to five nodes in turn. Returns the number of times that each is packed.
    fn packed(asked: &[(Request<'_>, bool)]) -> Vec<usize> {
        let last = RefCell::new(Last::none());
        let count = |(asked, set_get): &(Request<'_>, bool)| {
            let mut times = 0;
            for _ in 0..5 {
                last.borrow_mut().or_pack(asked, *set_get, || times += 1);
            }
            times
        };
        asked.iter().map(count).collect()
    }

    #[test]
    fn a_request_to_all_nodes_is_packed_once() {
        let (one, again, other) = (claim(&["a"], "1"), claim(&["a"], "1"), claim(&["a"], "2"));
        let (elsewhere, several) = (claim(&["b"], "1"), claim(&["a", "b"], "1"));
        let options = Options::new(Arc::new(TokioRuntime::new()));
        let prefixed = options.clone().key_prefix("p:");
        let counting = options.clone().fence_prefix("f:");
        let keeping = options.clone().fence_retention(Duration::from_secs(9));
        let first = Request { verb: Op::Set, claim: &one, ttl: Some(ttl(1)), fence: None, options: &options };
        let fence = FencingToken::new(7);
        let all = [
            (first, true),
            (first, false),
            (Request { verb: Op::Extend, ..first }, false),
            (Request { claim: &other, ..first }, false),
            (Request { claim: &elsewhere, ..first }, false),
            (Request { claim: &several, ..first }, false),
            (Request { ttl: Some(ttl(2)), ..first }, false),
            (Request { ttl: None, ..first }, false),
            (Request { fence, ..first }, false),
            (Request { options: &prefixed, ..first }, false),
            (Request { options: &counting, ..first }, false),
            (Request { options: &keeping, ..first }, false),
        ];
        assert_eq!(vec![1; all.len()], packed(&all));
        for one in all {
            for other in all {
                let same = one.0.verb == other.0.verb && std::ptr::eq(one.0.options, other.0.options);
                let same = same
                    && (one.0.claim, one.0.ttl, one.0.fence, one.1)
                        == (other.0.claim, other.0.ttl, other.0.fence, other.1);
                assert_eq!(vec![1, usize::from(!same)], packed(&[one, other]));
            }
        }
        assert_eq!(vec![1, 0], packed(&[(first, true), (Request { claim: &again, ..first }, true)]));
    }

    #[test]
    fn very_long_requests_are_not_kept() {
        let names = |count: usize| -> Vec<_> { (0..count).map(|n| format!("{n:01024}")).collect() };
        let options = Options::new(Arc::new(TokioRuntime::new()));
        for (count, times) in [(64, 1), (65, 5)] {
            let names = names(count);
            let claim = claim(&names.iter().map(String::as_str).collect::<Vec<_>>(), "1");
            let asked =
                Request { verb: Op::Release, claim: &claim, ttl: None, fence: None, options: &options };
            assert_eq!(vec![times], packed(&[(asked, false)]));
        }
    }
}
