//! A directory of one server's own, gone when the server is.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) struct Directory(PathBuf);

impl Directory {
    /// Makes a new one, readable by nobody else: it holds the password. Short enough for a socket's path.
    pub(super) fn new() -> Self {
        use std::os::unix::fs::DirBuilderExt;

        static MADE: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("redlock-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Self(path),
                // Left by a process of the same number that was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot make the directory {}: {error}", path.display()),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Deletes what a server may have stored; it must not be running.
    pub(super) fn forget_data(&self) {
        for (name, delete) in [
            ("dump.rdb", fs::remove_file as fn(PathBuf) -> std::io::Result<()>),
            ("appendonly.aof", fs::remove_file),
            ("appendonlydir", fs::remove_dir_all),
        ] {
            match delete(self.0.join(name)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => panic!("cannot delete {name} of a stopped server: {error}"),
            }
        }
    }
}

/// Removes the directory; one that cannot be removed is left behind.
impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
