//! Jobs that run once a period, on any of several machines.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::client::request::TryLockRequest;
use crate::client::run::{self, End};
use crate::client::run_error::RunError;
use crate::decide::once_per::Share;
use crate::lease::handle::Lease;
use crate::protocol::keep_for;
use crate::telemetry;

/// A job that runs once a period, on any of several machines.
///
/// Created by [`TryLockRequest::once_per`]. There is no scheduler: call [`run`](OncePer::run) on every machine at the
/// beginning of each period, for example by cron.
///
/// # Rule
///
/// - The first machine that acquires the lock runs the job. The lock is kept alive meanwhile.
/// - If the job succeeds, the lock is kept until 0.9 of the period after its acquisition. A whole period would skip every
///   second run.
/// - If the job fails or panics, or this future is dropped, the lock is released, and another machine can run the job.
/// - If the machine crashes during the job, another machine can run it once the TTL has expired.
///
/// If a majority of the nodes loses its data within the period, the job may run again.
#[must_use = "a job does nothing until it runs"]
pub struct OncePer {
    request: TryLockRequest,
    period: Duration,
}

impl OncePer {
    pub(crate) fn new(request: TryLockRequest, period: Duration) -> Self {
        Self { request, period }
    }

    /// Runs the job, unless it runs or has run in this period; then returns `None`.
    ///
    /// The job succeeds if it returns `Ok`. If too few nodes reply after the job, the lock cannot be kept. A warning is
    /// then logged, and the job may run again in this period.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// # let day = Duration::from_secs(24 * 3600);
    /// let report = async |_lease| Ok::<_, std::io::Error>("sent");
    /// let request = redlock.try_lock("nightly-report", ttl).once_per(day);
    /// assert!(request.run(report).await?.is_some());
    ///
    /// // The lock is kept for 0.9 of the period, so no machine repeats the job.
    /// let request = redlock.try_lock("nightly-report", ttl).once_per(day);
    /// assert!(request.run(report).await?.is_none());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// - The errors of [`TryLockRequest`] if the attempt failed. The job was not called.
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) if the period is out of bounds.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) if a node cannot [keep](crate::Guard::keep_for) a lock.
    /// - [`Lost`](crate::ErrorKind::Lost) in the cases of [`LockRequest::run`](crate::LockRequest::run).
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped during the job, or the job panics, the lock is released in the background.
    pub async fn run<T, E, F, W>(self, job: F) -> Result<Option<Result<T, E>>, RunError<Result<T, E>>>
    where
        F: FnOnce(Lease) -> W,
        W: Future<Output = Result<T, E>>,
    {
        let share = Share::of(self.period).map_err(RunError::not_run)?;
        let handle = self.request.handle().clone();
        keep_for::check_support(&handle).map_err(RunError::not_run)?;
        let Some(guard) = self.request.kept_alive().begin().await.map_err(RunError::not_run)? else {
            return Ok(None);
        };
        let lease = guard.lease();
        match run::while_held(&lease, job(lease.clone())).await {
            End::Finished(Ok(output)) => match share.rest(lease.0.since(), handle.now()) {
                Some(rest) => {
                    if let Err(error) = guard.keep_for(rest).await {
                        telemetry::keep_failed(lease.0.claim(), &error);
                    }
                    Ok(Some(Ok(output)))
                }
                None => run::ended(guard, &lease, End::Finished(Ok(output))).await.map(Some),
            },
            end => run::ended(guard, &lease, end).await.map(Some),
        }
    }
}

impl fmt::Debug for OncePer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, period } = self;
        f.debug_struct("OncePer").field("request", request).field("period", period).finish()
    }
}
