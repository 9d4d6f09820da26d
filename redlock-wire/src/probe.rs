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

/// So long nothing must be answered before a connection is given up over which [`FAILURES`] requests have failed.
const SILENCE: Duration = Duration::from_millis(200);

/// The same as a number of [`SILENCE`]s, where fewer requests have failed: one alone may be a lost packet.
const LONG_SILENCE: u32 = 5;

/// A silence consists of so many timers, which must have rung all: a pause of this process counts for one of them at most.
const PARTS: u32 = 8;

/// So many requests without an answer make a short silence long enough. Each further one is a request that a server which
/// hangs carries out when it wakes.
pub(crate) const FAILURES: u32 = 3;

const PING: Command<'static> = Command::Other { name: "PING", args: &[] };

/// Completes when the server does not answer any more.
pub(crate) async fn unresponsive<K: Connection>(link: &Link<K>, runtime: &dyn Runtime) {
    loop {
        let doubted = link.listen_for_doubt();
        if !link.is_doubted() {
            first(doubted, runtime.sleep(INTERVAL)).await;
        }
        if !answers(link, runtime).await {
            return;
        }
    }
}

async fn answers<K: Connection>(link: &Link<K>, runtime: &dyn Runtime) -> bool {
    // Whatever is answered from now on takes this back.
    link.doubt(runtime.now());
    let mut reply = pin!(link.call(K::pack(PING)));
    for part in 1..=PARTS * LONG_SILENCE {
        if let First::Left(reply) = first(reply.as_mut(), runtime.sleep(SILENCE / PARTS)).await {
            if reply.is_ok() {
                link.answered();
            }
            // Otherwise the connection is lost, which whoever waits for that knows as well.
            return true;
        }
        link.probed(runtime.now());
        if !link.is_doubted() {
            return true;
        }
        if part >= PARTS && link.unanswered() >= FAILURES {
            return false;
        }
    }
    false
}
