//! Checks of the servers: the facts arrive through the client of the adapter.

use std::time::Duration;

use redlock_testkit::RedisServer;
use redlock_wire::{Finding, Options, Preflight, PreflightSettings, Severity};

use crate::Adapter;

async fn check<A: Adapter>(servers: &[RedisServer]) -> Preflight {
    let urls = servers.iter().map(RedisServer::url).collect();
    let settings =
        PreflightSettings::new(Duration::from_secs(30)).fenced(true).observe(Duration::from_millis(10));
    A::preflight(urls, &Options::tokio(), settings).await.unwrap()
}

fn label(server: &RedisServer) -> String {
    format!("127.0.0.1:{}", server.port())
}

fn errors(found: &Preflight) -> Vec<&Finding> {
    found.findings().iter().filter(|finding| finding.severity() == Severity::Error).collect()
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn findings_name_the_server<A: Adapter>() {
    let servers = RedisServer::start_many(3);
    servers[1].command(&["CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"]);
    servers[2].command(&["ACL", "SETUSER", "default", "-evalsha"]);
    let found = check::<A>(&servers).await;
    for (server, problem) in [(1, "maxmemory-policy is allkeys-lru"), (2, "the user may not run EVALSHA")] {
        let is_meant =
            |finding: &&Finding| finding.problem() == problem && finding.nodes() == [label(&servers[server])];
        assert!(errors(&found).iter().any(is_meant), "{problem}: {found:#?}");
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn servers_without_faults_have_no_errors<A: Adapter>() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::builder().persistent(true).start()).collect();
    let found = check::<A>(&servers).await;
    assert_eq!((3, true), (found.reachable_nodes(), found.is_available()), "{found:#?}");
    assert!(errors(&found).is_empty(), "{found:#?}");
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn an_unreachable_server_is_a_finding<A: Adapter>() {
    let servers = RedisServer::start_many(3);
    servers[0].kill();
    let found = check::<A>(&servers).await;
    assert_eq!((2, true), (found.reachable_nodes(), found.is_available()), "{found:#?}");
    let is_meant = |finding: &Finding| finding.nodes() == [label(&servers[0])];
    assert!(found.findings().iter().any(is_meant), "{found:#?}");
}
