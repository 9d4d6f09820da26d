//! Waiting for an event, with a limit that only a deadlock reaches.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

/// The time after which a test counts as hung. It is far longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the output of a future.
///
/// # Panics
///
/// Panics if the future is not ready within [`PATIENCE`].
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("the future hangs")
}

/// Waits for a condition that another task or a server fulfills.
///
/// # Panics
///
/// Panics if the condition does not hold within [`PATIENCE`].
pub async fn until(mut holds: impl AsyncFnMut() -> bool) {
    soon(async {
        while !holds().await {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Waits for a condition that another task or a server fulfills. Returns the time until then.
///
/// # Panics
///
/// Panics if the condition does not hold within `limit`; `what` describes it.
pub async fn eventually(what: &str, limit: Duration, mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(2)).await;
    }
    start.elapsed()
}
