//! Jobs that run once a period, on any of several machines.

use std::future::Future;
use std::time::Duration;

use crate::client::attempts::{Attempted, CheckedRequest, Repetitions, pause};
use crate::client::guard::Guard;
use crate::client::held::Held;
use crate::client::kind::{Exclusive, Sole};
use crate::client::lease::Lease;
use crate::client::request::LockRequest;
use crate::client::run::{self, End};
use crate::client::run_error::RunError;
use crate::decide::backoff::{Backoff, RetryCause, RetryPolicy};
use crate::decide::once_per::{Share, default_wait};
use crate::telemetry;
use crate::types::error::{Error, ErrorKind};
use crate::types::instant::Instant;
use crate::types::token::{Fingerprint, Token};

/// The outcome of a job that runs once a period.
///
/// Handle all three cases: [`Undecided`](JobOutcome::Undecided) is not an error of the call. Possibly, no machine has run
/// the job in this period.
#[derive(Debug)]
#[must_use = "the job may not have run"]
pub enum JobOutcome<T> {
    /// The job ran here; contains its output.
    Ran(T),
    /// Another client or task holds the lock: it runs the job, or has run it in this period.
    ///
    /// Contains the holder, if it is known, with the [label](Fingerprint::owner) of its machine if it has one. If that job
    /// fails or crashes later, no machine runs the job until the next call.
    Elsewhere(Option<Fingerprint>),
    /// Within the time limit, it was not certain that another client holds the lock. The job was not called.
    ///
    /// Contains the last error: too few nodes replied, the votes were split, readers held the lock, it was reserved for
    /// another client that waits, another task was ahead, or this process was overloaded.
    Undecided(Error),
}

impl<T> JobOutcome<T> {
    /// Returns the output of the job, if it ran here.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let request = redlock.lock("nightly-report", Duration::from_secs(10));
    /// let day = Duration::from_secs(24 * 3600);
    /// let outcome = request.once_per(day, async |_lease| Ok::<_, std::io::Error>("sent")).await?;
    /// assert_eq!("sent", outcome.into_output().expect("it ran here").unwrap());
    /// # });
    /// ```
    pub fn into_output(self) -> Option<T> {
        match self {
            Self::Ran(output) => Some(output),
            Self::Elsewhere(_) | Self::Undecided(_) => None,
        }
    }
}

