//! The error of `run`, which keeps the output of work that finished too late.

use std::fmt;

use crate::types::error::{Error, ErrorKind};
use crate::types::lease_state::Loss;

/// The error of [`run`](crate::LockRequest::run), with the output of the work if any.
///
/// Opaque: match on [`kind`](RunError::kind). There are three cases:
///
/// - The lock was not acquired. The work was not called. There is neither a [`loss`](RunError::loss) nor an
///   [`output`](RunError::output).
/// - The lock was lost while the work waited for something. The work was dropped there. There is a loss, and no output.
/// - The lock was lost while the work ran without yielding, and the work finished in that same step. Either it blocked
///   its thread, or the machine was suspended. There is a loss, and the output. Another client may have held the lock
///   at the same time, so check what the work changed.
///
/// Converts into [`Error`], so that `?` works in functions that return one; the output is dropped then.
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```ignore")]
/// # use redlock_testkit::MemoryNode;
/// # use redlock_core::{Loss, Redlock, TokioRuntime};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), redlock_core::Error> {
/// # let redlock = Redlock::builder(TokioRuntime::new()).node(MemoryNode::new("a")).build()?;
/// let work = async |_lease| {
///     // Blocks the only thread, so that the lock cannot be renewed.
///     std::thread::sleep(Duration::from_millis(1200));
///     "charged"
/// };
/// let error = redlock.lock("invoice:42", Duration::from_secs(1)).run(work).await.unwrap_err();
/// assert_eq!(Some(&Loss::Expired), error.loss());
/// assert_eq!(Some("charged"), error.into_output());
/// # Ok(()) }
/// ```
pub struct RunError<T> {
    error: Error,
    output: Option<T>,
}

impl<T> RunError<T> {
    /// Creates the error of a lock that was not acquired.
    pub(crate) fn not_run(error: Error) -> Self {
        Self { error, output: None }
    }

    /// Creates the error of a lost lock.
    ///
    /// There is an `output` if the work finished without the lock.
    pub(crate) fn lost(error: Error, output: Option<T>) -> Self {
        Self { error, output }
    }

    /// Returns the kind of this error.
    ///
    /// It is [`Lost`](ErrorKind::Lost) whenever the work was called.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("nightly-report", ttl).await?;
    ///
    /// let request = redlock.lock("nightly-report", ttl).max_wait(Duration::ZERO);
    /// let error = request.run(async |_lease| "sent").await.unwrap_err();
    /// assert_eq!(ErrorKind::Contended, error.kind(), "the report was not sent");
    /// # });
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.error.kind()
    }

    /// Returns whether another call may succeed without manual changes.
    ///
    /// Same as [`Error::is_retryable`]. It is true after a loss. If the work is not idempotent, check its effects
    /// before you repeat it.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock| {
    /// let ttl = Duration::ZERO; // an invalid setting
    /// let result = redlock.lock("orders:42", ttl).run(async |_lease| "charged").await;
    /// assert!(!result.unwrap_err().is_retryable());
    /// # });
    /// ```
    pub fn is_retryable(&self) -> bool {
        self.error.is_retryable()
    }

    /// Returns why the lock was lost; `None` if it was not acquired.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// let work = async |_lease| {
    ///     // Meanwhile, an operator deletes the key.
    ///     node.remove("orders:42");
    /// };
    /// let error = redlock.lock("orders:42", ttl).run(work).await.unwrap_err();
    /// assert!(matches!(error.loss(), Some(Loss::Revoked { .. })));
    /// # });
    /// ```
    pub fn loss(&self) -> Option<&Loss> {
        self.error.loss()
    }

    /// Returns the error without the output: its message, and the reports of the nodes.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// let guard = redlock.lock("orders:42", ttl).owner("host-1").await?;
    ///
    /// let request = redlock.lock("orders:42", ttl).max_wait(Duration::ZERO);
    /// let error = request.run(async |_lease| "charged").await.unwrap_err();
    /// let holder = error.error().holder().expect("it is in this process");
    /// assert_eq!(Some("host-1"), holder.owner());
    /// # });
    /// ```
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// Returns the output of the work, if it finished although the lock was lost.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// # let charge = async |_lease| {
    /// #     // Meanwhile, an operator deletes the key.
    /// #     node.remove("orders:42");
    /// #     "charged"
    /// # };
    /// // `charge` returns "charged". The lock is lost meanwhile.
    /// let error = redlock.lock("orders:42", ttl).run(charge).await.unwrap_err();
    /// match error.output() {
    ///     Some(output) => println!("{output}, but perhaps twice: {error}"),
    ///     None => println!("not completed: {error}"),
    /// }
    /// # assert_eq!(Some(&"charged"), error.output());
    /// # });
    /// ```
    pub fn output(&self) -> Option<&T> {
        self.output.as_ref()
    }

    /// Returns the output of the work, if it finished although the lock was lost.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, node, ttl| {
    /// # let charge = async |_lease| {
    /// #     // Meanwhile, an operator deletes the key.
    /// #     node.remove("orders:42");
    /// #     "charged"
    /// # };
    /// // `charge` returns "charged". The lock is lost meanwhile.
    /// let result = redlock.lock("orders:42", ttl).run(charge).await;
    /// // The output shows what an operator has to check.
    /// let output = result.map_err(|error| error.into_output());
    /// assert_eq!(Err(Some("charged")), output);
    /// # });
    /// ```
    pub fn into_output(self) -> Option<T> {
        self.output
    }

    /// Returns the error, and drops the output.
    ///
    /// ```
    /// # redlock_testkit::example!(|redlock, ttl| {
    /// # let guard = redlock.lock("nightly-report", ttl).await?;
    /// // Only the reason is of interest, not the output.
    /// let request = redlock.lock("nightly-report", ttl).max_wait(Duration::ZERO);
    /// let result = request.run(async |_lease| "sent").await;
    /// let result: Result<_, Error> = result.map_err(RunError::into_error);
    /// assert_eq!(ErrorKind::Contended, result.unwrap_err().kind());
    /// # });
    /// ```
    pub fn into_error(self) -> Error {
        self.error
    }
}

impl<T> From<RunError<T>> for Error {
    fn from(error: RunError<T>) -> Self {
        error.into_error()
    }
}

/// Formats the kind, then the same text as `Display`, which states whether the work finished without the lock. A `main`
/// that returns this error prints this form. The output itself need not be `Debug`.
impl<T> fmt::Debug for RunError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl<T> fmt::Display for RunError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> std::error::Error for RunError<T> {}
