//! Work that runs only while its lock is held.
//!
//! The work is polled here, in its caller's task, and never after the lock is lost: the clock is read before each of
//! its polls. The clock is read again when the work has finished, because the lock may be lost during that poll. The
//! output is then part of the error.
//!
//! The guard is dropped last. Thus the work has been dropped by the time the lock is released, even if it panicked.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::client::guard::Guard;
use crate::client::kind::Kind;
use crate::client::lease::Lease;
use crate::client::run_error::RunError;
use crate::telemetry;
use crate::types::lease_state::{LeaseState, Loss};
use crate::types::report::ReleaseOutcome;

/// The end of the work.
pub(crate) enum End<T> {
    /// The work finished while the lock was held.
    Finished(T),
    /// The work finished, and the lock was no longer held.
    FinishedWithoutLock(T, Loss),
    /// The work was dropped because the lock was lost.
    Canceled(Loss),
}

impl<K: Kind> Guard<K> {
    /// Runs `work` under the lock, and releases the lock. Returns the output of the work.
    ///
    /// Same as [`LockRequest::run`](crate::LockRequest::run) once the lock is held, except that the lock is renewed only
    /// if [keep-alive](Guard::keep_alive) is on.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let request = redlock.lock("report", Duration::from_secs(5)).keep_alive(KeepAlive::new());
    /// match request.try_now().await? {
    ///     Some(guard) => assert_eq!(42, guard.run(async |_lease| 42).await?),
    ///     None => println!("another client makes the report"),
    /// }
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) in the cases of [`LockRequest::run`](crate::LockRequest::run).
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, or the work panics, the work is dropped and the lock is released in the background.
    pub async fn run<F, W>(self, work: F) -> Result<W::Output, RunError<W::Output>>
    where
        F: FnOnce(Lease) -> W,
        W: Future,
    {
        let lease = self.lease();
        let end = while_held(&lease, work(lease.clone())).await;
        ended(self, &lease, end).await
    }
}

/// Returns the result of work that has ended, and releases the lock.
pub(crate) async fn ended<K: Kind, T>(guard: Guard<K>, lease: &Lease, end: End<T>) -> Result<T, RunError<T>> {
    match end {
        End::Finished(output) => released(guard, lease, output).await,
        End::FinishedWithoutLock(output, loss) => Err(finished_without_lock(lease, loss, output)),
        End::Canceled(loss) => Err(RunError::lost(lease.lost_error(loss, "the work was canceled"), None)),
    }
}

/// Polls the work while the lock is held.
pub(super) async fn while_held<W: Future>(lease: &Lease, work: W) -> End<W::Output> {
    let (mut work, mut end) = (pin!(work), pin!(lease.lost()));
    poll_fn(|cx| match end.as_mut().poll(cx) {
        Poll::Ready(loss) => Poll::Ready(End::Canceled(loss)),
        Poll::Pending => work.as_mut().poll(cx).map(|output| finished(lease, output)),
    })
    .await
}

/// Determines the end of work that has finished.
///
/// [`Lease::state`] alone is not sufficient: work that finishes within the margin before the deadline has finished in
/// time.
pub(crate) fn finished<T>(lease: &Lease, output: T) -> End<T> {
    if !lease.is_held() {
        if let LeaseState::Lost(loss) = lease.state() {
            return End::FinishedWithoutLock(output, loss);
        }
    }
    End::Finished(output)
}

/// Releases the lock after work that finished in time.
///
/// The release may find that the keys are already gone.
async fn released<K: Kind, T>(guard: Guard<K>, lease: &Lease, output: T) -> Result<T, RunError<T>> {
    match guard.release().await {
        Ok(ReleaseOutcome::AlreadyLost) => {
            let loss = Loss::Revoked { holder: None };
            lease.record.log_loss(&loss);
            Err(finished_without_lock(lease, loss, output))
        }
        Ok(_) => Ok(output),
        Err(error) => {
            telemetry::release_failed(&lease.record.claim, &error);
            Ok(output)
        }
    }
}

fn finished_without_lock<T>(lease: &Lease, loss: Loss, output: T) -> RunError<T> {
    RunError::lost(lease.lost_error(loss, "the work finished without it"), Some(output))
}
