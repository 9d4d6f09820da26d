//! A request that waits in a connection when the node gives the connection up.

use futures_util::future::poll_immediate;
use redlock_core::node::{LockNode, NodeErrorKind, Request};
use redlock_testkit::RedisServer;

use crate::Adapter;
use crate::node::{claim, minute, node_of, of, until_it_votes};
use crate::servers::one_thread;
use crate::wait::soon;

pub(crate) fn a_queued_request_is_not_sent_after_the_node_has_given_up_its_connection<A: Adapter>() {
    let server = RedisServer::start();
    let node = node_of::<A>(&server);
    let (first, second) = (one_thread(), one_thread());
    first.block_on(until_it_votes(&node));
    let connection = node.status().connection;
    // The task of the connection does not run before the end of the test.
    let mut queued = Box::pin(node.call(Request::Acquire(claim("a", "queued"), minute())));
    second.block_on(async {
        assert!(poll_immediate(&mut queued).await.is_none());
        until_it_votes(&node).await;
    });
    assert_ne!(connection, node.status().connection, "a connection of the second runtime");
    let outcome = of(first.block_on(soon(queued)));
    let kind = outcome.expect_err("the request is sent");
    assert!(matches!(kind, NodeErrorKind::Unavailable | NodeErrorKind::Unknown), "{kind:?}");
    assert!(server.keys().is_empty(), "{:?}", server.keys());
}
