//! Redlock: a distributed lock over N independent lock servers.

mod acquire;
mod background;
mod builder;
mod calls;
mod chase;
mod claim;
mod clock;
mod decide;
mod error;
mod extend;
mod guard;
mod health;
mod lease;
pub mod node;
mod redlock;
mod release;
mod report;
mod request;
mod resource;
mod round;
pub mod runtime;
mod shared;
mod token;
mod ttl;

pub use async_trait::async_trait;

pub use crate::builder::Builder;
pub use crate::claim::Claim;
pub use crate::clock::{Instant, boot_time};
pub use crate::error::{Error, ErrorKind};
pub use crate::guard::Guard;
pub use crate::health::{Health, NodeHealth};
pub use crate::lease::Lease;
pub use crate::node::{
    Capabilities, ConnectionId, LockNode, NodeError, NodeErrorKind, Refusal, ServerId, Vote,
};
pub use crate::redlock::Redlock;
pub use crate::release::Released;
pub use crate::report::{NodeReport, Outcome};
pub use crate::request::{LockRequest, TryLockRequest};
pub use crate::resource::{IntoResource, IntoResources, Resource, Resources};
#[cfg(feature = "smol")]
pub use crate::runtime::SmolRuntime;
#[cfg(feature = "tokio")]
pub use crate::runtime::TokioRuntime;
pub use crate::runtime::{BoxFuture, Runtime};
pub use crate::token::{Fingerprint, Token};
pub use crate::ttl::Ttl;
