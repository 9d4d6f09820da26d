//! The selection of requests, by faults and by logs.

use redlock_core::Resource;
use redlock_core::node::{Operation, Request};

/// Matches requests by operation and by resource. The default matches every request.
#[derive(Clone, Debug, Default)]
pub(super) struct Matcher {
    pub(super) operation: Option<Operation>,
    pub(super) resource: Option<Resource>,
}

impl Matcher {
    pub(super) fn matches(&self, request: &Request) -> bool {
        self.operation.is_none_or(|operation| operation == request.operation())
            && self.resource.as_ref().is_none_or(|resource| request.resources().contains(resource))
    }
}
