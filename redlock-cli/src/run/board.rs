//! The deadline of the lock, in a small file in memory that keeper and supervisor share.
//!
//! The deadline is not sent as a message. Otherwise, a supervisor that was stopped for an hour would find a queue of
//! old deadlines, and stop its command at the first one. The board always has the present deadline, and the keeper
//! never blocks on it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use redlock_redis_rs::runtime::Instant;

/// A deadline that two processes see.
pub(crate) struct Board(File);

impl Board {
    /// Creates an empty board, whose deadline has passed.
    pub(crate) fn new() -> io::Result<Self> {
        let board = Self(anonymous_file()?);
        board.set(Instant::ORIGIN)?;
        Ok(board)
    }

    /// Returns a handle for another process.
    pub(crate) fn share(&self) -> io::Result<OwnedFd> {
        Ok(self.0.try_clone()?.into())
    }

    pub(crate) fn set(&self, deadline: Instant) -> io::Result<()> {
        let nanos = nanos(deadline);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&nanos.to_ne_bytes());
        bytes[8..].copy_from_slice(&(!nanos).to_ne_bytes());
        self.0.write_all_at(&bytes, 0)
    }

    /// Returns the deadline, or `None` if it is being written at this moment.
    pub(crate) fn get(&self) -> Option<Instant> {
        let mut bytes = [0; 16];
        self.0.read_exact_at(&mut bytes, 0).ok()?;
        let (first, second) = bytes.split_at(8);
        let nanos = u64::from_ne_bytes(first.try_into().ok()?);
        let check = u64::from_ne_bytes(second.try_into().ok()?);
        (nanos == !check).then(|| Instant::since_origin(std::time::Duration::from_nanos(nanos)))
    }
}

impl From<OwnedFd> for Board {
    fn from(file: OwnedFd) -> Self {
        Self(file.into())
    }
}

fn nanos(instant: Instant) -> u64 {
    u64::try_from(instant.elapsed_since_origin().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn anonymous_file() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};

    Ok(memfd_create("redlock-deadline", MemfdFlags::CLOEXEC)?.into())
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn anonymous_file() -> io::Result<File> {
    let path = std::env::temp_dir().join(format!("redlock-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_other_process_sees_the_last_deadline() {
        let board = Board::new().unwrap();
        assert_eq!(Some(Instant::ORIGIN), board.get());
        let other = Board::from(board.share().unwrap());
        for seconds in [5, 9] {
            let deadline = Instant::since_origin(Duration::from_secs(seconds));
            other.set(deadline).unwrap();
            assert_eq!(Some(deadline), board.get());
        }
    }

    #[test]
    fn a_partly_written_deadline_is_not_read() {
        let board = Board::new().unwrap();
        board.0.write_all_at(&7_u64.to_ne_bytes(), 0).unwrap();
        assert_eq!(None, board.get());
    }
}
