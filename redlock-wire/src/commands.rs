//! The wire format: which commands an operation is made of.
//!
//! A key is the resource's bytes, behind a prefix if there is one; its value is the token, a plain string with an expiry.
//! Every operation is atomic on the server: it is one command, or one script, or a command that has changed nothing
//! followed by one that only reads. In a script every check comes before the first write, because a script that fails
//! halfway leaves its writes behind.

use std::borrow::Cow;
use std::sync::LazyLock;

use redlock_core::{Claim, NodeError, Resource, Ttl, Vote};

use crate::connection::{Command, Connection, Failure, Reply};
use crate::reply::{self, unanswered};

/// A Lua script, called by the SHA-1 of its text.
pub(crate) struct Script {
    text: &'static str,
    sha: LazyLock<String>,
}

macro_rules! script {
    ($path:literal) => {
        Script {
            text: include_str!($path),
            sha: LazyLock::new(|| sha1_smol::Sha1::from(include_str!($path)).hexdigest()),
        }
    };
}

static ACQUIRE: Script = script!("scripts/acquire.lua");
static EXTEND: Script = script!("scripts/extend.lua");
static RELEASE: Script = script!("scripts/release.lua");

/// The texts of all scripts, for `SCRIPT LOAD`.
pub(crate) fn scripts() -> [&'static str; 3] {
    [ACQUIRE.text, EXTEND.text, RELEASE.text]
}

/// Sets every resource to the token, or none. `set_get`: whether the server has `SET .. NX GET`.
pub(crate) async fn acquire<C: Connection>(
    connection: &C,
    prefix: &[u8],
    claim: &Claim,
    ttl: Ttl,
    set_get: bool,
) -> Result<Vote, NodeError> {
    let [resource] = claim.resources() else {
        let reply = run(connection, &ACQUIRE, prefix, claim, Some(ttl)).await;
        return reply::verdict(&reply.map_err(|failure| unanswered(&failure))?, claim);
    };
    let key = key(prefix, resource);
    let set = Command::SetIfAbsent {
        key: &key,
        value: claim.token().as_bytes(),
        millis: ttl.as_millis(),
        get: set_get,
    };
    let reply = connection.call(set).await.map_err(|failure| unanswered(&failure))?;
    if set_get {
        return reply::set_get(reply, claim);
    }
    if let Some(outcome) = reply::set(reply) {
        return outcome;
    }
    // Nothing was set. Who is in the way, and is it ourselves?
    let get = Command::Other { name: "GET", args: &[&key] };
    let reply = connection.call(get).await.map_err(|failure| unanswered(&failure))?;
    reply::get(reply, claim)
}

/// Makes the TTL of every resource at least `ttl`, where all hold the token.
pub(crate) async fn extend<C: Connection>(
    connection: &C,
    prefix: &[u8],
    claim: &Claim,
    ttl: Ttl,
) -> Result<Vote, NodeError> {
    let reply = run(connection, &EXTEND, prefix, claim, Some(ttl)).await;
    reply::verdict(&reply.map_err(|failure| unanswered(&failure))?, claim)
}

/// Deletes what holds the token.
pub(crate) async fn release<C: Connection>(
    connection: &C,
    prefix: &[u8],
    claim: &Claim,
) -> Result<Vote, NodeError> {
    let reply = run(connection, &RELEASE, prefix, claim, None).await;
    reply::verdict(&reply.map_err(|failure| unanswered(&failure))?, claim)
}

/// Runs a script over the claim's keys; where the server does not know it (any more), sends it along.
async fn run<C: Connection>(
    connection: &C,
    script: &Script,
    prefix: &[u8],
    claim: &Claim,
    ttl: Option<Ttl>,
) -> Result<Reply, Failure> {
    let keys: Vec<_> = claim.resources().iter().map(|resource| key(prefix, resource)).collect();
    let (count, millis) = (keys.len().to_string(), ttl.map(|ttl| ttl.as_millis().to_string()));
    let mut args: Vec<&[u8]> = Vec::with_capacity(keys.len() + 4);
    args.extend([script.sha.as_bytes(), count.as_bytes()]);
    args.extend(keys.iter().map(|key| &**key));
    args.push(claim.token().as_bytes());
    args.extend(millis.as_ref().map(String::as_bytes));
    let reply = connection.call(Command::Other { name: "EVALSHA", args: &args }).await?;
    match reply {
        Reply::Error(message) if message.starts_with("NOSCRIPT") => {
            args[0] = script.text.as_bytes();
            connection.call(Command::Other { name: "EVAL", args: &args }).await
        }
        reply => Ok(reply),
    }
}

fn key<'a>(prefix: &[u8], resource: &'a Resource) -> Cow<'a, [u8]> {
    if prefix.is_empty() {
        return Cow::Borrowed(resource.as_bytes());
    }
    Cow::Owned([prefix, resource.as_bytes()].concat())
}
