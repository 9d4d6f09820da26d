//! The replies of nodes, for tests that expect a certain one.

use redlock_core::node::{LockEntry, Reply, Watch};

/// Returns the watch of a reply.
///
/// ```
/// # use redlock_core::IntoResource;
/// # use redlock_core::node::{Availability, LockNode};
/// # use redlock_testkit::{MemoryNode, Request, block_on, watching};
/// let node = MemoryNode::new("fake-1");
/// let request = Request::Watch("orders:42".into_resource()?);
/// let watch = watching(block_on(node.call(request))?);
/// assert_eq!(Availability::Free, watch.availability);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// Panics if the reply belongs to another request.
#[track_caller]
pub fn watching(reply: Reply) -> Watch {
    match reply {
        Reply::Watching(watch) => watch,
        other => panic!("the reply to a watch is {other:?}"),
    }
}

/// Returns the lock that the reply to an inspection reports.
///
/// ```
/// # use redlock_core::IntoResource;
/// # use redlock_core::node::LockNode;
/// # use redlock_testkit::{MemoryNode, Request, block_on, holder};
/// let node = MemoryNode::new("fake-1");
/// let request = Request::Inspect("orders:42".into_resource()?);
/// assert_eq!(None, holder(block_on(node.call(request))?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// Panics if the reply belongs to another request.
#[track_caller]
pub fn holder(reply: Reply) -> Option<LockEntry> {
    match reply {
        Reply::Free { .. } => None,
        Reply::Held(entry) => Some(entry),
        other => panic!("the reply to an inspection is {other:?}"),
    }
}
