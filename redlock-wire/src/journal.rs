//! What a node logs about its connection, and how often.
//!
//! A failure is logged when it begins and when its reason changes. A node that flaps would log without end, so a minute has
//! six failures at most; the next message says how many were left out. A state that was left out is logged as soon as that
//! is allowed again, if it still lasts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redlock_core::Instant;

/// So many failures are logged in each period.
const MOST: u32 = 6;
const PERIOD: Duration = Duration::from_secs(60);

/// What a node has logged about its connection.
#[derive(Debug, Default)]
pub(crate) struct Journal(Mutex<Entries>);

impl Journal {
    /// The node has no connection.
    pub(crate) fn down(&self, node: &str, reason: &str, now: Instant) {
        let unlogged = self.0.lock().unwrap_or_else(PoisonError::into_inner).down(reason, now);
        match unlogged {
            Some(0) => tracing::warn!(node, reason, "not connected; trying again until it is"),
            Some(unlogged) => {
                tracing::warn!(node, reason, unlogged, "not connected; trying again until it is");
            }
            None => {}
        }
    }

    /// The node is connected.
    pub(crate) fn up(&self, node: &str) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).up() {
            tracing::info!(node, "connected");
        }
    }
}

#[derive(Debug, Default)]
struct Entries {
    /// What was logged last: connected, or not for this reason. Nothing yet.
    logged: Option<Result<(), String>>,
    /// Why the node is down, if it is.
    reason: Option<String>,
    /// When the period began.
    since: Option<Instant>,
    /// Failures that were logged in this period.
    count: u32,
    /// Failures that were not logged since the last one that was.
    unlogged: u64,
}

impl Entries {
    /// Whether to log that there is no connection, and how many failures were not logged before.
    fn down(&mut self, reason: &str, now: Instant) -> Option<u64> {
        if matches!(&self.logged, Some(Err(logged)) if logged == reason) {
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
            self.logged = Some(Err(reason.to_owned()));
            // It may be one that was left out itself.
            let left_out = std::mem::take(&mut self.unlogged);
            return Some(if is_new { left_out } else { left_out.saturating_sub(1) });
        }
        self.unlogged += u64::from(is_new);
        None
    }

    /// Whether to log that there is one.
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
    fn a_failure_is_logged_once_and_again_when_its_reason_changes() {
        let mut entries = Entries::default();
        assert!(entries.up(), "the first connection");
        assert_eq!(Some(0), entries.down("lost", at(0)));
        assert_eq!(Some(0), entries.down("refused", at(0)));
        assert_eq!([None; 3], [1, 2, 300].map(|seconds| entries.down("refused", at(seconds))));
        assert_eq!(Some(0), entries.down("WRONGPASS", at(301)));
        assert!(entries.up() && !entries.up());
        assert_eq!(Some(0), entries.down("refused", at(302)));
    }

    #[test]
    fn a_node_that_flaps_logs_six_failures_a_minute_and_says_how_many_there_were() {
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
    fn what_was_left_out_is_logged_later_if_it_lasts() {
        let mut entries = Entries::default();
        for _ in 0..6 {
            assert_eq!((Some(0), true), (entries.down("lost", at(0)), entries.up()));
        }
        assert_eq!((None, false), (entries.down("lost", at(1)), entries.up()));
        assert_eq!([None; 3], [2, 3, 59].map(|seconds| entries.down("refused", at(seconds))));
        assert_eq!(Some(1), entries.down("refused", at(60)), "and the one before it");
        assert_eq!(None, entries.down("refused", at(61)));
        assert!(entries.up());
    }
}
