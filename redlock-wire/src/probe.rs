//! Whether a server still answers: found out before its connection is given up.
//!
//! Requests that were given up prove little. They may have waited in this process, and their replies may lie in the socket.
//! So the supervisor, which lives where the connection is driven, sends a `PING` behind them, and gives the connection up
//! only if nothing at all was answered over it for a while in which the process ran. It does so as well while nothing is
//! asked for: a server, or the way to it, that is gone is noticed within seconds, and so is one that floods.

use std::pin::pin;
use std::time::Duration;

use redlock_core::Runtime;

use crate::connection::{Command, Connection};
use crate::first::{First, first};
use crate::slot::Link;

/// After this long without doubt the server is asked.
const INTERVAL: Duration = Duration::from_secs(5);

/// A server is silent that has not answered for so long, or for as long as a request may take if that is longer.
pub(crate) const SILENCE: Duration = Duration::from_millis(200);

/// So many silences end a connection over which fewer than [`FAILURES`] requests have failed: one may be a lost packet.
const LONG_SILENCE: u32 = 5;

/// A silence consists of so many timers, which must have rung all: a pause of this process counts for one of them at most.
const PARTS: u32 = 8;

/// Why a connection is given up that is not answered over.
pub(crate) const UNRESPONSIVE: &str = "the server has stopped answering";

/// Why there is no connection any more.
pub(crate) const LOST: &str = "the connection was lost";

/// So many requests without an answer make a short silence long enough. Each further one is a request that a server which
/// hangs carries out when it wakes.
pub(crate) const FAILURES: u32 = 3;

const PING: Command<'static> = Command::Other { name: "PING", args: &[] };

/// Completes when the server does not answer any more, and returns why. `silence` is at least [`SILENCE`].
pub(crate) async fn unresponsive<K: Connection>(
    link: &Link<K>,
    runtime: &dyn Runtime,
    silence: impl Fn() -> Duration,
) -> &'static str {
    loop {
        let doubted = link.listen_for_doubt();
        if !link.is_doubted() {
            first(doubted, runtime.sleep(INTERVAL)).await;
        }
        if let Some(reason) = probe(link, runtime, silence()).await {
            return reason;
        }
    }
}

/// Why the connection is to be given up, if it is.
async fn probe<K: Connection>(
    link: &Link<K>,
    runtime: &dyn Runtime,
    silence: Duration,
) -> Option<&'static str> {
    // Whatever is answered from now on takes this back.
    link.doubt(runtime.now());
    let mut reply = pin!(link.call(K::pack(PING)));
    for part in 1..=PARTS * LONG_SILENCE {
        match first(reply.as_mut(), runtime.sleep(silence / PARTS)).await {
            First::Left(Ok(_)) => {
                link.answered();
                return None;
            }
            First::Left(Err(_)) => return Some(LOST),
            First::Right(()) => link.probed(runtime.now()),
        }
        if !link.is_doubted() {
            return None;
        }
        if part >= PARTS && link.unanswered() >= FAILURES {
            return Some(UNRESPONSIVE);
        }
    }
    Some(UNRESPONSIVE)
}
