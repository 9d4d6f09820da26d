//! A request about a claim in the commands of a server, and the interpretation of the replies.
//!
//! Every node packs its own request: nodes may differ in their prefixes and in the version of the server. Packing takes 6 %
//! of the CPU time of a client with 64 tasks. Sharing packed requests would save at most 5 %, and each claim would need
//! memory for them.

use std::borrow::Cow;

use redlock_core::node::{self, Claim, NodeError, Place, Request, Ttl};
use smallvec::SmallVec;

use crate::connection::Connection;
use crate::message::{Command, Failure, Reply};
use crate::native::{self, Native};
use crate::options::Options;
use crate::reply::{self, unanswered};
use crate::script::{Script, ScriptArgs, is_unknown_script, key};
use crate::secret::Secret;
use crate::{commands, fence, places};

/// A request about a claim, with the script that carries it out on every server.
pub(crate) struct ClaimRequest<'a> {
    request: &'a Request,
    claim: &'a Claim,
    /// `None` for a request that sets nothing.
    ttl: Option<Ttl>,
    /// The place of the request among the waiters, if it has one.
    place: Option<&'a Place>,
    script: &'static Script,
    options: &'a Options,
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

/// The command to which a reply belongs. One request needs up to four, if each reply is not sufficient: `SET`, `GET`,
/// `EVALSHA`, `EVAL` for a name that has readers, on a server without `SET .. NX GET` that does not know the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
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

impl<'a> ClaimRequest<'a> {
    /// Returns the request in the commands of a server; `None` if it is not about a claim.
    pub(crate) fn new(request: &'a Request, options: &'a Options) -> Option<Self> {
        let (script, claim, ttl) = match request {
            Request::Acquire(claim, ttl) => (&commands::ACQUIRE, claim, Some(*ttl)),
            Request::Extend(claim, ttl) => (&commands::EXTEND, claim, Some(*ttl)),
            Request::Release(claim) => (&commands::RELEASE, claim, None),
            Request::Keep(claim, ttl) => (&commands::KEEP, claim, Some(*ttl)),
            Request::AcquireFenced(claim, ttl) => (&fence::ACQUIRE, claim, Some(*ttl)),
            Request::Confirm(claim, ttl, _) => (&fence::CONFIRM, claim, Some(*ttl)),
            Request::Refill(claim, ttl, _) => (&fence::REFILL, claim, Some(*ttl)),
            Request::AcquireShared(claim, _, ttl) => (&commands::SHARE, claim, Some(*ttl)),
            _ => return None,
        };
        let place = claim.place();
        let script = match (request, place) {
            (Request::Acquire(..), Some(_)) => &places::ACQUIRE,
            (Request::AcquireFenced(..), Some(_)) => &places::ACQUIRE_FENCED,
            (Request::AcquireShared(..), Some(_)) => &places::SHARE,
            _ => script,
        };
        Some(Self { request, claim, ttl, place, script, options })
    }

    /// Returns the first command. A command that replaces the script has a single key.
    pub(crate) fn first(&self, dialect: Dialect) -> Step {
        let is_single = self.claim.resources().len() == 1 && (self.place.is_none() || !dialect.scripts);
        match self.request {
            Request::Acquire(..) if is_single && dialect.set_get => Step::SetGet,
            Request::Acquire(..) if is_single => Step::Set,
            Request::Release(_) if is_single => dialect.delete.map_or(Step::EvalSha, Step::Native),
            _ => Step::EvalSha,
        }
    }

    /// Returns a command in the client's packed form.
    pub(crate) fn pack<C: Connection>(&self, step: Step) -> C::Packed {
        match step {
            Step::SetGet | Step::Set => C::pack(Command::SetIfAbsent {
                key: &self.key(),
                value: self.claim.token().as_bytes(),
                millis: self.ttl.map_or(0, Ttl::as_millis),
                get: step == Step::SetGet,
            }),
            Step::Get => C::pack(Command::Other { name: "GET", args: &[&self.key()] }),
            Step::Native(native) => native.pack::<C>(&self.key(), self.claim.token().as_bytes()),
            Step::EvalSha => self.script_args().call::<C>("EVALSHA", &self.script.sha),
            Step::Eval => self.script_args().call::<C>("EVAL", self.script.text),
        }
    }

