//! The program of a client that is not drawn from the seed.

use std::time::Duration;

/// The program of one client, which locks one resource: when it requests the lock, and its behavior under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// The time of the first request, after the beginning.
    pub starts: Duration,
    /// The TTL of the lock.
    pub ttl: Duration,
    /// The longest time that it waits for the lock; `None` for a single attempt.
    pub waits: Option<Duration>,
    /// The time for which it works under the lock. It then releases the lock.
    pub works: Duration,
    /// The time from a release, or from a failed request, to the next request; `None` for a single request.
    pub rests: Option<Duration>,
    /// If `true`, the lock is renewed until the work ends.
    pub renews: bool,
    /// If `true`, the lock has a fencing token, and the client writes to a resource that checks it.
    pub fenced: bool,
    /// If `true`, it checks its lease right before each action, and stops when the lease is lost.
    pub checks: bool,
}
