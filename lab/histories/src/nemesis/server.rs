//! A server on a host, with a clock that can be set.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redlock_adapter_tests::clock::WrongClock;
use redlock_history_checker::Key;
use redlock_testkit::RedisServer;

use crate::host::Host;

/// The time between two changes of a clock that is slewed.
const TICK: Duration = Duration::from_millis(5);

pub(crate) struct Server {
    pub(crate) host: Host,
    clock: Arc<WrongClock>,
    offset: f64,
}

impl Server {
    /// Starts a server that keeps each write on disk.
    pub(crate) fn start(number: usize) -> Self {
        let host = Host::new(&format!("s{}", number + 1), number + 11);
        let builder = RedisServer::builder().persistent(true);
        let builder = builder.arg("--bind").arg("0.0.0.0").arg("--protected-mode").arg("no");
        let clock = host.within(|| WrongClock::with_rate(builder, 0.0));
        Self { host, clock: Arc::new(clock), offset: 0.0 }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}:{}", self.host.address, self.clock.server.port())
    }

    pub(crate) fn pause(&self) {
        self.clock.server.pause();
    }

    pub(crate) fn resume(&self) {
        self.clock.server.resume();
    }

    pub(crate) fn kill(&self) {
        self.clock.server.kill();
    }

    pub(crate) fn restart(&self) {
        self.host.within(|| self.clock.server.restart());
    }

    pub(crate) fn restart_empty(&self) {
        self.host.within(|| self.clock.server.restart_empty());
    }

    pub(crate) fn command(&self, words: &[&str]) -> String {
        self.host.within(|| self.clock.server.command(words))
    }

    /// Changes the difference of the clock from the right time, evenly over a time.
    pub(crate) fn set_clock(&mut self, offset: f64, over: Duration) -> JoinHandle<()> {
        let before = std::mem::replace(&mut self.offset, offset);
        let clock = Arc::clone(&self.clock);
        let start = Instant::now();
        thread::spawn(move || {
            while start.elapsed() < over {
                let share = start.elapsed().div_duration_f64(over);
                clock.set_ahead(before + (offset - before) * share.min(1.0));
                thread::sleep(TICK);
            }
            clock.set_ahead(offset);
        })
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        let names = self.host.within(|| self.clock.server.keys());
        let key = |key: String| {
            let ttl = self.command(&["PTTL", &key]).parse().expect("PTTL returns a number");
            Key { server: self.host.name.clone(), key, ttl }
        };
        names.into_iter().map(key).collect()
    }
}
