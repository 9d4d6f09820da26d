//! A node as one async method: for stores without connections.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Begun, LockNode, Profile, Reply, Request};
use crate::types::error::Error;
use crate::types::node_error::NodeError;
use crate::types::resource::Resource;

/// A lock server behind one async method. An `Arc` of it is a [`LockNode`].
///
/// See [Custom backends](crate::node#custom-backends).
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Same as [`LockNode::label`].
    fn label(&self) -> &str;

    /// Same as [`LockNode::profile`].
    fn profile(&self) -> Profile {
        Profile::default()
    }

    /// Same as [`LockNode::check`].
    #[allow(clippy::missing_errors_doc)] // those of `LockNode::check`
    fn check(&self, resource: &Resource) -> Result<(), Error> {
        let _ = resource;
        Ok(())
    }

    /// Carries out a request, and returns the reply of the store.
    ///
    /// # Errors
    ///
    /// [`NodeError::unsupported`] for operations that the store does not support. Otherwise an error whose
    /// [kind](super::NodeErrorKind) states the possible effects.
    ///
    /// # Cancel safety
    ///
    /// The core drops calls that exceed the node timeout. It then assumes that the request may or may not be carried
    /// out.
    async fn reply_to(&self, request: &Request) -> Result<Reply, NodeError>;
}

impl<B: Backend> LockNode for Arc<B> {
    fn label(&self) -> &str {
        (**self).label()
    }

    fn profile(&self) -> Profile {
        (**self).profile()
    }

    fn check(&self, resource: &Resource) -> Result<(), Error> {
        (**self).check(resource)
    }

    fn begin(&self, request: &Request) -> Begun {
        let (backend, request) = (Self::clone(self), request.clone());
        Begun::sent(async move { backend.reply_to(&request).await })
    }
}
