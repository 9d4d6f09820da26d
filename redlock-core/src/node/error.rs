//! The error of a request to one node.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::types::resource::Resource;

/// The reason for which a node did not vote on a request.
///
/// A denial is a vote, not an error. The message is for humans and contains no secrets. The source may be the client's
/// own error.
#[derive(Clone)]
pub struct NodeError {
    kind: NodeErrorKind,
    message: Cow<'static, str>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The possible effects of a request without a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeErrorKind {
    /// The node cannot be reached, and the request was certainly not sent.
    Unavailable,
    /// The request may have been sent, and it may be carried out now or later.
    ///
    /// For example, the connection or the reply was lost.
    Unknown,
    /// The server sent an error reply and changed nothing.
    ///
    /// For example, it is out of memory or read-only, or the user lacks a permission.
    Rejected,
    /// The resource's key holds a value that is not a lock. Nothing was changed.
    WrongType,
    /// The fencing counter of a resource is unusable.
    ///
    /// The counter is not a number, at its maximum, or too far ahead of the clock. Nothing was changed, and the counter
    /// stays as it is until an operator corrects it.
    DamagedCounter,
    /// The backend does not support the operation. Nothing was sent.
    Unsupported,
}

impl NodeError {
    /// Creates an error: the node cannot be reached, and nothing was sent.
    ///
    /// ```
    /// # use redlock_core::node::{NodeError, NodeErrorKind};
    /// // No connection could be opened, so nothing was sent.
    /// let error = NodeError::unavailable("connection refused");
    /// assert_eq!(NodeErrorKind::Unavailable, error.kind());
    /// ```
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::Unavailable, message)
    }

    /// Creates an error: the request may have been sent, and its outcome is unknown.
    ///
    /// ```
    /// # use redlock_core::node::{NodeError, NodeErrorKind};
    /// // The request was sent, and the connection closed before its reply.
    /// let error = NodeError::unknown("connection lost");
    /// assert_eq!(NodeErrorKind::Unknown, error.kind());
    /// ```
    pub fn unknown(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::Unknown, message)
    }

    /// Creates an error: the server sent an error reply.
    ///
    /// ```
    /// # use redlock_core::node::{NodeError, NodeErrorKind};
    /// let reply = "OOM command not allowed when used memory > 'maxmemory'";
    /// let error = NodeError::rejected(reply);
    /// assert_eq!(NodeErrorKind::Rejected, error.kind());
    /// assert_eq!(reply, error.to_string());
    /// ```
    pub fn rejected(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::Rejected, message)
    }

    /// Creates an error: the key of `resource` holds a value that is not a lock.
    ///
    /// ```
    /// # use redlock_core::Resource;
    /// # use redlock_core::node::NodeError;
    /// // An application stores a list under the name of the lock.
    /// let error = NodeError::wrong_type(&Resource::new("orders:42")?);
    /// assert_eq!("key \"orders:42\" holds a non-lock value", error.to_string());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn wrong_type(resource: &Resource) -> Self {
        Self::new(NodeErrorKind::WrongType, format!("key {resource:?} holds a non-lock value"))
    }

    /// Creates an error: a fencing counter is unusable.
    ///
    /// The message names the resource and the defect.
    ///
    /// ```
    /// # use redlock_core::node::{NodeError, NodeErrorKind};
    /// # use redlock_core::Resource;
    /// let (resource, stored) = (Resource::new("orders:42")?, "abc");
    /// let message = format!("counter of {resource:?} is no number: {stored:?}");
    /// let error = NodeError::damaged_counter(message);
    /// assert_eq!(NodeErrorKind::DamagedCounter, error.kind());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn damaged_counter(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::DamagedCounter, message)
    }

    /// Creates an error: the backend does not support `operation`.
    ///
    /// ```
    /// # use redlock_core::node::NodeError;
    /// // The phrase completes the sentence.
    /// let error = NodeError::unsupported("extend a lock");
    /// assert_eq!("this backend cannot extend a lock", error.to_string());
    /// ```
    pub fn unsupported(operation: &'static str) -> Self {
        Self::new(NodeErrorKind::Unsupported, format!("this backend cannot {operation}"))
    }

    /// Adds the client's own error as the source.
    ///
    /// ```
    /// # use std::error::Error;
    /// # use std::io;
    /// # use redlock_core::node::NodeError;
    /// let reset = io::Error::from(io::ErrorKind::ConnectionReset);
    /// let error = NodeError::unknown("connection lost").with_source(reset);
    /// assert_eq!("connection reset", error.source().expect("just added").to_string());
    /// ```
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the possible effects of the request.
    ///
    /// ```
    /// # use redlock_core::node::{NodeError, NodeErrorKind};
    /// # let error = NodeError::unknown("connection lost");
    /// // After every other kind of error, the request has no effect.
    /// let may_take_effect = error.kind() == NodeErrorKind::Unknown;
    /// assert!(may_take_effect, "the connection was lost before the reply");
    /// ```
    pub fn kind(&self) -> NodeErrorKind {
        self.kind
    }

    /// Prefixes the message with `what`, the operation that has failed.
    pub(crate) fn of(self, what: &str) -> Self {
        Self { message: format!("{what}: {}", self.message).into(), ..self }
    }

    fn new(kind: NodeErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), source: None }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

impl fmt::Debug for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

impl std::error::Error for NodeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
