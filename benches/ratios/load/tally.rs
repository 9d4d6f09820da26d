//! The results of many requests.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::timeout_at;

use crate::lane::{Percentiles, percentiles};

/// The end of a request: its time and its result. An error is represented by its kind.
pub(super) struct Attempt {
    pub(super) started: Instant,
    pub(super) ended: Instant,
    pub(super) outcome: Result<(), String>,
}

impl Attempt {
    pub(super) fn new(started: Instant, outcome: Result<(), String>) -> Self {
        Self { started, ended: Instant::now(), outcome }
    }
}

/// All requests of a measurement.
pub(super) struct Tally {
    began: Instant,
    last_success: Option<Instant>,
    latencies: Vec<Duration>,
    pub(super) errors: Errors,
}

impl Tally {
    /// Waits for all tasks, up to `limit` from now. Unfinished tasks are aborted.
    pub(super) async fn of(began: Instant, tasks: Vec<JoinHandle<Attempt>>, limit: Duration) -> Self {
        let until = Instant::now() + limit;
        let latencies = Vec::with_capacity(tasks.len());
        let mut tally = Self { began, last_success: None, latencies, errors: Errors::default() };
        for mut task in tasks {
            match timeout_at(until.into(), &mut task).await {
                Ok(attempt) => tally.add(attempt.expect("requests do not panic")),
                Err(_) => {
                    task.abort();
                    tally.errors.add("unfinished".to_owned());
                }
            }
        }
        tally
    }

    fn add(&mut self, attempt: Attempt) {
        match attempt.outcome {
            Ok(()) => {
                self.last_success = self.last_success.max(Some(attempt.ended));
                self.latencies.push(attempt.ended - attempt.started);
            }
            Err(kind) => self.errors.add(kind),
        }
    }

    pub(super) fn succeeded(&self) -> usize {
        self.latencies.len()
    }

    /// Returns a percentage of all requests.
    #[allow(clippy::cast_precision_loss)] // a few hundred thousands
    pub(super) fn share(&self) -> f64 {
        let all = self.succeeded() + self.errors.count();
        100.0 * self.succeeded() as f64 / all.max(1) as f64
    }

    /// Returns the time from the first request to the last success.
    pub(super) fn lasted(&self) -> Duration {
        self.last_success.map_or(Duration::ZERO, |last| last - self.began)
    }

    /// Returns the successes per second until the last success, or during `at_least`.
    #[allow(clippy::cast_precision_loss)] // a few hundred thousands
    pub(super) fn goodput(&self, at_least: Duration) -> f64 {
        let lasted = self.lasted().max(at_least).as_secs_f64();
        if lasted > 0.0 { self.succeeded() as f64 / lasted } else { 0.0 }
    }

    /// Returns the latency of the successful requests in microseconds, or `None` if there are none.
    pub(super) fn latency(&self) -> Option<Percentiles> {
        (!self.latencies.is_empty()).then(|| percentiles(self.latencies.clone()))
    }
}

/// The number of errors of each kind.
#[derive(Default)]
pub(super) struct Errors(BTreeMap<String, usize>);

impl Errors {
    pub(super) fn add(&mut self, kind: String) {
        *self.0.entry(kind).or_default() += 1;
    }

    pub(super) fn count(&self) -> usize {
        self.0.values().sum()
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no errors");
        }
        let mut separator = "";
        for (kind, count) in &self.0 {
            write!(f, "{separator}{count} x {kind}")?;
            separator = ", ";
        }
        Ok(())
    }
}
