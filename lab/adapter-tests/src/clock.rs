//! Real servers whose wall clock is wrong.

use std::fs;
use std::io::Write;
use std::process::Command;

use redlock_testkit::{RedisServer, RedisServerBuilder};
use tempfile::TempDir;

/// The source of the library that replaces the clock of the server.
const SOURCE: &str = include_str!("../resources/clock.c");

/// A server whose clock is right at its start, and then runs at another speed or is set forward.
pub struct WrongClock {
    /// The server.
    pub server: RedisServer,
    folder: TempDir,
}

impl WrongClock {
    /// Same as [`with_rate`](Self::with_rate), with the default options of a server.
    pub(crate) fn start(rate: f64) -> Self {
        Self::with_rate(RedisServer::builder(), rate)
    }

    /// Starts a server whose clock runs faster by `rate`. A rate of -1 stops the clock.
    ///
    /// The program is that of `REDLOCK_SERVER`, or else `redis-server`.
    ///
    /// # Panics
    ///
    /// Panics if there is no C compiler `cc` in the `PATH`, or the server does not start.
    pub fn with_rate(builder: RedisServerBuilder, rate: f64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (source, library, ahead) = (file("clock.c"), file("clock.so"), file("ahead"));
        fs::write(&ahead, 0_f64.to_ne_bytes()).unwrap();
        fs::write(&source, SOURCE).unwrap();
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o", &library, &source]).output();
        let compiled = compiled.expect("the tests of clocks need a C compiler, cc, in the PATH");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let builder = builder.env("CLOCK_RATE", rate.to_string());
        let builder = builder.env("CLOCK_FILE", ahead).env("LD_PRELOAD", library);
        Self { server: builder.start(), folder }
    }

    /// Sets the clock to be this many seconds ahead of the clock at the start.
    pub fn set_ahead(&self, seconds: f64) {
        let mut file = fs::OpenOptions::new().write(true).open(self.folder.path().join("ahead")).unwrap();
        file.write_all(&seconds.to_ne_bytes()).unwrap();
    }
}
