//! Redlock: a distributed lock over N independent lock servers.

mod builder;
mod claim;
mod clock;
mod error;
pub mod node;
mod report;
mod resource;
pub mod runtime;
mod token;
mod ttl;

pub use async_trait::async_trait;

pub use crate::builder::Builder;
pub use crate::claim::Claim;
pub use crate::clock::{Instant, boot_time};
pub use crate::error::{Error, ErrorKind};
pub use crate::node::{
    Capabilities, ConnectionId, LockNode, NodeError, NodeErrorKind, Refusal, ServerId, Vote,
};
pub use crate::report::{NodeReport, Outcome};
pub use crate::resource::{IntoResource, IntoResources, Resource, Resources};
#[cfg(feature = "smol")]
pub use crate::runtime::SmolRuntime;
#[cfg(feature = "tokio")]
pub use crate::runtime::TokioRuntime;
pub use crate::runtime::{BoxFuture, Runtime};
pub use crate::token::{Fingerprint, Token};
pub use crate::ttl::Ttl;
