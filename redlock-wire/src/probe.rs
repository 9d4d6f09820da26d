//! Probes a server before its connection is ended.
//!
//! Dropped requests prove little: they may have waited in this process, and their replies may be unread in the socket.
//! Thus the supervisor, which runs where the connection is driven, sends a `PING` behind them. It ends the connection
//! only if no byte arrives for a while in which the process ran.
//!
//! The supervisor also probes a connection every five seconds. It thus detects an unreachable server, and one that
//! floods, within seconds. Without restart admission, `TIME` replaces the `PING` if the server permits it, so that the
//! rate of its clock is measured at no cost.

use std::pin::pin;
use std::time::Duration;

use redlock_core::runtime::Runtime;

use crate::clock::{TIME, reading};
use crate::clock_rate::MeasuredClock;
use crate::conn_state::Link;
use crate::connection::Connection;
use crate::first::{First, first};
use crate::handshake::is_forbidden;
use crate::message::{Command, Reply};

/// The interval between probes while no request is unanswered.
const INTERVAL: Duration = Duration::from_secs(5);

/// The shortest silence that counts. The node timeout applies instead if it is longer.
pub(crate) const MIN_SILENCE: Duration = Duration::from_millis(200);

/// The number of silences that end a connection with few unanswered requests.
///
/// Few is fewer than [`FAILURE_THRESHOLD`]. A single silence may be a lost packet.
const LONG_SILENCE: u32 = 5;

/// The number of silences that end any connection if the `PING` has no reply.
///
/// The server is then not known to be silent: this process may be busy, or the server sends without end.
const FLOOD: u32 = 25;

/// The number of timers in a silence; all must have fired. A pause of this process therefore counts for at most one of
/// them.
const PARTS: u32 = 8;

/// The reason reported when an unresponsive connection is ended.
pub(crate) const UNRESPONSIVE: &str = "the server stopped responding";

/// The reason reported when the connection was lost.
pub(crate) const LOST: &str = "the connection was lost";

/// The reason why a connection is given up if its server is a replica: the next attempt may reach the new master.
pub(crate) const REPLICA: &str = "the server is a replica";

/// The number of unanswered requests after which one silence is enough. Each further request is one that a hung server
/// carries out when it wakes.
pub(crate) const FAILURE_THRESHOLD: u32 = 3;

const PING: Command<'static> = Command::Other { name: "PING", args: &[] };

/// Completes when the server does not reply any more, and returns the reason. `silence` returns at least
/// [`MIN_SILENCE`]. `clock` records the time of the server, if probes are to read it.
pub(crate) async fn unresponsive<K: Connection>(
    link: &Link<K>,
    runtime: &dyn Runtime,
    silence: impl Fn() -> Duration,
    mut clock: Option<&MeasuredClock>,
) -> &'static str {
    loop {
        let doubted = link.listen_for_doubt();
        if !link.is_doubted() {
            first(doubted, runtime.sleep(INTERVAL)).await;
        }
        if let Some(reason) = probe(link, runtime, silence(), &mut clock).await {
            return reason;
        }
    }
}

/// Returns the reason for ending the connection, if there is one. Removes the clock if the server does not permit to
/// read it.
async fn probe<K: Connection>(
    link: &Link<K>,
    runtime: &dyn Runtime,
    silence: Duration,
    clock: &mut Option<&MeasuredClock>,
) -> Option<&'static str> {
    // Any reply from now on clears the suspicion.
    let sent = runtime.now();
    link.doubt(sent);
    let mut reply = pin!(link.call(K::pack(if clock.is_some() { TIME } else { PING })));
    let first_look = link.observe();
    let (mut before, mut silent) = (first_look, 0);
    for _ in 0..PARTS * FLOOD {
        match first(reply.as_mut(), runtime.sleep(silence / PARTS)).await {
            First::Left(Ok(reply)) => {
                link.answered();
                match (reading(sent, &reply, runtime), &reply) {
                    (Some(reading), _) => clock.iter().for_each(|clock| clock.record(reading)),
                    (None, Reply::Error(message)) if is_forbidden(message) => *clock = None,
                    (None, _) => {}
                }
                return None;
            }
            First::Left(Err(_)) => return Some(LOST),
            First::Right(()) => link.probed(runtime.now()),
        }
        if !link.is_doubted() {
            return None;
        }
        let now = link.observe();
        silent = match (first_look, before, now) {
            (_, Some(before), Some(now)) if now.reads != before.reads => 0,
            // The client has sent nothing since the probe began, or has not read since then. This is not evidence
            // against the server.
            (Some(first), _, Some(now)) if now.writes == first.writes || !now.found_nothing => silent,
            _ => silent + 1,
        };
        before = now;
        let limit = if link.unanswered() >= FAILURE_THRESHOLD { PARTS } else { PARTS * LONG_SILENCE };
        if silent >= limit {
            return Some(UNRESPONSIVE);
        }
    }
    Some(UNRESPONSIVE)
}
