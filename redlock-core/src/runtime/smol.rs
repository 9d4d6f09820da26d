//! The runtime of the smol family.

use std::time::Duration;

use super::{BoxFuture, Runtime};
use crate::clock::{Instant, boot_time};

/// [`Runtime`] over smol: its global executor and its timers, which work from any thread.
#[derive(Debug, Default)]
pub struct SmolRuntime {}

impl SmolRuntime {
    /// A runtime to hand to a builder.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Runtime for SmolRuntime {
    fn now(&self) -> Instant {
        boot_time()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        Box::pin(async move {
            smol::Timer::after(duration).await;
        })
    }

    fn spawn(&self, future: BoxFuture<()>) {
        smol::spawn(future).detach();
    }
}
