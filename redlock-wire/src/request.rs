//! An operation on a claim as a request to one node, and the interpretation of the replies.
//!
//! Every node packs its own request: nodes may differ in their prefixes and in the version of the server.

use std::borrow::Cow;

use redlock_core::FencingToken;
use redlock_core::node::{Claim, NodeError, Ttl, Vote};

use crate::connection::{Command, Connection, Failure, Reply};
use crate::options::Options;
use crate::reply::{self, unanswered};
use crate::script::{Script, ScriptArgs, is_unknown_script, key};
use crate::secret::Secret;
use crate::{commands, fence};

/// An operation on a claim.
#[derive(Clone, Copy)]
pub(crate) enum Op {
    /// Sets a single resource to the token, if the key is absent. A plain command, not a script.
    Set,
    /// Sets every resource to the token, or none.
    Acquire,
    /// Raises the TTL of every resource to at least this long, if all hold the token.
    Extend,
    /// Sets the TTL of every resource, if all hold the token.
    Keep,
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
pub(crate) struct Request<'a> {
    pub(crate) op: Op,
    pub(crate) claim: &'a Claim,
    /// `None` for operations that set nothing.
    pub(crate) ttl: Option<Ttl>,
    pub(crate) fence: Option<FencingToken>,
    pub(crate) options: &'a Options,
}

/// The request to which a reply belongs.
#[derive(Clone, Copy)]
pub(crate) struct Exchange {
    /// True if the server supports `SET .. NX GET`.
    pub(crate) set_get: bool,
    /// True for the reply to the follow-up request.
    pub(crate) is_follow_up: bool,
}

impl<'a> Request<'a> {
    /// Returns the request in the client's packed form. `set_get`: whether the server supports `SET .. NX GET`.
    pub(crate) fn pack<C: Connection>(&self, set_get: bool) -> C::Packed {
        match self.op {
            Op::Set => C::pack(Command::SetIfAbsent {
                key: &self.key(),
                value: self.claim.token().as_bytes(),
                millis: self.ttl.map_or(0, Ttl::as_millis),
                get: set_get,
            }),
            _ => self.script_args().call::<C>("EVALSHA", &self.script().sha),
        }
    }

    /// Returns whether the reply counts only from a server that has lost nothing.
    pub(crate) fn is_vote(&self) -> bool {
        !matches!(self.op, Op::Release)
    }

    /// Returns the follow-up request, if the first reply is not sufficient.
    pub(crate) fn again<C: Connection>(
        &self,
        reply: &Result<Reply, Failure>,
        set_get: bool,
    ) -> Option<C::Packed> {
        match (self.op, reply) {
            // Nothing was set. `GET` distinguishes another holder from a replay of this claim.
            (Op::Set, Ok(Reply::Nil)) if !set_get => {
                Some(C::pack(Command::Other { name: "GET", args: &[&self.key()] }))
            }
            (Op::Set, _) => None,
            (_, reply) if is_unknown_script(reply) => {
                Some(self.script_args().call::<C>("EVAL", self.script().text))
            }
            _ => None,
        }
    }

    /// Returns the reply without this claim's token, which an error may repeat with the arguments.
    pub(crate) fn without_secrets(&self, reply: Result<Reply, Failure>) -> Result<Reply, NodeError> {
        Ok(match reply.map_err(|failure| unanswered(&failure))? {
            Reply::Error(message) => {
                let token = std::str::from_utf8(self.claim.token().as_bytes()).ok();
                Reply::Error(Secret::of(token).hidden(&message).into_owned())
            }
            reply => reply,
        })
    }

    /// Interprets the reply to [`Op::Set`], [`Op::Acquire`], [`Op::Extend`] or [`Op::Keep`].
    pub(crate) fn vote(&self, reply: Reply, exchange: Exchange) -> Result<Vote, NodeError> {
        match (self.op, exchange) {
            (Op::Set, Exchange { set_get: true, .. }) => reply::set_get(reply, self.claim),
            (Op::Set, Exchange { is_follow_up: true, .. }) => reply::get(reply, self.claim),
            (Op::Set, _) => reply::set(&reply),
            _ => reply::vote(&reply, self.claim),
        }
    }

    /// Returns the key of a claim on one resource.
    fn key(&self) -> Cow<'a, [u8]> {
        key(&self.options.keys.prefix, &self.claim.resources()[0]) // a claim has at least one
    }

    fn script(&self) -> &'static Script {
        match self.op {
            // A single resource may also be set by the script.
            Op::Set | Op::Acquire => &commands::ACQUIRE,
            Op::Extend => &commands::EXTEND,
            Op::Keep => &commands::KEEP,
            Op::Release => &commands::RELEASE,
            Op::AcquireFenced => &fence::ACQUIRE,
            Op::Confirm => &fence::CONFIRM,
            Op::Refill => &fence::REFILL,
        }
    }

    fn script_args(&self) -> ScriptArgs<'a> {
        match self.op {
            Op::Set | Op::Acquire | Op::Extend | Op::Keep | Op::Release => {
                ScriptArgs::claim(&self.options.keys.prefix, self.claim, self.ttl)
            }
            Op::AcquireFenced | Op::Confirm | Op::Refill => fence::script_args(self),
        }
    }
}
