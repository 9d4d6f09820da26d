//! The wire format: the commands of each operation. The requests about a claim are assembled in
//! [`request`](crate::request).
//!
//! A key is the resource's bytes, behind the prefix if one is set. Its value is the token, a plain string with an
//! expiry. The readers of a resource are a sorted set instead, so that every `SET .. NX` fails. Every operation is atomic
//! on the server. It is one command, or one script, or a command that changed nothing followed by another one. In a
//! script every check precedes the first write, because a script that fails halfway leaves its writes behind.
//!
//! Scripts are called by their SHA-1, and sent in full if the server does not know them. This includes the scripts that
//! create keys. A release between the two requests finds nothing and deletes nothing. It is repeated, because the
//! acquire call has not ended when the release is sent.
//!
//! A watch is `CLIENT CACHING YES` directly followed by `PTTL`, in one write. The server tracks the keys of the one
//! command that follows `CACHING`, if that command only reads and does not fail. Any command in between would take its
//! place. A single `PTTL` reports whether the key exists and its remaining time, at one moment, for a key of any type.
//! A script that the server has lost would use up the `CACHING`. `GET` follows for the holder, which is a hint: it fails
//! for a key of readers.

use redlock_core::Resource;
use redlock_core::node::{self, NodeError, Watch};
use smallvec::{SmallVec, smallvec};

use crate::connection::Connection;
use crate::message::{Command, Reply};
use crate::options::Options;
use crate::push::{Changed, Hub};
use crate::reply::{self, unanswered};
use crate::script::{Script, ScriptArgs, key, script};

pub(crate) static ACQUIRE: Script = script!("scripts/readers.lua", "scripts/acquire.lua");
pub(crate) static EXTEND: Script =
    script!("scripts/extend_one.lua", "scripts/readers.lua", "scripts/extend.lua");
/// Returns the holder of a resource and the remaining time.
///
/// This is a script: between two commands the key may expire and be acquired by another client. The time of the new
/// holder would then be reported for the old one.
pub(crate) static INSPECT: Script = script!("scripts/readers.lua", "scripts/inspect.lua");
pub(crate) static KEEP: Script = script!("scripts/readers.lua", "scripts/keep.lua");
pub(crate) static RELEASE: Script =
    script!("scripts/release_one.lua", "scripts/readers.lua", "scripts/places.lua", "scripts/release.lua");
pub(crate) static SHARE: Script = script!("scripts/readers.lua", "scripts/share.lua");

/// Makes the server track the keys that the next command reads.
pub(crate) const CACHING: Command<'static> = Command::Other { name: "CLIENT", args: &[b"CACHING", b"YES"] };

/// Returns the texts of the scripts that the handshake loads, with `SCRIPT LOAD`.
///
/// The server loads the other scripts when they are first sent, in full.
pub(crate) fn scripts() -> [&'static str; 4] {
    [ACQUIRE.text, EXTEND.text, RELEASE.text, INSPECT.text]
}

/// Returns the keys and arguments of [`INSPECT`].
pub(crate) fn inspection<'a>(options: &Options, resource: &'a Resource) -> ScriptArgs<'a> {
    ScriptArgs { keys: smallvec![key(&options.keys.prefix, resource)], args: SmallVec::new() }
}

/// Watches a resource, and reads its availability.
pub(crate) async fn watch<C: Connection>(
    connection: &C,
    hub: &Hub,
    options: &Options,
    resource: &Resource,
) -> Result<node::Reply, NodeError> {
    let key = key(&options.keys.prefix, resource);
    let args: &[&[u8]] = &[&key];
    let reads = ["PTTL", "GET"].map(|name| Command::Other { name, args });
    let (changed, replies) = begin_watch(connection, hub, &key, [CACHING, reads[0], reads[1]]).await?;
    let (pair, holder) = replies.split_at(2.min(replies.len()));
    let watch = Watch::new(reply::availability(pair)?, changed).held_by(reply::token(holder));
    Ok(node::Reply::Watching(watch))
}

/// Same as [`watch`], except that readers count as free. The time and the holder are read after the type, so they are only
/// hints.
pub(crate) async fn watch_shared<C: Connection>(
    connection: &C,
    hub: &Hub,
    options: &Options,
    resource: &Resource,
) -> Result<node::Reply, NodeError> {
    let key = key(&options.keys.prefix, resource);
    let args: &[&[u8]] = &[&key];
    let reads = ["TYPE", "PTTL", "GET"].map(|name| Command::Other { name, args });
    let (changed, replies) =
        begin_watch(connection, hub, &key, [CACHING, reads[0], reads[1], reads[2]]).await?;
    let (availability, holder) = replies.split_at(3.min(replies.len()));
    let watch = Watch::new(reply::shared_availability(availability)?, changed).held_by(reply::token(holder));
    Ok(node::Reply::Watching(watch))
}

/// Sends the commands of a watch. Returns its notification, and the replies.
async fn begin_watch<C: Connection, const COUNT: usize>(
    connection: &C,
    hub: &Hub,
    key: &[u8],
    commands: [Command<'_>; COUNT],
) -> Result<(Changed, Vec<Reply>), NodeError> {
    // Registered before the request: the push may arrive together with the reply.
    let changed = hub.watch(key);
    let replies =
        connection.pipeline(commands.map(C::pack).into()).await.map_err(|failure| unanswered(&failure))?;
    Ok((changed, replies))
}
