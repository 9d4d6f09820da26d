//! The wire format: which commands an operation is made of.
//!
//! A key is the resource's bytes, behind a prefix if there is one; its value is the token, a plain string with an expiry.
//! Every operation is atomic on the server: it is one command, or one script, or a command that has changed nothing
//! followed by one that only reads. In a script every check comes before the first write, because a script that fails
//! halfway leaves its writes behind.
//!
//! Scripts are called by their SHA-1, and sent whole where the server has lost them. Not so the one that creates keys: it
//! is always sent whole. Its second sending could overtake the release that undoes it, which then would answer, over the
//! same connection, that nothing was there.
//!
//! A watch is `CLIENT CACHING YES` with `PTTL` right behind it, in one write. The server tracks the keys of the one
//! command that follows `CACHING`, if that command only reads and did not fail; anything in between would take its place.
//! `PTTL` alone tells whether the key is there and for how long, at one moment, for a key of any type; a script could tell
//! no more, and one that the server has lost would use up the `CACHING`.

use std::borrow::Cow;
use std::sync::LazyLock;

use redlock_core::{Claim, Holding, NodeError, Resource, Ttl, Vote, Watch};
use smallvec::{SmallVec, smallvec};

use crate::connection::{Command, Connection, Failure, Reply};
use crate::push::Hub;
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

const ACQUIRE: &str = include_str!("scripts/acquire.lua");
static EXTEND: Script = script!("scripts/extend.lua");
static INSPECT: Script = script!("scripts/inspect.lua");
static RELEASE: Script = script!("scripts/release.lua");

/// Has the server track the keys that the next command reads.
pub(crate) const CACHING: Command<'static> = Command::Other { name: "CLIENT", args: &[b"CACHING", b"YES"] };

/// The texts of the scripts that are called by their SHA-1, for `SCRIPT LOAD`.
pub(crate) fn scripts() -> [&'static str; 3] {
    [EXTEND.text, RELEASE.text, INSPECT.text]
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
        let over = Over::new(prefix, claim, Some(ttl));
        let reply = connection.call(Command::Other { name: "EVAL", args: &over.args(ACQUIRE) }).await;
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
    let reply = run(connection, &EXTEND, Over::new(prefix, claim, Some(ttl))).await;
    reply::verdict(&reply.map_err(|failure| unanswered(&failure))?, claim)
}

/// Deletes what holds the token.
pub(crate) async fn release<C: Connection>(
    connection: &C,
    prefix: &[u8],
    claim: &Claim,
) -> Result<Vote, NodeError> {
    let reply = run(connection, &RELEASE, Over::new(prefix, claim, None)).await;
    reply::verdict(&reply.map_err(|failure| unanswered(&failure))?, claim)
}

/// Reads who holds a resource, and for how long. A script, because between two commands the key may expire and be taken,
/// and the new holder's time would be told of the old one.
pub(crate) async fn inspect<C: Connection>(
    connection: &C,
    prefix: &[u8],
    resource: &Resource,
) -> Result<Option<Holding>, NodeError> {
    let over = Over { keys: smallvec![key(prefix, resource)], count: "1".into(), token: None, millis: None };
    let reply = run(connection, &INSPECT, over).await;
    reply::holding(reply.map_err(|failure| unanswered(&failure))?, resource)
}

/// Watches a resource, and reads how it stands.
pub(crate) async fn watch<C: Connection>(
    connection: &C,
    hub: &Hub,
    prefix: &[u8],
    resource: &Resource,
) -> Result<Watch, NodeError> {
    let key = key(prefix, resource);
    // Before the server is asked: its push may come with its reply.
    let changed = hub.watch(&key);
    let pair = [CACHING, Command::Other { name: "PTTL", args: &[&key] }];
    let replies = connection.pipeline(&pair).await.map_err(|failure| unanswered(&failure))?;
    Ok(Watch::new(reply::availability(&replies)?, changed))
}

/// Runs a script over the claim's keys; where the server does not know it (any more), sends it along.
async fn run<C: Connection>(connection: &C, script: &Script, over: Over<'_>) -> Result<Reply, Failure> {
    let args = over.args(&script.sha);
    let reply = connection.call(Command::Other { name: "EVALSHA", args: &args }).await?;
    match reply {
        Reply::Error(message) if message.starts_with("NOSCRIPT") => {
            connection.call(Command::Other { name: "EVAL", args: &over.args(script.text) }).await
        }
        reply => Ok(reply),
    }
}

/// What a script works over: the keys, and the token and the TTL if it takes one. In place for a single key.
struct Over<'a> {
    keys: SmallVec<[Cow<'a, [u8]>; 1]>,
    count: Cow<'static, str>,
    token: Option<&'a [u8]>,
    millis: Option<String>,
}

impl<'a> Over<'a> {
    fn new(prefix: &[u8], claim: &'a Claim, ttl: Option<Ttl>) -> Self {
        let keys: SmallVec<_> = claim.resources().iter().map(|resource| key(prefix, resource)).collect();
        let count = if keys.len() == 1 { "1".into() } else { keys.len().to_string().into() };
        let millis = ttl.map(|ttl| ttl.as_millis().to_string());
        Self { keys, count, token: Some(claim.token().as_bytes()), millis }
    }

    /// The arguments of `EVAL` for a script's text, or of `EVALSHA` for its SHA-1.
    fn args<'b>(&'b self, script: &'b str) -> SmallVec<[&'b [u8]; 5]> {
        let mut args = SmallVec::with_capacity(self.keys.len() + 4);
        args.extend([script.as_bytes(), self.count.as_bytes()]);
        args.extend(self.keys.iter().map(|key| &**key));
        args.extend(self.token);
        args.extend(self.millis.as_ref().map(String::as_bytes));
        args
    }
}

fn key<'a>(prefix: &[u8], resource: &'a Resource) -> Cow<'a, [u8]> {
    if prefix.is_empty() {
        return Cow::Borrowed(resource.as_bytes());
    }
    Cow::Owned([prefix, resource.as_bytes()].concat())
}
