//! Servers that lose their data, behind connections of the application, which may change their socket at any time.

use redlock_core::node::QuarantineReason;

use super::admission::{LONGEST, a_majority_fails_back_between, a_majority_loses_between, vouch};
use super::*;

/// Returns a client over borrowed connections, to servers whose grants count at once.
async fn client<A: Adapter>(servers: &[RedisServer]) -> Redlock {
    let options = Options::tokio().longest_ttl(LONGEST);
    let mut nodes = Vec::new();
    for server in servers {
        nodes.push(A::borrowed(server.url(), &options).await);
    }
    let redlock = Builder::new(options.runtime()).nodes(nodes).node_timeout(NODE_TIMEOUT).build().unwrap();
    vouch(&redlock, servers.len()).await;
    redlock
}

async fn two<A: Adapter>(servers: &[RedisServer]) -> [Redlock; 2] {
    [client::<A>(servers).await, client::<A>(servers).await]
}

pub(crate) async fn a_majority_that_restarts_empty_grants_no_second_lock<A: Adapter>() {
    let servers = RedisServer::start_many(3);
    let (clients, lose) = (two::<A>(&servers).await, RedisServer::restart_empty);
    a_majority_loses_between::<A>(clients, &servers, lose, QuarantineReason::Restarted).await;
}

pub(crate) async fn a_majority_that_is_flushed_grants_no_second_lock<A: Adapter>() {
    let servers = RedisServer::start_many(3);
    let (clients, lose) =
        (two::<A>(&servers).await, |server: &RedisServer| drop(server.command(&["FLUSHALL"])));
    a_majority_loses_between::<A>(clients, &servers, lose, QuarantineReason::DataLost).await;
}

pub(crate) async fn a_majority_that_fails_over_and_back_grants_no_second_lock<A: Adapter>() {
    let servers = RedisServer::start_many(3);
    a_majority_fails_back_between(two::<A>(&servers).await, &servers).await;
}

pub(crate) async fn a_flush_of_the_scripts_denies_no_vote<A: Adapter>() {
    let servers = RedisServer::start_many(3);
    let redlock = client::<A>(&servers).await;
    let guard = redlock.lock("a", LONGEST).await.unwrap();
    let flush_scripts = || {
        for server in &servers {
            server.command(&["SCRIPT", "FLUSH"]);
        }
    };
    for _ in 0..10 {
        flush_scripts();
        guard.extend(LONGEST).await.unwrap();
        flush_scripts();
        redlock.lock("b", LONGEST).try_now().await.unwrap().unwrap().release().await.unwrap();
    }
}
