//! The private directory of a server, removed together with it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) struct Directory(PathBuf);

impl Directory {
    /// Creates a directory.
    ///
    /// Only the owner can read it, since it holds the password. The path is short enough for a socket.
    pub(super) fn new() -> Self {
        use std::os::unix::fs::DirBuilderExt;

        static MADE: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("redlock-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Self(path),
                // Left by a killed process with the same id.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot create the directory {}: {error}", path.display()),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Deletes the data that a server may have stored. The server must not be running.
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

/// Removes the directory. If that fails, the directory is left behind.
impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
