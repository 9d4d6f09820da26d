//! An operation on a claim as a request to one node, and the interpretation of the replies.
//!
//! Every node packs its own request: nodes may differ in their prefixes and in the version of the server. Packing takes 6 %
//! of the CPU time of a client with 64 tasks. Sharing packed requests would save at most 5 %, and each claim would need
//! memory for them.

use std::borrow::Cow;

use redlock_core::FencingToken;
use redlock_core::node::{Claim, NodeError, Ttl, Vote};

use crate::connection::{Command, Connection, Failure, Reply};
use crate::handshake::Server;
use crate::native::{self, Native};
use crate::options::Options;
use crate::reply::{self, unanswered};
use crate::script::{Script, ScriptArgs, is_unknown_script, key, number};
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
    /// Same as [`Extend`](Op::Extend), with the TTL of all requests so far.
    Renew,
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

/// The features of the server that a request uses.
#[derive(Clone, Copy)]
pub(crate) struct Dialect {
    /// True if the server supports `SET .. NX GET`.
    pub(crate) set_get: bool,
    /// The command that replaces the script.
    pub(crate) native: Option<Native>,
    /// True if the server permits scripts.
    pub(crate) scripts: bool,
}

/// The request to which a reply belongs.
#[derive(Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) dialect: Dialect,
    /// True for the reply to the follow-up request.
    pub(crate) is_follow_up: bool,
}

impl Exchange {
    /// Returns whether the reply is that to a native command.
    fn is_native(self) -> bool {
        self.dialect.native.is_some() && !self.is_follow_up
    }
}

impl<'a> Request<'a> {
    /// Returns the features of a server that this request uses.
    pub(crate) fn dialect(&self, server: &Server) -> Dialect {
        let native = match self.op {
            Op::Release => server.natives.delete,
            Op::Renew => server.natives.renew,
            _ => None,
        };
        let native = native.filter(|_| self.claim.resources().len() == 1);
        Dialect { set_get: server.set_get, native, scripts: server.scripts.is_ok() }
    }

    /// Returns the request in the client's packed form.
    pub(crate) fn pack<C: Connection>(&self, dialect: Dialect) -> C::Packed {
        if let Some(native) = dialect.native {
            let millis = number(self.ttl.map_or(0, Ttl::as_millis));
            return native.pack::<C>(&self.key(), self.claim.token().as_bytes(), &millis);
        }
        match self.op {
            Op::Set => C::pack(Command::SetIfAbsent {
                key: &self.key(),
                value: self.claim.token().as_bytes(),
                millis: self.ttl.map_or(0, Ttl::as_millis),
                get: dialect.set_get,
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
        dialect: Dialect,
    ) -> Option<C::Packed> {
        match (self.op, reply) {
            // Nothing was changed. The script is sent in full, since the server may have lost it.
            (_, Ok(reply)) if dialect.native.is_some() => (dialect.scripts && native::is_rejected(reply))
                .then(|| self.script_args().call::<C>("EVAL", self.script().text)),
            // Nothing was set. `GET` distinguishes another holder from a replay of this claim.
            (Op::Set, Ok(Reply::Nil)) if !dialect.set_get => {
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

    /// Interprets the reply to an operation that acquires or extends without a fencing token.
    pub(crate) fn vote(&self, reply: Reply, exchange: Exchange) -> Result<Vote, NodeError> {
        match self.op {
            Op::Set if exchange.dialect.set_get => reply::set_get(reply, self.claim),
            Op::Set if exchange.is_follow_up => reply::get(reply, self.claim),
            Op::Set => reply::set(&reply),
            _ if exchange.is_native() => native::renewed(reply, self.claim),
            _ => reply::vote(&reply, self.claim),
        }
    }

    /// Interprets the reply to [`Op::Release`].
    pub(crate) fn deleted(reply: &Reply, exchange: Exchange) -> Result<bool, NodeError> {
        if exchange.is_native() { native::deleted(reply) } else { reply::deleted(reply) }
    }

    /// Returns the key of a claim on one resource.
    fn key(&self) -> Cow<'a, [u8]> {
        key(&self.options.keys.prefix, &self.claim.resources()[0]) // a claim has at least one
    }

    fn script(&self) -> &'static Script {
        match self.op {
            // A single resource may also be set by the script.
            Op::Set | Op::Acquire => &commands::ACQUIRE,
            Op::Extend | Op::Renew => &commands::EXTEND,
            Op::Keep => &commands::KEEP,
            Op::Release => &commands::RELEASE,
            Op::AcquireFenced => &fence::ACQUIRE,
            Op::Confirm => &fence::CONFIRM,
            Op::Refill => &fence::REFILL,
        }
    }

    fn script_args(&self) -> ScriptArgs<'a> {
        match self.op {
            Op::Set | Op::Acquire | Op::Extend | Op::Renew | Op::Keep | Op::Release => {
                ScriptArgs::claim(&self.options.keys.prefix, self.claim, self.ttl)
            }
            Op::AcquireFenced | Op::Confirm | Op::Refill => fence::script_args(self),
        }
    }
}
