//! Acquires one lock again and again, while a file determines whether any other process holds it as well.
//!
//! Under the lock the process creates the file, which fails if the file of another holder exists. It removes the file
//! before the release.

use std::fs::{File, remove_file};
use std::io::ErrorKind::AlreadyExists;
use std::time::Duration;

use redlock_core::{Redlock, ReleaseOutcome};

use super::Outcome;

const TTL: Duration = Duration::from_secs(10);
const RETRY_DELAY: Duration = Duration::from_millis(2);

pub(super) async fn main(redlock: &Redlock, cycles: u32, file: &str) -> Outcome<()> {
    let mut overlaps = 0;
    for _ in 0..cycles {
        let guard = redlock.lock("contended", TTL).retry_delay(RETRY_DELAY).wait_unbounded().await?;
        match File::create_new(file) {
            Ok(_) => {
                tokio::task::yield_now().await;
                remove_file(file)?;
            }
            Err(error) if error.kind() == AlreadyExists => overlaps += 1,
            Err(error) => return Err(error.into()),
        }
        // Any other outcome means that the machine was paused for longer than the TTL.
        let released = guard.release().await?;
        assert_eq!(ReleaseOutcome::Released, released);
    }
    redlock.close().await;
    println!("{cycles} cycles, {overlaps} overlaps");
    if overlaps == 0 { Ok(()) } else { Err("two processes held one lock".into()) }
}
