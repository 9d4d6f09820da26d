//! A node without notifications, so that waiters poll it.

use redlock_core::node::{Begun, LockNode, Request, Status};

pub(crate) struct Polling<N>(pub(crate) N);

/// The profile is the default, without optional operations.
impl<N: LockNode> LockNode for Polling<N> {
    fn label(&self) -> &str {
        self.0.label()
    }

    fn status(&self) -> Status {
        self.0.status()
    }

    fn begin(&self, request: &Request) -> Begun {
        self.0.begin(request)
    }
}
