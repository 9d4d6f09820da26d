//! Leadership: work that one client at a time does, for as long as there are clients.
//!
//! A candidate requests the lock again and again. While it holds the lock, it is the leader and runs its work. The lock
//! excludes a second leader; this module only repeats what [`run`](crate::client::run) does once, and publishes it.

mod leadership;

use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use self::leadership::Reset;
pub use self::leadership::{Leadership, LeadershipState};
use crate::client::attempts;
use crate::client::guard::Guard;
use crate::client::handle::Handle;
use crate::client::lease::Lease;
use crate::client::request::LockRequest;
use crate::client::run::{self, End};
use crate::client::run_error::RunError;
use crate::decide::candidacy;
use crate::runtime::random;
use crate::telemetry;
use crate::types::error::Error;
use crate::types::resource::Resources;

/// A candidate for leadership: set options, then [`run`](Candidate::run) the work of the leader.
///
/// Created by [`Redlock::lead`](crate::Redlock::lead). One candidate at a time is the leader, on any of several
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
/// changes check a [fencing token](Candidate::fenced).
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
/// let candidate = redlock.lead("scheduler", Duration::from_secs(5));
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
pub struct Candidate {
    handle: Arc<Handle>,
    resources: Result<Resources, Error>,
    ttl: Duration,
    owner: Option<String>,
    fenced: bool,
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

impl Candidate {
    pub(crate) fn new(handle: Arc<Handle>, resources: Result<Resources, Error>, ttl: Duration) -> Self {
        let leadership = Leadership::default();
        let end = leadership.end_on_drop();
        Self { handle, resources, ttl, owner: None, fenced: false, leadership, _end: end }
    }

    /// Adds a fencing token to the lock of each term. Same as [`LockRequest::fenced`](crate::LockRequest::fenced).
    ///
    /// The token increases with every term of any candidate.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use std::ops::ControlFlow;
    /// # use redlock_core::{Lease, Redlock};
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let work = async |lease: Lease| ControlFlow::Break(lease.fencing_token());
    /// let token = redlock.lead("scheduler", ttl).fenced().run(work).await?;
    /// // Workers reject a job whose token is smaller than one that they have seen.
    /// assert!(token.is_some());
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn fenced(mut self) -> Self {
        self.fenced = true;
        self
    }

    /// Sets the owner label of the lock. Same as [`LockRequest::owner`](crate::LockRequest::owner).
    ///
    /// [`Redlock::inspect`](crate::Redlock::inspect) then returns the label of the leader on any machine.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use std::ops::ControlFlow;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let candidate = redlock.lead("scheduler", ttl).owner("host-1");
    /// // Any other client can find out who the leader is.
    /// let work = async |_| ControlFlow::Break(redlock.inspect("scheduler").await);
    /// let inspection = candidate.run(work).await??;
    /// assert_eq!(Some("host-1"), inspection.holder().and_then(|by| by.owner()));
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
    /// ```
    pub fn owner(mut self, label: impl Into<String>) -> Self {
        self.owner = Some(label.into());
        self
    }

    /// Returns a view of this candidate's leadership, for other tasks.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use std::ops::ControlFlow;
    /// # use redlock_core::Redlock;
    /// # use redlock_testkit::{MemoryNode, ThreadRuntime, block_on};
    /// # block_on(async {
    /// # let redlock = Redlock::builder(ThreadRuntime).node(MemoryNode::new("a")).build()?;
    /// # let ttl = Duration::from_secs(10);
    /// let candidate = redlock.lead("scheduler", ttl);
    /// let leadership = candidate.leadership();
    ///
    /// // The status page shows whether this process is the leader.
    /// let page = || format!("leader: {}", leadership.is_leading());
    /// let work = async |_lease| ControlFlow::Break(page());
    /// assert_eq!("leader: true", candidate.run(work).await?);
    /// # Ok::<_, redlock_core::Error>(()) }).unwrap();
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
    /// let candidate = redlock.lead("scheduler", ttl);
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
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) if the lock is [fenced](Candidate::fenced) and a node does not
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
        let Self { handle, resources, ttl, owner, fenced, leadership, _end } = self;
        let resources = resources.map_err(RunError::not_run)?;
        // Outstanding work until the lock is released: `close` waits for it.
        let _ticket = handle.ticket();
        let mut failures = 0;
        loop {
            let request = LockRequest::new(Arc::clone(&handle), Ok(resources.clone()), ttl);
            let mut request = request.wait_unbounded().kept_alive();
            if let Some(owner) = &owner {
                request = request.owner(owner);
            }
            if fenced {
                request = request.fenced();
            }
            match request.await {
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
async fn serve<T, F, W>(handle: &Handle, leadership: &Leadership, guard: Guard, work: &mut F) -> Term<T>
where
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
    let mut closing = handle.listen_for_closing();
    if handle.is_closed() {
        return None;
    }
    let mut work = pin!(work);
    // The closing is checked first, because the work may be ready again and again.
    poll_fn(|cx| match Pin::new(&mut closing).poll(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(cx).map(Some),
    })
    .await
}

/// Releases the lock. If too few nodes reply, the release continues in the background.
async fn resign(guard: Guard) {
    let lease = guard.lease();
    if let Err(error) = guard.release().await {
        telemetry::release_failed(&lease.record.claim, &error);
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resources, ttl, leadership, .. } = self;
        f.debug_struct("Candidate")
            .field("resources", resources)
            .field("ttl", ttl)
            .field("state", &leadership.state())
            .finish_non_exhaustive()
    }
}
