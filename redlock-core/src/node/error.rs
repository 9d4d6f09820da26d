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
    /// The fencing counter of a resource is unusable: it is no number, at its maximum, or too far ahead of the clock.
    ///
    /// Nothing was changed, and the counter stays as it is until an operator corrects it.
    DamagedCounter,
    /// The backend does not support the operation. Nothing was sent.
    Unsupported,
}

impl NodeError {
    /// Creates an error: the node cannot be reached, and nothing was sent.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::Unavailable, message)
    }

    /// Creates an error: the request may have been sent, and its outcome is unknown.
    pub fn unknown(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::Unknown, message)
    }

    /// Creates an error: the server sent an error reply.
    pub fn rejected(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::Rejected, message)
    }

    /// Creates an error: the key of `resource` holds a value that is not a lock.
    pub fn wrong_type(resource: &Resource) -> Self {
        Self::new(NodeErrorKind::WrongType, format!("key {resource:?} holds a non-lock value"))
    }

    /// Creates an error: a fencing counter is unusable. The message names the resource and the defect.
    pub fn damaged_counter(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(NodeErrorKind::DamagedCounter, message)
    }

    /// Creates an error: the backend does not support `operation`.
    pub fn unsupported(operation: &'static str) -> Self {
        Self::new(NodeErrorKind::Unsupported, format!("this backend cannot {operation}"))
    }

    /// Adds the client's own error as the source.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the possible effects of the request.
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
