//! Checks of the servers: the facts arrive through the client of the adapter.

use std::time::Duration;

use redlock_testkit::RedisServer;
use redlock_wire::{Finding, Options, Preflight, PreflightSettings, Severity};

use crate::Adapter;

async fn check<A: Adapter>(servers: &[RedisServer]) -> Preflight {
    check_with::<A>(servers, &Options::tokio(), |settings| settings.fenced(true).readers(true)).await
}

async fn check_with<A: Adapter>(
    servers: &[RedisServer],
    options: &Options,
    set: impl FnOnce(PreflightSettings) -> PreflightSettings,
) -> Preflight {
    let urls = servers.iter().map(RedisServer::url).collect();
    let settings = PreflightSettings::new(Duration::from_secs(30)).observe(Duration::from_millis(10));
    A::preflight(urls, options, set(settings)).await.unwrap()
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
        let matches =
            |finding: &&Finding| finding.problem() == problem && finding.nodes() == [label(&servers[server])];
        assert!(errors(&found).iter().any(matches), "{problem}: {found:#?}");
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
    let matches = |finding: &Finding| finding.nodes() == [label(&servers[0])];
    assert!(found.findings().iter().any(matches), "{found:#?}");
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn rights_are_checked_under_the_prefix_and_for_the_locks_in_use<A: Adapter>() {
    let servers = [RedisServer::builder().persistent(true).start()];
    let options = Options::tokio().key_prefix("lock:");
    for (rules, problem) in [
        (&["resetkeys", "~lock:*", "-zadd"][..], "the user may not run ZADD"),
        (&["resetkeys", "~lock:redlock-preflight", "+zadd"], "the user may not run SET NAME:writer"),
    ] {
        servers[0].command(&[&["ACL", "SETUSER", "default"], rules].concat());
        let plain = check_with::<A>(&servers, &options, |settings| settings).await;
        assert!(errors(&plain).is_empty(), "{plain:#?}");
        let found = check_with::<A>(&servers, &options, |settings| settings.readers(true)).await;
        let problems: Vec<_> = errors(&found).into_iter().map(Finding::problem).collect();
        assert_eq!([problem], *problems, "{found:#?}");
    }
}
