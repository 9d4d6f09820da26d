//! The wire format: which commands an operation is made of.
//!
//! A key is the resource's bytes, behind a prefix if there is one; its value is the token, a plain string with an expiry.
//! Every operation is atomic on the server: it is one command, or one script, or a command that has changed nothing
//! followed by one that only reads. In a script every check comes before the first write, because a script that fails
//! halfway leaves its writes behind.
//!
//! Scripts are called by their SHA-1, and sent whole where the server does not know them. Those that create keys too: a
//! release that goes between the two sendings finds nothing and deletes nothing, and is repeated, because the call of the
//! acquire has not ended when it is sent.
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
    pub(crate) text: &'static str,
    pub(crate) sha: LazyLock<String>,
}

/// A script whose text is that of some files, one behind the other.
macro_rules! script {
    ($($path:literal),+) => {
        Script {
            text: concat!($(include_str!($path)),+),
            sha: std::sync::LazyLock::new(|| sha1_smol::Sha1::from(concat!($(include_str!($path)),+)).hexdigest()),
        }
    };
}
pub(crate) use script;

static ACQUIRE: Script = script!("scripts/acquire.lua");
static EXTEND: Script = script!("scripts/extend.lua");
static INSPECT: Script = script!("scripts/inspect.lua");
static RELEASE: Script = script!("scripts/release.lua");

/// Has the server track the keys that the next command reads.
pub(crate) const CACHING: Command<'static> = Command::Other { name: "CLIENT", args: &[b"CACHING", b"YES"] };

/// The texts of the scripts that are called by their SHA-1, for `SCRIPT LOAD`.
pub(crate) fn scripts() -> [&'static str; 4] {
    [ACQUIRE.text, EXTEND.text, RELEASE.text, INSPECT.text]
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
        let reply = run(connection, &ACQUIRE, Over::claim_for(prefix, claim, ttl)).await;
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
    let reply = run(connection, &EXTEND, Over::claim_for(prefix, claim, ttl)).await;
    reply::verdict(&reply.map_err(|failure| unanswered(&failure))?, claim)
}

/// Deletes what holds the token.
pub(crate) async fn release<C: Connection>(
    connection: &C,
    prefix: &[u8],
    claim: &Claim,
) -> Result<Vote, NodeError> {
    let reply = run(connection, &RELEASE, Over::claim(prefix, claim)).await;
    reply::verdict(&reply.map_err(|failure| unanswered(&failure))?, claim)
}

/// Reads who holds a resource, and for how long. A script, because between two commands the key may expire and be taken,
/// and the new holder's time would be told of the old one.
pub(crate) async fn inspect<C: Connection>(
    connection: &C,
    prefix: &[u8],
    resource: &Resource,
) -> Result<Option<Holding>, NodeError> {
    let over = Over { keys: smallvec![key(prefix, resource)], args: SmallVec::new() };
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
pub(crate) async fn run<C: Connection>(
    connection: &C,
    script: &Script,
    over: Over<'_>,
) -> Result<Reply, Failure> {
    let count = over.count();
    let args = over.behind(&script.sha, &count);
    let reply = connection.call(Command::Other { name: "EVALSHA", args: &args }).await?;
    match reply {
        Reply::Error(message) if message.starts_with("NOSCRIPT") => {
            let args = over.behind(script.text, &count);
            connection.call(Command::Other { name: "EVAL", args: &args }).await
        }
        reply => Ok(reply),
    }
}

/// What a script works over: its keys, and its other arguments. In place for a plain lock on one resource.
pub(crate) struct Over<'a> {
    pub(crate) keys: SmallVec<[Cow<'a, [u8]>; 1]>,
    pub(crate) args: SmallVec<[Cow<'a, [u8]>; 2]>,
}

impl<'a> Over<'a> {
    /// The keys of a claim, and its token.
    pub(crate) fn claim(prefix: &[u8], claim: &'a Claim) -> Self {
        let keys = claim.resources().iter().map(|resource| key(prefix, resource)).collect();
        let token = Cow::Borrowed(claim.token().as_bytes());
        Self { keys, args: SmallVec::from_iter([token]) }
    }

    /// The same, and the TTL.
    fn claim_for(prefix: &[u8], claim: &'a Claim, ttl: Ttl) -> Self {
        let mut over = Self::claim(prefix, claim);
        over.args.push(Cow::Owned(ttl.as_millis().to_string().into_bytes()));
        over
    }

    /// The number of keys, as text.
    fn count(&self) -> Cow<'static, str> {
        if self.keys.len() == 1 { "1".into() } else { self.keys.len().to_string().into() }
    }

    /// The arguments of `EVAL` for a script's text, or of `EVALSHA` for its SHA-1.
    fn behind<'b>(&'b self, script: &'b str, count: &'b str) -> SmallVec<[&'b [u8]; 5]> {
        let mut all = SmallVec::with_capacity(self.keys.len() + self.args.len() + 2);
        all.extend([script.as_bytes(), count.as_bytes()]);
        all.extend(self.keys.iter().chain(&self.args).map(|part| &**part));
        all
    }
}

pub(crate) fn key<'a>(prefix: &[u8], resource: &'a Resource) -> Cow<'a, [u8]> {
    if prefix.is_empty() {
        return Cow::Borrowed(resource.as_bytes());
    }
    Cow::Owned([prefix, resource.as_bytes()].concat())
}
