//! Scripts and their calls, by the SHA-1 of their text, or in full if the server lacks them.

use std::borrow::Cow;
use std::sync::LazyLock;

use redlock_core::Resource;
use redlock_core::node::{Claim, Ttl};
use smallvec::SmallVec;

use crate::connection::Connection;
use crate::message::{Command, Failure, Reply};

/// A Lua script, called by the SHA-1 of its text.
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) sha: LazyLock<String>,
}

/// Defines a script whose text is the concatenation of some files.
macro_rules! script {
    ($($path:literal),+) => {
        Script {
            text: concat!($(include_str!($path)),+),
            sha: std::sync::LazyLock::new(|| sha1_smol::Sha1::from(concat!($(include_str!($path)),+)).hexdigest()),
        }
    };
}
pub(crate) use script;

/// Returns whether the server does not know the called script.
pub(crate) fn is_unknown_script(reply: &Result<Reply, Failure>) -> bool {
    matches!(reply, Ok(Reply::Error(message)) if message.starts_with("NOSCRIPT"))
}

/// The keys and arguments of a script call. Stored inline for a plain lock on one resource.
pub(crate) struct ScriptArgs<'a> {
    pub(crate) keys: SmallVec<[Cow<'a, [u8]>; 1]>,
    pub(crate) args: SmallVec<[Cow<'a, [u8]>; 2]>,
}

impl<'a> ScriptArgs<'a> {
    /// Returns the keys of a claim, its token, and the TTL if there is one.
    pub(crate) fn claim(prefix: &[u8], claim: &'a Claim, ttl: Option<Ttl>) -> Self {
        let keys = claim.resources().iter().map(|resource| key(prefix, resource)).collect();
        let mut args = SmallVec::from_iter([Cow::Borrowed(claim.token().as_bytes())]);
        args.extend(ttl.map(|ttl| number(ttl.as_millis())));
        Self { keys, args }
    }

    /// Packs an `EVAL` of a script's text, or an `EVALSHA` of its SHA-1.
    pub(crate) fn call<C: Connection>(&self, name: &'static str, script: &str) -> C::Packed {
        let mut digits = itoa::Buffer::new();
        let mut args = SmallVec::<[&[u8]; 6]>::new();
        args.push(script.as_bytes());
        args.push(digits.format(self.keys.len()).as_bytes());
        args.extend(self.keys.iter().chain(&self.args).map(|part| &**part));
        C::pack(Command::Other { name, args: &args })
    }
}

pub(crate) fn number<'a>(number: u64) -> Cow<'a, [u8]> {
    Cow::Owned(itoa::Buffer::new().format(number).into())
}

pub(crate) fn key<'a>(prefix: &[u8], resource: &'a Resource) -> Cow<'a, [u8]> {
    if prefix.is_empty() {
        return Cow::Borrowed(resource.as_bytes());
    }
    Cow::Owned([prefix, resource.as_bytes()].concat())
}
