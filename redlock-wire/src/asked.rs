//! What is asked of every node of a round: the same of each, one right behind the other and from one thread.
//!
//! So a thread keeps what was asked last as its client sends it, and it is made once for all nodes, without anybody having
//! to hand it around.

use std::borrow::Cow;
use std::sync::Arc;

use redlock_core::{Claim, FencingToken, NodeError, Ttl, Vote};

use crate::connection::{Command, Connection, Failure, Reply};
use crate::options::{Keys, Options};
use crate::reply::{self, unanswered};
use crate::script::{Over, Script, is_unknown, key};
use crate::secret::Secret;
use crate::{commands, fence};

/// What may be asked about a claim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Sets a single resource to the token, if there is none. A command and no script.
    Set,
    /// Sets every resource to the token, or none.
    Acquire,
    /// Makes the TTL of every resource at least this long, where all hold the token.
    Extend,
    /// Deletes what holds the token.
    Release,
    /// Sets every resource to the token, or none, and counts.
    AcquireFenced,
    /// Makes the TTL of every resource at least this long and every counter the fencing token, where all hold the token
    /// and no counter is greater.
    Confirm,
    /// Sets what is absent to the token and every counter to the fencing token, where nothing is another's and no counter
    /// is greater.
    Refill,
}

/// What is asked about a claim.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) verb: Verb,
    pub(crate) claim: &'a Claim,
    /// None where nothing is set.
    pub(crate) ttl: Option<Ttl>,
    pub(crate) fence: Option<FencingToken>,
    pub(crate) options: &'a Options,
}

impl<'a> Asked<'a> {
    /// As the client sends it. `set_get`: whether the server has `SET .. NX GET`.
    pub(crate) fn packed<C: Connection>(&self, set_get: bool) -> C::Packed {
        C::last(|last| last.or_pack(self, set_get, || self.pack::<C>(set_get)))
    }

    fn pack<C: Connection>(&self, set_get: bool) -> C::Packed {
        match self.verb {
            Verb::Set => C::pack(Command::SetIfAbsent {
                key: &self.key(),
                value: self.claim.token().as_bytes(),
                millis: self.ttl.map_or(0, Ttl::as_millis),
                get: set_get,
            }),
            _ => self.over().call::<C>("EVALSHA", &self.script().sha),
        }
    }

    /// What is asked then, where the reply was not enough.
    pub(crate) fn again<C: Connection>(
        &self,
        reply: &Result<Reply, Failure>,
        set_get: bool,
    ) -> Option<C::Packed> {
        match (self.verb, reply) {
            // Nothing was set. Who is in the way, and is it ourselves?
            (Verb::Set, Ok(Reply::Nil)) if !set_get => {
                Some(C::pack(Command::Other { name: "GET", args: &[&self.key()] }))
            }
            (Verb::Set, _) => None,
            (_, reply) if is_unknown(reply) => Some(self.over().call::<C>("EVAL", self.script().text)),
            _ => None,
        }
    }

    /// What the reply means; `again`: to what was asked then.
    pub(crate) fn vote(
        &self,
        reply: Result<Reply, Failure>,
        set_get: bool,
        again: bool,
    ) -> Result<Vote, NodeError> {
        let (reply, claim) = (reply.map_err(|failure| unanswered(&failure))?, self.claim);
        let reply = match reply {
            Reply::Error(message) => {
                // It may repeat what was sent.
                let token = std::str::from_utf8(claim.token().as_bytes()).ok();
                Reply::Error(Secret::of(token).hidden(&message).into_owned())
            }
            reply => reply,
        };
        match self.verb {
            Verb::Set if set_get => reply::set_get(reply, claim),
            Verb::Set if again => reply::get(reply, claim),
            Verb::Set => reply::set(&reply),
            Verb::Acquire | Verb::Extend | Verb::Release => reply::verdict(&reply, claim),
            Verb::AcquireFenced => reply::counted(&reply, claim),
            Verb::Confirm | Verb::Refill => reply::confirmed(&reply, claim),
        }
    }

