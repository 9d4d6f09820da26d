//! The pause that lets other processes try first, and whether one of them did.
//!
//! The nodes are watched during the pause, because another client may acquire and release the lock within it. Such a
//! client changes a quorum of the nodes. Changes on fewer nodes may be those of this process.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::decide::concurrency::Class;
use crate::node::{Availability, Request, Watch};
use crate::queue::limiter::Permit;
use crate::round::nodes::Nodes;
use crate::runtime::BoxFuture;
use crate::types::resource::Resource;
use crate::watch::node_watch::{Beginning, watch};

/// Waits for `pause`. Returns whether another client was seen on a quorum of nodes meanwhile.
pub(crate) async fn is_used(
    nodes: &Arc<Nodes>,
    resources: &[Resource],
    pause: impl Future<Output = ()>,
) -> bool {
    let mut pause = pin!(pause);
    // Without a permit, the nodes have to reply to many others.
    let Some(_permit) = Permit::try_new(&nodes.limiter, Class::Watch) else {
        pause.await;
        return false;
    };
    let mut views: Vec<Vec<View<'_>>> = nodes
        .peers
        .iter()
        .filter(|peer| peer.profile.watch)
        .map(|peer| {
            resources
                .iter()
                .map(|resource| View::Queried(watch(&*peer.node, Request::Watch(resource.clone()))))
                .collect()
        })
        .collect();
    poll_fn(|cx| {
        views.iter_mut().flatten().for_each(|view| view.poll(cx));
        pause.as_mut().poll(cx)
    })
    .await;
    let changed = views.iter().filter(|node| node.iter().any(|view| matches!(view, View::Changed)));
    changed.count() >= nodes.quorum()
}

/// The view of one resource on one node.
enum View<'a> {
    /// The node has not replied.
    Queried(Beginning<'a>),
    /// The resource was free, and the node notifies of changes.
    Free(BoxFuture<()>),
    /// The resource was held, or has changed.
    Changed,
    /// The node is of no use.
    Unknown,
}

impl View<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) {
        if let Self::Queried(watch) = self {
            let Poll::Ready(watch) = watch.as_mut().poll(cx) else { return };
            *self = match watch {
                Ok(Watch { availability: Availability::Free, changed, .. }) => Self::Free(changed),
                Ok(_) => Self::Changed,
                Err(_) => Self::Unknown,
            };
        }
        if let Self::Free(changed) = self {
            if changed.as_mut().poll(cx).is_ready() {
                *self = Self::Changed;
            }
        }
    }
}
