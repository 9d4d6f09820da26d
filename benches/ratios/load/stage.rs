//! Five servers, a runtime and a lock for one measurement, and the leftovers of the measurement.

use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant};

use redlock_testkit::RedisServer;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use super::client::{Client, Kind};
use crate::groups::servers;
use crate::lane::Flavor;

/// The maximum time of `close()`.
const CLOSING: Duration = Duration::from_secs(30);

/// The maximum number of attempts for the first lock.
const WARMING: usize = 20;

pub(super) struct Stage {
    pub(super) servers: Vec<RedisServer>,
    pub(super) client: Client,
    pub(super) runtime: Runtime,
}

impl Stage {
    /// Starts servers and connects to them.
    pub(super) fn new(kind: Kind, flavor: Flavor) -> Self {
        let (servers, urls) = servers(5);
        let runtime = match flavor {
            Flavor::CurrentThread => Builder::new_current_thread().enable_all().build(),
            Flavor::MultiThread => Builder::new_multi_thread().enable_all().build(),
        };
        let runtime = runtime.expect("the runtime starts");
        let client = runtime.block_on(async {
            let client = kind.connect(&urls);
            // Other load of the machine may make the first attempts fail.
            for _ in 0..WARMING {
                let done = client.cycle("warm".to_owned()).await;
                // Servers that the quorum did not need get time to connect too.
                sleep(Duration::from_millis(100)).await;
                if done.is_ok() {
                    break;
                }
            }
            client
        });
        Self { servers, client, runtime }
    }

    pub(super) fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.runtime.block_on(work)
    }

    /// Closes the lock and counts the keys that begin with `prefix`.
    pub(super) fn end(self, prefix: &str) -> Ending {
        let Self { servers, client, runtime } = self;
        let start = Instant::now();
        let closed = runtime.block_on(async { timeout(CLOSING, client.close()).await.ok() });
        let lasted = start.elapsed();
        if matches!(client, Client::Rslock(_)) {
            // Releases may still be in flight, and `rslock` does not wait for them.
            runtime.block_on(async { sleep(Duration::from_secs(1)).await });
        }
        let of_prefix =
            |server: &RedisServer| server.keys().iter().filter(|key| key.starts_with(prefix)).count();
        let keys = servers.iter().map(of_prefix).sum();
        drop(client);
        runtime.shutdown_timeout(Duration::from_secs(1));
        Ending { closed, lasted, keys }
    }
}

/// The result of `close()`, and the keys left on the servers.
pub(super) struct Ending {
    /// The number of abandoned cleanups, or `None` if `close()` did not return in time.
    closed: Option<u64>,
    lasted: Duration,
    pub(super) keys: usize,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.lasted.as_secs_f64();
        match self.closed {
            Some(0) => write!(f, "closed in {seconds:.1} s")?,
            Some(abandoned) => write!(f, "closed in {seconds:.1} s ({abandoned} cleanups abandoned)")?,
            None => write!(f, "not closed after {seconds:.1} s")?,
        }
        write!(f, ", {} keys left", self.keys)
    }
}
