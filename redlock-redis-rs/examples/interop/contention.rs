//! Runs both sides at once, for a number of rounds, with an independent judge.
//!
//! While it holds the lock, a side creates a file that can exist only once, appends its mark to a log, and sleeps a
//! millisecond. It then removes the file and releases. A file that already exists is an overlap. Both sides continue
//! until the log is full, so that the last round is as contended as the first.

use std::error::Error;
use std::fs::{File, OpenOptions, remove_file};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

use redlock_redis_rs::{Redlock, ReleaseOutcome};
use tokio::time::sleep;

use crate::peer::Peer;

/// The TTL of a round.
///
/// It is long enough that no round outlasts it, and short enough that leftover keys of a client delay the others only
/// briefly.
const TTL: Duration = Duration::from_secs(3);
const RETRY_DELAY: Duration = Duration::from_millis(4);

pub(crate) struct Outcome {
    pub(crate) own_rounds: usize,
    pub(crate) peer_rounds: usize,
    /// The number of times that the lock changed sides.
    pub(crate) changes: usize,
    pub(crate) overlaps: usize,
}

/// Contends for two names. They exclude each other only if `own_name` and `peer_name` are the same lock.
pub(crate) async fn contend(
    redlock: &Redlock,
    own_name: &str,
    peer: &mut Peer,
    peer_name: &str,
    rounds: usize,
) -> Result<Outcome, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().to_str().ok_or("the name of the temporary folder is not text")?;
    let line = format!("contend {peer_name} {} {path} t {rounds}", TTL.as_millis());
    let (own, other) = tokio::join!(alone(redlock, own_name, folder.path(), rounds), peer.command(&line));
    let (mut overlaps, other) = (own?, other?);
    let (_, peer_overlaps) = other.split_once(' ').ok_or("rounds and overlaps")?;
    overlaps += peer_overlaps.parse::<usize>()?;
    let log = std::fs::read(folder.path().join("log"))?;
    let own_rounds = log.iter().map(|mark| usize::from(*mark == b'o')).sum();
    let changes = log.windows(2).filter(|pair| pair[0] != pair[1]).count();
    Ok(Outcome { own_rounds, peer_rounds: log.len() - own_rounds, changes, overlaps })
}

/// Runs the rounds of this side. Returns the number of overlaps.
async fn alone(redlock: &Redlock, name: &str, folder: &Path, rounds: usize) -> Result<usize, Box<dyn Error>> {
    let (judge, log) = (folder.join("judge"), folder.join("log"));
    let mut overlaps = 0;
    loop {
        let guard = redlock.lock(name, TTL).retry_delay(RETRY_DELAY).wait_unbounded().await?;
        let alone = match File::create_new(&judge) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error.into()),
        };
        overlaps += usize::from(!alone);
        let mut log = OpenOptions::new().create(true).append(true).open(&log)?;
        log.write_all(b"o")?;
        let last = log.metadata()?.len() >= rounds.try_into()?;
        sleep(Duration::from_millis(1)).await;
        if alone {
            remove_file(&judge)?;
        }
        // If the machine stops for longer than the TTL, the round proves nothing.
        if guard.release().await? != ReleaseOutcome::Released {
            return Err("a round has outlasted its lock".into());
        }
        if last {
            return Ok(overlaps);
        }
        sleep(Duration::from_millis(2)).await;
    }
}
