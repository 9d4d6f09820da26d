//! Leadership: work that one client at a time does, for as long as there are clients.
//!
//! A candidate requests the lock again and again. While it holds the lock, it is the leader and runs its work. The lock
//! excludes a second leader; this module only repeats what [`run`](crate::client::run) does once, and publishes it.

mod leadership;

use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;

use self::leadership::Reset;
pub use self::leadership::{Leadership, LeadershipState};
use crate::client::attempts;
use crate::client::guard::Guard;
use crate::client::handle::Handle;
use crate::client::kind::{Exclusive, Kind};
use crate::client::lease::Lease;
use crate::client::request::LockRequest;
use crate::client::run::{self, End};
use crate::client::run_error::RunError;
use crate::decide::candidacy;
use crate::runtime::{first, random};
use crate::telemetry;
use crate::types::error::Error;

/// A candidate for leadership: [`run`](Candidate::run) the work of the leader.
///
/// Created by [`LockRequest::lead`](crate::LockRequest::lead). One candidate at a time is the leader, on any of several
/// machines. The others wait without a limit, and one of them follows when the leader ends, fails or is lost.
///
/// # Handover
///
/// - A leader that resigns is replaced within milliseconds, if nodes [notify] waiters.
/// - A leader that crashes or loses its nodes is replaced when its TTL has expired. Thus choose a short TTL: a few
///   seconds.
/// - If too few nodes reply, there is no leader. Candidates request again after 50 ms to 800 ms.
///
/// A leader that was paused may overlap with its successor until it next reads the clock. Let the resources that it
/// changes check a [fencing token](LockRequest::fenced).
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
/// # use redlock_testkit::MemoryNode;
/// # use redlock_core::{Redlock, TokioRuntime};
/// use std::ops::ControlFlow;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
/// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
/// let candidate = redlock.lock("scheduler", Duration::from_secs(5)).lead();
/// let leadership = candidate.leadership();
/// tokio::spawn(async move {
///     // Other parts of the program.
///     println!("now {:?}", leadership.changed().await);
/// });
///
/// let jobs = candidate
///     .run(async |lease| {
///         // Called at the beginning of each term.
///         assert!(lease.is_held());
///         ControlFlow::Break(42) // all is done; `Continue` resigns and becomes a candidate again
///     })
///     .await?;
/// assert_eq!(42, jobs);
/// # Ok(()) }
/// ```
///
/// [notify]: https://github.com/redlock-rs/redlock/blob/main/docs/waiting.md
#[must_use = "a candidate does nothing until it runs"]
pub struct Candidate<K: Kind = Exclusive> {
    request: LockRequest<K>,
    leadership: Leadership,
    /// Publishes the end when the candidate is dropped, before or after its run.
    _end: Reset,
}

/// The end of one term.
enum Term<T> {
    /// The work is complete, or it was complete when the lock was lost.
    Complete(Result<T, RunError<T>>),
    /// The work was canceled, or has resigned.
    Over,
    /// The client was closed.
    Closed,
}

impl<K: Kind> LockRequest<K> {
    /// Makes the request a candidate for leadership.
    ///
    /// Its waits have no limit: [`max_wait`](LockRequest::max_wait) and [`wait_until`](LockRequest::wait_until) have no
    /// effect, and after [`max_attempts`](LockRequest::max_attempts) the candidate requests the lock again. The lock is
    /// kept alive. The other options of the request apply to each term.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// // The token increases with every term of any candidate.
    /// let candidate = redlock.lock("scheduler", ttl).owner("host-1").fenced().lead();
    /// let work = async |lease: Lease| {
    ///     // Any other client can find out who the leader is.
    ///     let inspection = redlock.inspect("scheduler").await;
    ///     ControlFlow::Break((lease.fencing_token(), inspection))
    /// };
    /// let (token, inspection) = candidate.run(work).await?;
    /// // Workers reject a job whose token is smaller than one that they have seen.
    /// assert!(token.is_some());
    /// assert_eq!(Some("host-1"), inspection?.holder().and_then(|by| by.owner()));
    /// # });
    /// ```
    pub fn lead(self) -> Candidate<K> {
        let leadership = Leadership::new(Arc::clone(self.handle()), self.common_resource());
        let end = leadership.end_on_drop();
        Candidate { request: self.wait_unbounded().kept_alive(), leadership, _end: end }
    }
}

