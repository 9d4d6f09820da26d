//! The log messages of a node about its connection, and their rate limit.
//!
//! A failure is logged when it begins, when its reason changes, and every minute while it lasts. A flapping node would
//! log without end, so at most six failures are logged in a minute. The next message states how many were omitted. An
//! omitted state is logged as soon as the limit permits it, if it still lasts.

use std::time::Duration;

use redlock_core::runtime::Instant;

use crate::sync::{Mutex, locked};

/// The maximum number of failures that are logged in one period.
const MOST: u32 = 6;

/// The period of that limit, and the time after which a lasting failure is logged again.
const PERIOD: Duration = Duration::from_secs(60);

/// The connection state that a node has logged.
#[derive(Debug, Default)]
pub(crate) struct Journal(Mutex<Entries>);

impl Journal {
    /// Logs that the node has no connection, subject to the rate limit.
    pub(crate) fn down(&self, node: &str, reason: &str, now: Instant) {
        let unlogged = locked(&self.0).down(reason, now);
        match unlogged {
            Some(0) => tracing::warn!(node, reason, "node disconnected; retrying"),
            Some(unlogged) => {
                tracing::warn!(node, reason, unlogged, "node disconnected; retrying");
            }
            None => {}
        }
    }

    /// Logs that the node is connected, unless it is already known. `server`: the server that was reached, if the node is
    /// not named after it.
    pub(crate) fn up(&self, node: &str, server: Option<&str>) {
        if locked(&self.0).up() {
            tracing::info!(node, server, "node connected");
        }
    }
}

#[derive(Debug, Default)]
struct Entries {
    /// The last logged state: connected, or disconnected for this reason. `None` before the first.
    logged: Option<Result<(), String>>,
    /// The time when the last failure was logged.
    logged_at: Instant,
    /// The reason why the node is down, if it is.
    reason: Option<String>,
    /// The start of the current period.
    since: Option<Instant>,
    /// The number of failures that were logged in this period.
    count: u32,
    /// The number of failures that were omitted since the last logged one.
    unlogged: u64,
}

impl Entries {
    /// Returns the number of failures omitted before if this one is to be logged.
    fn down(&mut self, reason: &str, now: Instant) -> Option<u64> {
        let is_logged = matches!(&self.logged, Some(Err(logged)) if logged == reason);
        if is_logged && now.saturating_duration_since(self.logged_at) < PERIOD {
            self.reason = Some(reason.to_owned());
            return None;
        }
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= PERIOD) {
            (self.since, self.count) = (Some(now), 0);
        }
        let is_new = self.reason.as_deref() != Some(reason);
        self.reason = Some(reason.to_owned());
        if self.count < MOST {
            self.count += 1;
            (self.logged, self.logged_at) = (Some(Err(reason.to_owned())), now);
            // This failure may itself be one of the omitted ones.
            let left_out = std::mem::take(&mut self.unlogged);
            return Some(if is_new || is_logged { left_out } else { left_out.saturating_sub(1) });
        }
        self.unlogged += u64::from(is_new);
        None
    }

    /// Returns whether to log that the node is connected.
    fn up(&mut self) -> bool {
        self.reason = None;
        self.logged.replace(Ok(())) != Some(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    #[test]
    fn a_failure_is_logged_when_its_reason_changes_and_every_minute() {
        let mut entries = Entries::default();
        assert!(entries.up(), "the first connection");
        assert_eq!(Some(0), entries.down("lost", at(0)));
        assert_eq!(Some(0), entries.down("refused", at(0)));
        let logged = (1..=180).filter(|seconds| entries.down("refused", at(*seconds)).is_some());
        assert_eq!(vec![60, 120, 180], logged.collect::<Vec<_>>());
        assert_eq!(Some(0), entries.down("WRONGPASS", at(181)));
        assert!(entries.up() && !entries.up());
        assert_eq!(Some(0), entries.down("refused", at(182)));
    }

    #[test]
    fn a_repeated_message_counts_all_failures_omitted_before() {
        let mut entries = Entries::default();
        for second in 0..6 {
            assert_eq!((Some(0), true), (entries.down("lost", at(second)), entries.up()));
        }
        assert_eq!(Some(0), entries.down("lost", at(60)));
        for second in 61..66 {
            assert_eq!(Some(0), entries.down(&second.to_string(), at(second)));
        }
        assert_eq!(None, entries.down("omitted", at(66)));
        assert_eq!(None, entries.down("65", at(67)), "the logged state again");
        assert_eq!(Some(1), entries.down("65", at(125)), "repeated");
    }

    #[test]
    fn a_flapping_node_logs_six_failures_a_minute_with_the_total() {
        let mut entries = Entries::default();
        for minute in 0..10 {
            let failures: Vec<_> = (0..60)
                .map(|second| {
                    let failure = entries.down("lost", at(60 * minute + second));
                    (failure, entries.up())
                })
                .collect();
            let left_out = if minute == 0 { 0 } else { 54 };
            assert_eq!((Some(left_out), true), failures[0]);
            assert_eq!([(Some(0), true); 5], failures[1..6]);
            assert_eq!([(None, false); 54], failures[6..]);
        }
    }

    #[test]
    fn a_suppressed_failure_is_logged_later_if_it_lasts() {
        let mut entries = Entries::default();
        for _ in 0..6 {
            assert_eq!((Some(0), true), (entries.down("lost", at(0)), entries.up()));
        }
        assert_eq!((None, false), (entries.down("lost", at(1)), entries.up()));
        assert_eq!([None; 3], [2, 3, 59].map(|seconds| entries.down("refused", at(seconds))));
        assert_eq!(Some(1), entries.down("refused", at(60)), "one earlier failure was suppressed");
        assert_eq!(None, entries.down("refused", at(61)));
        assert!(entries.up());
    }
}
