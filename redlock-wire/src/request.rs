//! An operation on a claim as a request to one node, and the interpretation of the replies.
//!
//! Every node packs its own request: nodes may differ in their prefixes and in the version of the server. Packing takes 6 %
//! of the CPU time of a client with 64 tasks. Sharing packed requests would save at most 5 %, and each claim would need
//! memory for them.

use std::borrow::Cow;

use redlock_core::node::{Claim, NodeError, Ttl, Vote};
use redlock_core::{FencingToken, Resource};

use crate::connection::{Command, Connection, Failure, Reply};
use crate::native::{self, Native};
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
    /// Adds the token to the readers of every resource, or of none, unless the gate is locked.
    Share,
}

/// One operation on one claim.
pub(crate) struct Request<'a> {
    pub(crate) op: Op,
    pub(crate) claim: &'a Claim,
    /// `None` for operations that set nothing.
    pub(crate) ttl: Option<Ttl>,
    pub(crate) fence: Option<FencingToken>,
    /// The gate of readers.
    pub(crate) gate: Option<&'a Resource>,
    pub(crate) options: &'a Options,
}

/// The features of a server that requests use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    /// True if the server supports `SET .. NX GET`.
    pub(crate) set_get: bool,
    /// The command that replaces the script of a release.
    pub(crate) delete: Option<Native>,
    /// True if the server permits scripts.
    pub(crate) scripts: bool,
}

/// The command to which a reply belongs. One operation needs up to four, if each reply is not sufficient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// `SET .. NX GET`.
    SetGet,
    /// `SET .. NX`, for a server that does not support `GET` with it.
    Set,
    /// `GET`, after `SET` has set nothing.
    Get,
    /// A command that replaces the script.
    Native(Native),
    /// `EVALSHA`: a script by its SHA-1.
    EvalSha,
    /// `EVAL`: the text of a script, which the server did not know.
    Eval,
}

impl<'a> Request<'a> {
    /// Returns the first command.
    pub(crate) fn first(&self, dialect: Dialect) -> Exchange {
        let native = match self.op {
            Op::Set if dialect.set_get => return Exchange::SetGet,
            Op::Set => return Exchange::Set,
            Op::Release => dialect.delete,
            _ => None,
        };
        let native = native.filter(|_| self.claim.resources().len() == 1);
        native.map_or(Exchange::EvalSha, Exchange::Native)
    }

    /// Returns a command in the client's packed form.
    pub(crate) fn pack<C: Connection>(&self, exchange: Exchange) -> C::Packed {
        match exchange {
            Exchange::SetGet | Exchange::Set => C::pack(Command::SetIfAbsent {
                key: &self.key(),
                value: self.claim.token().as_bytes(),
                millis: self.ttl.map_or(0, Ttl::as_millis),
                get: exchange == Exchange::SetGet,
            }),
            Exchange::Get => C::pack(Command::Other { name: "GET", args: &[&self.key()] }),
            Exchange::Native(native) => native.pack::<C>(&self.key(), self.claim.token().as_bytes()),
            Exchange::EvalSha => self.script_args().call::<C>("EVALSHA", &self.script().sha),
            Exchange::Eval => self.script_args().call::<C>("EVAL", self.script().text),
        }
    }

    /// Returns whether the reply counts only from a server that has lost nothing.
    pub(crate) fn is_vote(&self) -> bool {
        !matches!(self.op, Op::Release)
    }

    /// Returns the next command, if the reply to this one is not sufficient.
    pub(crate) fn next(
        exchange: Exchange,
        reply: &Result<Reply, Failure>,
        dialect: Dialect,
    ) -> Option<Exchange> {
        match (exchange, reply) {
            // Nothing was set. `GET` distinguishes another holder from a replay of this claim.
            (Exchange::Set, Ok(Reply::Nil)) => Some(Exchange::Get),
            // Only scripts handle readers, and distinguish them from a value that is not a lock.
            (Exchange::SetGet | Exchange::Get | Exchange::Native(_), Ok(Reply::Error(message)))
                if dialect.scripts && message.starts_with("WRONGTYPE") =>
            {
                Some(Exchange::EvalSha)
            }
            // Nothing was changed. The script is sent in full, since the server may have lost it.
            (Exchange::Native(_), Ok(reply)) if dialect.scripts && native::is_rejected(reply) => {
                Some(Exchange::Eval)
            }
            (Exchange::EvalSha, reply) if is_unknown_script(reply) => Some(Exchange::Eval),
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

    /// Interprets the reply to an operation that is neither fenced nor a release.
    pub(crate) fn vote(&self, reply: Reply, exchange: Exchange) -> Result<Vote, NodeError> {
        match exchange {
            Exchange::SetGet => reply::set_get(reply, self.claim),
            Exchange::Set => reply::set(&reply),
            Exchange::Get => reply::get(reply, self.claim),
            // A native command only deletes, so its reply is no vote.
            Exchange::Native(_) | Exchange::EvalSha | Exchange::Eval => reply::vote(&reply, self.claim),
        }
    }

    /// Interprets the reply to [`Op::Release`].
    pub(crate) fn deleted(reply: &Reply, exchange: Exchange) -> Result<bool, NodeError> {
        match exchange {
            Exchange::Native(_) => native::deleted(reply),
            _ => reply::deleted(reply),
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
            Op::Share => &commands::SHARE,
        }
    }

    fn script_args(&self) -> ScriptArgs<'a> {
        match self.op {
            Op::Set | Op::Acquire | Op::Extend | Op::Keep | Op::Release => {
                ScriptArgs::claim(&self.options.keys.prefix, self.claim, self.ttl)
            }
            Op::AcquireFenced | Op::Confirm | Op::Refill => fence::script_args(self),
            Op::Share => {
                let prefix = &self.options.keys.prefix;
                let mut args = ScriptArgs::claim(prefix, self.claim, self.ttl);
                args.keys.extend(self.gate.map(|gate| key(prefix, gate)));
                args
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIALECT: Dialect = Dialect { set_get: true, delete: None, scripts: true };

    fn next(exchange: Exchange, reply: Reply) -> Option<Exchange> {
        Request::next(exchange, &Ok(reply), DIALECT)
    }

    #[test]
    fn an_acquire_continues_until_a_reply_is_sufficient() {
        let error = |text: &str| Reply::Error(text.into());
        let wrong_type = || error("WRONGTYPE Operation against a key");
        assert_eq!(None, next(Exchange::SetGet, Reply::Nil), "granted");
        assert_eq!(None, next(Exchange::SetGet, Reply::Bytes(b"other".into())), "denied");
        assert_eq!(Some(Exchange::EvalSha), next(Exchange::SetGet, wrong_type()), "readers, perhaps");
        assert_eq!(Some(Exchange::Get), next(Exchange::Set, Reply::Nil));
        assert_eq!(None, next(Exchange::Get, Reply::Bytes(b"other".into())));
        assert_eq!(Some(Exchange::EvalSha), next(Exchange::Get, wrong_type()));
        assert_eq!(Some(Exchange::Eval), next(Exchange::EvalSha, error("NOSCRIPT No matching script")));
        let native = Exchange::Native(Native::DelIfEq);
        assert_eq!(Some(Exchange::EvalSha), next(native, wrong_type()), "a reader, perhaps");
        assert_eq!(Some(Exchange::Eval), next(native, error("ERR unknown command 'DELIFEQ'")));
        assert_eq!(None, next(native, Reply::Int(0)));
        for end in [Exchange::EvalSha, Exchange::Eval] {
            assert_eq!(None, next(end, wrong_type()));
        }
    }
}
