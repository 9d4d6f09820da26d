//! Servers that cannot keep locks: Sentinels and cluster nodes.

use std::time::Duration;

use redlock_core::node::{LockNode, NodeErrorKind, Request};
use redlock_doctor::{PreflightSettings, preflight};
use redlock_testkit::RedisServer;
use redlock_wire::Options;

use crate::Adapter;
use crate::node::{claim, minute};
use crate::wait::PATIENCE;

/// Checks that a node and the preflight recognize the server, at each attempt.
async fn is_rejected<A: Adapter>(server: &RedisServer, words: &str) {
    let options = Options::tokio().connect_timeout(PATIENCE); // for a busy machine
    let node = A::node(server.url(), &options).unwrap();
    for _ in 0..2 {
        let error = node.call(Request::Acquire(claim("a", "mine"), minute())).await.unwrap_err();
        assert_eq!(NodeErrorKind::Unavailable, error.kind(), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let settings = PreflightSettings::new(Duration::from_secs(30)).observe(Duration::ZERO);
    let found = preflight([A::connector(server.url())], &options, settings).await.unwrap();
    assert!(found.findings()[0].problem().contains(words), "{found:#?}");
}

pub(crate) async fn a_sentinel_is_rejected_as_such<A: Adapter>() {
    let sentinel = RedisServer::builder().arg("--sentinel").start();
    is_rejected::<A>(&sentinel, "is a Sentinel").await;
}

pub(crate) async fn a_cluster_node_is_rejected_as_such<A: Adapter>() {
    let server = RedisServer::builder().arg("--cluster-enabled").arg("yes").start();
    server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    is_rejected::<A>(&server, "is a cluster node").await;
    assert_eq!(0, server.commandstats("set"));
}
