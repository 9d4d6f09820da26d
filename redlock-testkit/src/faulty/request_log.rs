//! The requests that a node has received.

use std::collections::VecDeque;
use std::fmt;

use redlock_core::IntoResource;
use redlock_core::node::{Claim, Operation, Request};

use super::matcher::Matcher;
use crate::memory::name;

/// The maximum number of requests that a log keeps. It bounds the memory of a long simulation.
const MAX_LEN: usize = 1024;

/// The latest requests that a [`Faulty`](crate::Faulty) node has received, oldest first: at most 1,024.
///
/// [`of`](RequestLog::of) and [`on`](RequestLog::on) select requests. The text has a line for each request, for the
/// message of a failed assertion:
///
/// ```
/// # use std::time::Duration;
/// use redlock_testkit::{block_on, fake_redlock};
///
/// let (redlock, nodes) = fake_redlock(1);
/// let guard = block_on(redlock.lock("orders:42", Duration::from_secs(10)))?;
/// let log = nodes[0].requests();
/// let holder = guard.fingerprint();
/// assert_eq!(format!("acquire \"orders:42\" for {holder}\n"), log.to_string());
/// # Ok::<(), redlock_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RequestLog(VecDeque<Request>);

impl RequestLog {
    pub(super) fn add(&mut self, request: Request) {
        if self.0.len() == MAX_LEN {
            self.0.pop_front();
        }
        self.0.push_back(request);
    }

    /// Selects the requests of a resource, also those that name others in addition.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_testkit::{block_on, fake_redlock};
    /// # let ttl = Duration::from_secs(10);
    /// let (redlock, nodes) = fake_redlock(1);
    /// let _guard = block_on(redlock.lock(["orders:42", "stock:7"], ttl))?;
    /// let log = nodes[0].requests();
    /// assert_eq!(1, log.of("stock:7").len());
    /// assert!(log.of("stock:8").is_empty());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the name is invalid.
    #[must_use]
    pub fn of(&self, resource: impl IntoResource) -> Self {
        self.select(&Matcher { resource: Some(name(resource)), ..Matcher::default() })
    }

    /// Selects the requests of an operation.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_testkit::{Operation, block_on, fake_redlock};
    /// # let ttl = Duration::from_secs(10);
    /// let (redlock, nodes) = fake_redlock(1);
    /// block_on(block_on(redlock.lock("orders:42", ttl))?.release())?;
    /// assert_eq!(1, nodes[0].requests().on(Operation::Release).len());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    #[must_use]
    pub fn on(&self, operation: Operation) -> Self {
        self.select(&Matcher { operation: Some(operation), ..Matcher::default() })
    }

    fn select(&self, matcher: &Matcher) -> Self {
        Self(self.iter().filter(|request| matcher.matches(request)).cloned().collect())
    }

    /// Returns the number of requests.
    ///
    /// ```
    /// # use redlock_testkit::fake_redlock;
    /// let (_redlock, nodes) = fake_redlock(1);
    /// assert_eq!(0, nodes[0].requests().len());
    /// ```
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no request.
    ///
    /// ```
    /// # use redlock_testkit::fake_redlock;
    /// let (_redlock, nodes) = fake_redlock(1);
    /// assert!(nodes[0].requests().is_empty(), "a new `Redlock` sends nothing");
    /// ```
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the requests, oldest first.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_testkit::{Request, block_on, fake_redlock};
    /// let (redlock, nodes) = fake_redlock(1);
    /// let ttl = Duration::from_secs(10);
    /// let _guard = block_on(redlock.lock("orders:42", ttl))?;
    /// let log = nodes[0].requests();
    /// assert!(matches!(log.iter().next(), Some(Request::Acquire(_, sent)) if sent.as_duration() == ttl));
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.0.iter()
    }
}

/// Formats a line for each request: its operation, its resources, and the fingerprint of its holder.
impl fmt::Display for RequestLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for request in &self.0 {
            write!(f, "{}", request.operation())?;
            for resource in request.resources() {
                write!(f, " {resource:?}")?;
            }
            if let Some(holder) = request.claim().map(Claim::token) {
                write!(f, " for {}", holder.fingerprint())?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_the_latest_requests() {
        let mut log = RequestLog::default();
        for number in 0..=MAX_LEN {
            log.add(Request::Inspect(name(number.to_string())));
        }
        assert_eq!(MAX_LEN, log.len());
        assert!(log.of("0").is_empty(), "the oldest is gone");
        assert_eq!("inspect \"1024\"\n", log.of("1024").to_string());
    }
}