impl<K: Sole> LockRequest<K> {
    /// Runs a job once a period, on one of several machines.
    ///
    /// There is no scheduler: call this on every machine at the beginning of each period, for example by cron. `period`
    /// is 12 ms to 26 days, and counts from the first poll.
    ///
    /// # Rule
    ///
    /// - The first machine that acquires the lock runs the job. The lock is kept alive meanwhile.
    /// - If the job succeeds, which means that it returns `Ok`, the lock is kept until 0.9 of the period after the call. A
    ///   whole period would skip every second run.
    /// - If the job fails or panics, or this future is dropped, the lock is released, and another machine can run the job.
    /// - If the machine crashes during the job, another machine can run it once the TTL has expired.
    /// - If a majority of the nodes loses its data within the period, the job may run again. It may also run again if too
    ///   few nodes reply after the job, so that the lock cannot be kept. A warning is logged then.
    ///
    /// # Waiting
    ///
    /// The request does not wait for another machine that holds the lock. It waits while that is undecided: while too few
    /// nodes reply, or while the attempts of several machines split the votes. Thus an outage of a few seconds at the
    /// beginning of a period does not lose the period.
    ///
    /// The limit is a tenth of the period, and at most one minute. [`max_wait`](LockRequest::max_wait) and the other
    /// options of the request change it. With more than nine tenths of the period, a job may run twice in one period.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// use redlock_core::{JobOutcome, Redlock};
    ///
    /// # let day = Duration::from_secs(24 * 3600);
    /// let report = async |_lease| Ok::<_, std::io::Error>("sent");
    /// match redlock.lock("nightly-report", ttl).once_per(day, report).await? {
    ///     JobOutcome::Ran(result) => assert_eq!("sent", result.unwrap()),
    ///     JobOutcome::Elsewhere(holder) => println!("another machine runs it: {holder:?}"),
    ///     JobOutcome::Undecided(error) => eprintln!("possibly, no machine runs it: {error}"),
    /// }
    /// // The lock is kept for 0.9 of the period, so no machine repeats the job.
    /// let outcome = redlock.lock("nightly-report", ttl).once_per(day, report).await?;
    /// assert!(matches!(outcome, JobOutcome::Elsewhere(_)));
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// - The errors of [`LockRequest`], except those that are [`Undecided`](JobOutcome::Undecided). The job was not
    ///   called.
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) if the period is out of bounds.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) if a node cannot [keep](crate::Guard::keep_for) a lock.
    /// - [`Lost`](crate::ErrorKind::Lost) in the cases of [`run`](LockRequest::run).
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped during the job, or the job panics, the lock is released in the background.
    pub async fn once_per<T, E, F, W>(
        self,
        period: Duration,
        job: F,
    ) -> Result<JobOutcome<Result<T, E>>, RunError<Result<T, E>>>
    where
        F: FnOnce(Lease) -> W,
        W: Future<Output = Result<T, E>>,
    {
        let share = Share::of(period).map_err(RunError::not_run)?;
        let request = self.kept_alive().wait_by_default(default_wait(period));
        let (_, request, start, policy) = request.check().map_err(RunError::not_run)?;
        let handle = &request.handle;
        handle.check_keep().map_err(RunError::not_run)?;
        let decided = |outcome| telemetry::job_decided(&request.resources, request.label, outcome);
        let guard = match acquire(&request, start, policy).await {
            Ok(Decided::Acquired(held)) => {
                request.record(start, None);
                Guard::<Exclusive>::counted_as(K::NAME, held, ())
            }
            Ok(Decided::Elsewhere(holder)) => {
                request.record(start, Some(ErrorKind::Contended));
                decided("elsewhere");
                return Ok(JobOutcome::Elsewhere(holder));
            }
            Err(error) => {
                let error = request.failed(start, error);
                if is_undecided(&error) {
                    decided("undecided");
                    return Ok(JobOutcome::Undecided(error));
                }
                return Err(RunError::not_run(error));
            }
        };
        decided("ran");
        let lease = guard.lease();
        let end = run::while_held(&lease, job(lease.clone())).await;
        let rest = share.rest(start, handle.now());
        match (end, rest) {
            (End::Finished(Ok(output)), Some(rest)) => {
                if let Err(error) = guard.keep_for(rest).await {
                    telemetry::keep_failed(&lease.record.claim, &error);
                }
                Ok(JobOutcome::Ran(Ok(output)))
            }
            (end, _) => run::ended(guard, &lease, end).await.map(JobOutcome::Ran),
        }
    }
}

/// The certain end of the attempts of a job.
enum Decided {
    Acquired(Held),
    /// Another client or task holds the lock.
    Elsewhere(Option<Fingerprint>),
}

/// Returns whether a machine may run the job later although this request failed.
fn is_undecided(error: &Error) -> bool {
    use ErrorKind::{Contended, NoQuorum, Overloaded, TooSlow, Undecided};

    matches!(error.kind(), Contended | Undecided | Overloaded | NoQuorum | TooSlow)
}

/// Makes attempts until one succeeds, or one other holder of the lock is certain.
async fn acquire(request: &CheckedRequest, start: Instant, policy: RetryPolicy) -> Result<Decided, Error> {
    let policy = RetryPolicy { outlasts_outages: true, ..policy };
    let (handle, mut backoff, mut now) = (&request.handle, Backoff::new(&policy), start);
    let until = request.permit_until(start, &policy);
    let mut repetitions = Repetitions::until(policy.until);
    loop {
        let attempted = request.attempt_until_decided(now, until, &mut repetitions).await;
        let (cause, undecided) = match attempted {
            Ok(Attempted::Acquired(held)) => return Ok(Decided::Acquired(held)),
            Ok(Attempted::Busy(Some(holder))) => return Ok(Decided::Elsewhere(Some(holder.fingerprint()))),
            Ok(Attempted::Busy(None)) => (RetryCause::Contended, request.queued()),
            Err(error) if error.kind() == ErrorKind::Overloaded => (RetryCause::Unusable, error),
            Err(error) => return Err(error),
            Ok(Attempted::NotGranted(failure)) => {
                let Some(cause) = failure.retry_cause() else { return Err(request.error(failure)) };
                let holder = failure.holder();
                // Readers do not run the job, and a client that waits for the lock may have died.
                let is_job = holder.is_none_or(|holder| *holder != Token::of_readers() && !holder.is_place());
                if cause == RetryCause::Contended && !failure.is_split() && is_job {
                    return Ok(Decided::Elsewhere(holder.map(Token::fingerprint)));
                }
                (cause, request.error(failure))
            }
        };
        let Some(delay) = backoff.after(cause, handle.now(), request.random()) else { return Err(undecided) };
        pause(handle, delay).await;
        now = handle.now();
        repetitions.restart();
    }
}