    /// The key of a claim of one resource.
    fn key(&self) -> Cow<'a, [u8]> {
        key(&self.options.keys.prefix, &self.claim.resources()[0]) // a claim has at least one
    }

    fn script(&self) -> &'static Script {
        match self.verb {
            // A single resource may be set by it as well.
            Verb::Set | Verb::Acquire => &commands::ACQUIRE,
            Verb::Extend => &commands::EXTEND,
            Verb::Release => &commands::RELEASE,
            Verb::AcquireFenced => &fence::ACQUIRE,
            Verb::Confirm => &fence::CONFIRM,
            Verb::Refill => &fence::REFILL,
        }
    }

    fn over(&self) -> Over<'a> {
        match self.verb {
            Verb::Set | Verb::Acquire | Verb::Extend | Verb::Release => {
                Over::claim(&self.options.keys.prefix, self.claim, self.ttl)
            }
            Verb::AcquireFenced | Verb::Confirm | Verb::Refill => fence::over(self),
        }
    }
}

/// What a thread has asked last, as its client sends it.
pub struct Last<P>(Option<Kept<P>>);

/// So many bytes of names, since what is kept stays with the thread until it asks again.
const KEPT: usize = 64 * 1024;

struct Kept<P> {
    verb: Verb,
    set_get: bool,
    claim: Claim,
    ttl: Option<Ttl>,
    fence: Option<FencingToken>,
    keys: Arc<Keys>,
    packed: P,
}

impl<P: Clone> Last<P> {
    /// Nothing was asked yet.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    fn or_pack(&mut self, asked: &Asked<'_>, set_get: bool, pack: impl FnOnce() -> P) -> P {
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
    fn of(asked: &Asked<'_>, set_get: bool, packed: P) -> Self {
        let Asked { verb, claim, ttl, fence, options } = *asked;
        Self { verb, set_get, claim: claim.clone(), ttl, fence, keys: Arc::clone(&options.keys), packed }
    }

    fn is(&self, asked: &Asked<'_>, set_get: bool) -> bool {
        let Asked { verb, claim, ttl, fence, options } = *asked;
        self.verb == verb
            && self.set_get == set_get
            && self.claim == *claim
            && self.ttl == ttl
            && self.fence == fence
            && self.keys == options.keys
    }
}

/// Shows nothing of what was asked: it holds a token.
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

    /// How often each was packed, when each is asked of five nodes in turn.
    fn packed(asked: &[(Asked<'_>, bool)]) -> Vec<usize> {
        let last = RefCell::new(Last::none());
        let count = |(asked, set_get): &(Asked<'_>, bool)| {
            let mut times = 0;
            for _ in 0..5 {
                last.borrow_mut().or_pack(asked, *set_get, || times += 1);
            }
            times
        };
        asked.iter().map(count).collect()
    }

    #[test]
    fn whatever_is_asked_of_all_nodes_is_packed_once() {
        let (one, again, other) = (claim(&["a"], "1"), claim(&["a"], "1"), claim(&["a"], "2"));
        let (elsewhere, several) = (claim(&["b"], "1"), claim(&["a", "b"], "1"));
        let options = Options::new(Arc::new(TokioRuntime::new()));
        let prefixed = options.clone().key_prefix("p:");
        let counting = options.clone().fence_prefix("f:");
        let keeping = options.clone().fence_retention(Duration::from_secs(9));
        let first = Asked { verb: Verb::Set, claim: &one, ttl: Some(ttl(1)), fence: None, options: &options };
        let fence = FencingToken::new(7);
        let all = [
            (first, true),
            (first, false),
            (Asked { verb: Verb::Extend, ..first }, false),
            (Asked { claim: &other, ..first }, false),
            (Asked { claim: &elsewhere, ..first }, false),
            (Asked { claim: &several, ..first }, false),
            (Asked { ttl: Some(ttl(2)), ..first }, false),
            (Asked { ttl: None, ..first }, false),
            (Asked { fence, ..first }, false),
            (Asked { options: &prefixed, ..first }, false),
            (Asked { options: &counting, ..first }, false),
            (Asked { options: &keeping, ..first }, false),
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
        assert_eq!(vec![1, 0], packed(&[(first, true), (Asked { claim: &again, ..first }, true)]));
    }

    #[test]
    fn what_is_very_long_is_not_kept() {
        let names = |count: usize| -> Vec<_> { (0..count).map(|n| format!("{n:01024}")).collect() };
        let options = Options::new(Arc::new(TokioRuntime::new()));
        for (count, times) in [(64, 1), (65, 5)] {
            let names = names(count);
            let claim = claim(&names.iter().map(String::as_str).collect::<Vec<_>>(), "1");
            let asked =
                Asked { verb: Verb::Release, claim: &claim, ttl: None, fence: None, options: &options };
            assert_eq!(vec![times], packed(&[(asked, false)]));
        }
    }
}