impl<K: Kind> Candidate<K> {
    /// Returns a view of this candidate's leadership, for other tasks.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let candidate = redlock.lock("scheduler", ttl).lead();
    /// let leadership = candidate.leadership();
    ///
    /// // The status page shows whether this process is the leader.
    /// let page = || format!("leader: {}", leadership.is_leading());
    /// let work = async |_lease| ControlFlow::Break(page());
    /// assert_eq!("leader: true", candidate.run(work).await?);
    /// # });
    /// ```
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Runs `work` in each term of this candidate until the work is complete.
    ///
    /// `work` is called at the beginning of each term, with a view of the lock. The lock is kept alive meanwhile.
    ///
    /// - If it returns `Break(output)`, the work is complete: the lock is released, and the output is returned.
    /// - If it returns `Continue(())`, the candidate resigns. It requests the lock again after 50 ms to 100 ms, so that
    ///   others can go first.
    /// - If the lock is lost, the work is dropped, and the candidate requests the lock again. The same clocks apply as for
    ///   [`LockRequest::run`](crate::LockRequest::run).
    ///
    /// The wait has no limit: neither contention nor an outage of the nodes ends it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use std::ops::ControlFlow;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # async fn schedule() -> ControlFlow<()> { std::future::pending().await }
    /// # async fn shutdown() {}
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let candidate = redlock.lock("scheduler", ttl).lead();
    /// tokio::select! {
    ///     result = candidate.run(async |_lease| schedule().await) => result?,
    ///     () = shutdown() => println!("resigned"),
    /// }
    /// assert_eq!(0, redlock.close().await, "the lock is released");
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Shutdown
    ///
    /// To resign at once, drop this future, for example in `tokio::select!`. After
    /// [`Redlock::close`](crate::Redlock::close), the candidate drops its work, releases the lock and returns. `close`
    /// waits for that, so poll this future at the same time, or drop it first.
    ///
    /// # Errors
    ///
    /// - [`Closed`](crate::ErrorKind::Closed) after [`close`](crate::Redlock::close).
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) if the name, the TTL or the owner label is invalid.
    /// - [`WrongType`](crate::ErrorKind::WrongType) if the name is used for something other than a lock.
    /// - [`DamagedCounter`](crate::ErrorKind::DamagedCounter) if the lock is [fenced](LockRequest::fenced) and too many
    ///   nodes have a damaged fencing counter.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) if the lock is [fenced](LockRequest::fenced) and a node does not
    ///   support it.
    /// - [`Lost`](crate::ErrorKind::Lost), with the [output](RunError::output), if the work was complete but the lock was
    ///   no longer held then.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, or the work panics, the work is dropped and the lock is released in the background.
    pub async fn run<T, F, W>(self, mut work: F) -> Result<T, RunError<T>>
    where
        F: FnMut(Lease) -> W,
        W: Future<Output = ControlFlow<T>>,
    {
        let Self { request, leadership, _end } = self;
        let handle = Arc::clone(request.handle());
        // Outstanding work until the lock is released: `close` waits for it.
        let _ticket = handle.ticket();
        let mut failures = 0;
        loop {
            match request.clone().await {
                Ok(guard) => match serve(&handle, &leadership, guard, &mut work).await {
                    Term::Complete(result) => return result,
                    Term::Closed => return Err(RunError::not_run(Error::closed())),
                    Term::Over => failures = 0,
                },
                Err(error) if error.is_retryable() => failures += 1,
                Err(error) => return Err(RunError::not_run(error)),
            }
            attempts::pause(&handle, candidacy::pause(failures, random(&*handle.runtime))).await;
        }
    }
}

/// Runs the work for one term.
async fn serve<K, T, F, W>(handle: &Handle, leadership: &Leadership, guard: Guard<K>, work: &mut F) -> Term<T>
where
    K: Kind,
    F: FnMut(Lease) -> W,
    W: Future<Output = ControlFlow<T>>,
{
    let lease = guard.lease();
    let end = {
        // Ends before the lock is released, and after the work was dropped.
        let _term = leadership.lead(lease.clone());
        until_closed(handle, run::while_held(&lease, work(lease.clone()))).await
    };
    match end {
        None => {
            resign(guard).await;
            Term::Closed
        }
        Some(End::Finished(ControlFlow::Continue(()))) => {
            resign(guard).await;
            Term::Over
        }
        Some(End::Canceled(_) | End::FinishedWithoutLock(ControlFlow::Continue(()), _)) => Term::Over,
        Some(End::Finished(ControlFlow::Break(output))) => {
            Term::Complete(run::ended(guard, &lease, End::Finished(output)).await)
        }
        Some(End::FinishedWithoutLock(ControlFlow::Break(output), loss)) => {
            Term::Complete(run::ended(guard, &lease, End::FinishedWithoutLock(output, loss)).await)
        }
    }
}

/// Returns the output of `work`; `None` if the client is closed first.
async fn until_closed<T>(handle: &Handle, work: impl Future<Output = T>) -> Option<T> {
    let closing = handle.listen_for_closing();
    if handle.is_closed() {
        return None;
    }
    let mut work = pin!(work);
    let closed = async {
        closing.await;
        None
    };
    // The closing is checked first, because the work may be ready again and again.
    first(closed, async { Some(work.as_mut().await) }).await
}

/// Releases the lock. If too few nodes reply, the release continues in the background.
async fn resign<K: Kind>(guard: Guard<K>) {
    let lease = guard.lease();
    if let Err(error) = guard.release().await {
        telemetry::release_failed(&lease.record.claim, &error);
    }
}

impl<K: Kind> fmt::Debug for Candidate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, leadership, .. } = self;
        f.debug_struct("Candidate")
            .field("request", request)
            .field("state", &leadership.state())
            .finish_non_exhaustive()
    }
}
