//! The wire format: which commands an operation is made of. Those about a claim are put together in [`asked`](crate::asked).
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

use redlock_core::{Holding, NodeError, Resource, Watch};
use smallvec::{SmallVec, smallvec};

use crate::connection::{Command, Connection};
use crate::options::Options;
use crate::push::Hub;
use crate::reply::{self, unanswered};
use crate::script::{Over, Script, is_unknown, key, script};

pub(crate) static ACQUIRE: Script = script!("scripts/acquire.lua");
pub(crate) static EXTEND: Script = script!("scripts/extend.lua");
static INSPECT: Script = script!("scripts/inspect.lua");
pub(crate) static RELEASE: Script = script!("scripts/release.lua");

/// Has the server track the keys that the next command reads.
pub(crate) const CACHING: Command<'static> = Command::Other { name: "CLIENT", args: &[b"CACHING", b"YES"] };

/// The texts of the scripts that are called by their SHA-1, for `SCRIPT LOAD`.
pub(crate) fn scripts() -> [&'static str; 4] {
    [ACQUIRE.text, EXTEND.text, RELEASE.text, INSPECT.text]
}

/// Reads who holds a resource, and for how long. A script, because between two commands the key may expire and be taken,
/// and the new holder's time would be told of the old one.
pub(crate) async fn inspect<C: Connection>(
    connection: &C,
    options: &Options,
    resource: &Resource,
) -> Result<Option<Holding>, NodeError> {
    let over = || Over { keys: smallvec![key(&options.keys.prefix, resource)], args: SmallVec::new() };
    let mut reply = connection.call(over().call::<C>("EVALSHA", &INSPECT.sha)).await;
    if is_unknown(&reply) {
        let whole = over().call::<C>("EVAL", INSPECT.text);
        reply = Box::pin(connection.call(whole)).await;
    }
    reply::holding(reply.map_err(|failure| unanswered(&failure))?, resource)
}

/// Watches a resource, and reads how it stands.
pub(crate) async fn watch<C: Connection>(
    connection: &C,
    hub: &Hub,
    options: &Options,
    resource: &Resource,
) -> Result<Watch, NodeError> {
    let key = key(&options.keys.prefix, resource);
    // Before the server is asked: its push may come with its reply.
    let changed = hub.watch(&key);
    let pair = [CACHING, Command::Other { name: "PTTL", args: &[&key] }];
    let replies =
        connection.pipeline(pair.map(C::pack).into()).await.map_err(|failure| unanswered(&failure))?;
    Ok(Watch::new(reply::availability(&replies)?, changed))
}
