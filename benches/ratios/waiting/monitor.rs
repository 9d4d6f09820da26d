//! The commands that a server carries out in a period, from `MONITOR`.

use std::time::Duration;

use futures_util::StreamExt;
use redlock_testkit::RedisServer;
use tokio::time::sleep;

pub(super) struct Commands {
    lines: Vec<String>,
    lasts: Duration,
}

impl Commands {
    /// Records the commands for `lasts`.
    pub(super) async fn during(server: &RedisServer, lasts: Duration) -> Self {
        let client = redis::Client::open(server.url()).expect("a valid URL");
        let mut monitor = client.get_async_monitor().await.expect("the server accepts MONITOR");
        let lines = monitor.on_message().take_until(sleep(lasts)).collect().await;
        Self { lines, lasts }
    }

    /// Returns the commands per second that clients send and whose line contains `part`.
    pub(super) fn requests_with(&self, part: &str) -> f64 {
        self.rate(|line| !line.contains(" lua]") && line.contains(part))
    }

    /// Returns the commands per second, including those within scripts.
    pub(super) fn all(&self) -> f64 {
        self.rate(|_| true)
    }

    #[allow(clippy::cast_precision_loss)] // some thousands
    fn rate(&self, counts: impl Fn(&str) -> bool) -> f64 {
        self.lines.iter().filter(|line| counts(line)).count() as f64 / self.lasts.as_secs_f64()
    }
}