    /// Returns the next command, if the reply to this one is not sufficient.
    pub(crate) fn next(step: Step, reply: &Result<Reply, Failure>, dialect: Dialect) -> Option<Step> {
        match (step, reply) {
            // Nothing was set. `GET` distinguishes another holder from a replay of this claim.
            (Step::Set, Ok(Reply::Nil)) => Some(Step::Get),
            // Only scripts handle readers, and distinguish them from a value that is not a lock.
            (Step::SetGet | Step::Get | Step::Native(_), Ok(Reply::Error(message)))
                if dialect.scripts && message.starts_with("WRONGTYPE") =>
            {
                Some(Step::EvalSha)
            }
            // Nothing was changed. The script is sent in full, since the server may have lost it.
            (Step::Native(_), Ok(reply)) if dialect.scripts && native::is_rejected(reply) => Some(Step::Eval),
            (Step::EvalSha, reply) if is_unknown_script(reply) => Some(Step::Eval),
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

    /// Interprets the reply to the last command.
    pub(crate) fn read(&self, reply: Reply, step: Step) -> Result<node::Reply, NodeError> {
        match (step, self.request) {
            (Step::SetGet, _) => reply::set_get(reply, self.claim),
            (Step::Set, _) => reply::set(&reply),
            (Step::Get, _) => reply::get(reply, self.claim),
            (Step::Native(_), _) => native::deleted(&reply),
            (_, Request::Release(_)) => reply::deleted(&reply),
            (_, Request::AcquireFenced(..)) => reply::fenced_vote(&reply, self.claim),
            (_, Request::Confirm(..) | Request::Refill(..)) => reply::confirm_vote(&reply, self.claim),
            _ => reply::vote(&reply, self.claim),
        }
    }

    /// Returns the key of a claim on one resource.
    fn key(&self) -> Cow<'a, [u8]> {
        key(&self.options.keys.prefix, &self.claim.resources()[0]) // a claim has at least one
    }

    /// Returns all keys that the request reads or writes.
    pub(crate) fn keys(&self) -> SmallVec<[Cow<'a, [u8]>; 1]> {
        self.script_args().keys
    }

    fn script_args(&self) -> ScriptArgs<'a> {
        let mut args = ScriptArgs::claim(&self.options.keys.prefix, self.claim, self.ttl);
        match self.request {
            Request::AcquireFenced(_, ttl) => fence::count(&mut args, self.options, *ttl, None),
            Request::Confirm(_, ttl, token) | Request::Refill(_, ttl, token) => {
                fence::count(&mut args, self.options, *ttl, Some(*token));
            }
            Request::AcquireShared(_, gate, _) => args.keys.push(key(&self.options.keys.prefix, gate)),
            _ => {}
        }
        if let Some(place) = self.place {
            places::add(&mut args, place);
        }
        args
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIALECT: Dialect = Dialect { set_get: true, delete: None, scripts: true };

    fn next(step: Step, reply: Reply) -> Option<Step> {
        ClaimRequest::next(step, &Ok(reply), DIALECT)
    }

    #[test]
    fn an_acquire_continues_until_a_reply_is_sufficient() {
        let error = |text: &str| Reply::Error(text.into());
        let wrong_type = || error("WRONGTYPE Operation against a key");
        assert_eq!(None, next(Step::SetGet, Reply::Nil), "granted");
        assert_eq!(None, next(Step::SetGet, Reply::Bytes(b"other".into())), "denied");
        assert_eq!(Some(Step::EvalSha), next(Step::SetGet, wrong_type()), "readers, perhaps");
        assert_eq!(Some(Step::Get), next(Step::Set, Reply::Nil));
        assert_eq!(None, next(Step::Get, Reply::Bytes(b"other".into())));
        assert_eq!(Some(Step::EvalSha), next(Step::Get, wrong_type()));
        assert_eq!(Some(Step::Eval), next(Step::EvalSha, error("NOSCRIPT No matching script")));
        let native = Step::Native(Native::DelIfEq);
        assert_eq!(Some(Step::EvalSha), next(native, wrong_type()), "a reader, perhaps");
        assert_eq!(Some(Step::Eval), next(native, error("ERR unknown command 'DELIFEQ'")));
        assert_eq!(None, next(native, Reply::Int(0)));
        for end in [Step::EvalSha, Step::Eval] {
            assert_eq!(None, next(end, wrong_type()));
        }
    }
}
