//! Fenced locks on real servers: their costs, and the state of a lease when servers lose keys or counters.

use redlock_core::kind::Fenced;
use redlock_core::node::NodeErrorKind;
use redlock_core::{DetachedLease, FencingToken, Lease, LeaseState, NodeReport, ReleaseOutcome};

use super::*;
use crate::Adapter;
use crate::native::releases;

const COUNTER: &str = "redlock:fence:{a}";

fn fence(guard: &Guard<Fenced>) -> u64 {
    guard.token().as_u64()
}

/// Returns a number above the times of all servers. From there on, counters increase by one.
fn ahead(server: &RedisServer) -> u64 {
    let time = server.command(&["TIME"]);
    (time.lines().next().unwrap().parse::<u64>().unwrap() + 3_600) * 1_000_000
}

fn to_all(servers: &[RedisServer], command: &[&str]) {
    for server in servers {
        server.command(command);
    }
}

fn set_counters<'a>(
    servers: impl IntoIterator<Item = &'a RedisServer>,
    numbers: impl IntoIterator<Item = u64>,
) {
    for (server, number) in servers.into_iter().zip(numbers) {
        server.command(&["SET", COUNTER, &number.to_string()]);
    }
}

fn counters(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(|server| server.command(&["GET", COUNTER])).collect()
}

/// Acquires a fenced lock on all nodes, with no request left in flight.
async fn fenced_by_all(redlock: &Redlock) -> Guard<Fenced> {
    let start = Instant::now();
    loop {
        let guard = redlock.lock("a", TTL).fenced().await.unwrap();
        let reports = all_replied(&guard).await;
        if reports.iter().all(|node| matches!(node.outcome(), Outcome::GrantedFenced(_))) {
            return guard;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "not all nodes grant: {reports:?}");
        guard.release().await.unwrap();
    }
}

/// Waits until all nodes have replied or timed out, and returns their reports.
async fn all_replied(guard: &Lease) -> Vec<NodeReport> {
    loop {
        let reports = guard.node_reports();
        if !reports.iter().any(|node| matches!(node.outcome(), Outcome::Pending)) {
            return reports;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn scripts(servers: &[RedisServer]) -> Vec<u64> {
    servers.iter().map(releases).collect()
}

fn growth(before: &[u64], servers: &[RedisServer]) -> Vec<u64> {
    scripts(servers).iter().zip(before).map(|(after, before)| after - before).collect()
}

pub(crate) async fn a_steady_fenced_cycle_is_two_scripts_on_each_server<A: Adapter>() {
    let servers = five();
    // No request may time out on a busy machine: the next attempt would raise the counters again.
    let redlock = builder::<A>(&servers).node_timeout(Duration::from_secs(10)).build().unwrap();
    all_up(&redlock).await;
    let start = ahead(&servers[0]);
    set_counters(&servers, [start; 5]);
    fenced_by_all(&redlock).await.release().await.unwrap(); // from now on, the servers know the script
    let before = scripts(&servers);
    for cycle in 2..=11 {
        let guard = fenced_by_all(&redlock).await;
        assert_eq!((start + cycle, 5), (fence(&guard), guard.extendable_nodes()));
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    }
    redlock.close().await;
    assert_eq!(vec![20; 5], growth(&before, &servers));
    assert_eq!(vec![(start + 11).to_string(); 5], counters(&servers));
}

pub(crate) async fn counters_that_differ_cost_one_more_script_once<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    // Without the other two nodes, every quorum consists of all three and has the greatest counter.
    servers[3..].iter().for_each(RedisServer::kill);
    let start = ahead(&servers[0]);
    set_counters(&servers[..3], [start + 5, start + 2, start]);
    let cycle = async |token: u64| {
        let before = scripts(&servers[..3]);
        let guard = redlock.lock("a", TTL).fenced().await.unwrap();
        assert_eq!(token, fence(&guard));
        assert_eq!(vec![token.to_string(); 3], counters(&servers[..3]));
        guard.release().await.unwrap();
        growth(&before, &servers[..3])
    };
    cycle(start + 6).await; // from now on, the servers know the scripts
    assert_eq!(vec![2; 3], cycle(start + 7).await);
    set_counters(&servers[..3], [start + 20, start + 8, start + 8]);
    assert_eq!(vec![3; 3], cycle(start + 21).await);
    assert_eq!(vec![2; 3], cycle(start + 22).await);
}

pub(crate) async fn tokens_increase_when_the_servers_forget_their_scripts<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let mut last = 0;
    for _ in 0..5 {
        to_all(&servers, &["SCRIPT", "FLUSH"]);
        let guard = redlock.lock("a", TTL).fenced().await.unwrap();
        assert!(fence(&guard) > last);
        last = fence(&guard);
        to_all(&servers, &["SCRIPT", "FLUSH"]);
        guard.extend(TTL).await.unwrap();
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    }
}

pub(crate) async fn several_resources_have_one_token<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let start = ahead(&servers[0]);
    set_counters(&servers, [start; 5]);
    let both = redlock.lock(["b", "a"], TTL).fenced().await.unwrap();
    assert_eq!(start + 1, fence(&both), "greater than the counter of either resource");
    assert!(redlock.lock("b", TTL).fenced().try_now().await.unwrap().is_none());
    both.release().await.unwrap();
    for (resource, token) in [("b", start + 2), ("a", start + 2)] {
        let guard = redlock.lock(resource, TTL).fenced().await.unwrap();
        assert_eq!(token, fence(&guard), "the counter of each was raised");
        guard.release().await.unwrap();
    }
}

pub(crate) async fn fenced_and_plain_locks_exclude_each_other<A: Adapter>() {
    let servers = five();
    let (redlock, other) = (warm::<A>(&servers).await, warm::<A>(&servers).await);
    let plain = redlock.lock("a", TTL).await.unwrap();
    assert_eq!(None, plain.fencing_token());
    assert!(other.lock("a", TTL).fenced().try_now().await.unwrap().is_none());
    plain.release().await.unwrap();
    let fenced = other.lock("a", TTL).fenced().await.unwrap();
    assert!(redlock.lock("a", TTL).try_now().await.unwrap().is_none());
    fenced.release().await.unwrap();
    redlock.lock("a", TTL).await.unwrap().release().await.unwrap();
}

pub(crate) async fn the_error_names_an_invalid_counter<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    for server in &servers[..3] {
        server.command(&["RPUSH", COUNTER, "one"]);
    }
    let error = redlock.lock("a", TTL).fenced().await.unwrap_err();
    assert_eq!(ErrorKind::DamagedCounter, error.kind());
    let nodes = error.to_string();
    assert!(nodes.contains("the fencing counter of \"a\" is not a number"), "{nodes}");
    for node in &error.node_reports()[..3] {
        let Outcome::Failed(error) = node.outcome() else { panic!("{node}") };
        assert_eq!(NodeErrorKind::DamagedCounter, error.kind());
    }
    // On a minority of nodes, such a value has no effect.
    servers[0].command(&["DEL", COUNTER]);
    redlock.lock("a", TTL).fenced().await.unwrap().release().await.unwrap();
    redlock.close().await;
    assert!(servers.iter().all(|server| server.keys() == [COUNTER]), "only counters remain");
}

/// A damaged counter, for example by a wrong restore or a manual `SET`: one below the maximum.
pub(crate) async fn a_damaged_counter_only_disables_its_node<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let damaged = (FencingToken::MAX.as_u64() - 1).to_string();
    servers[0].command(&["SET", COUNTER, &damaged]);
    let mut newest = 0;
    for _ in 0..3 {
        let guard = redlock.lock("a", TTL).fenced().await.unwrap();
        assert!(fence(&guard) > newest && fence(&guard) < ahead(&servers[1]), "{guard:?}");
        newest = fence(&guard);
        let failed = async || matches!(guard.node_reports()[0].outcome(), Outcome::Failed(_));
        eventually("the damaged node fails", Duration::from_secs(30), failed).await;
        let report = guard.node_reports()[0].to_string();
        assert!(report.contains("ahead of the server's clock"), "{report}");
        guard.extend(TTL).await.unwrap();
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    }
    let all = counters(&servers);
    // A node that is late in each round may be ahead of the others.
    let others = all[1..].iter().map(|counter| counter.parse::<u64>().unwrap());
    assert!(
        all[0] == damaged && others.max().unwrap() < ahead(&servers[1]),
        "they do not follow it: {all:?}"
    );

    servers[0].command(&["DEL", COUNTER]);
    let guard = fenced_by_all(&redlock).await;
    assert!(fence(&guard) > newest, "the node votes again");
}

pub(crate) async fn an_evicted_counter_is_written_back_by_the_holder<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let guard = fenced_by_all(&redlock).await;
    let token = fence(&guard);
    to_all(&servers, &["DEL", COUNTER]);
    guard.extend(TTL).await.unwrap();
    let back = async || counters(&servers) == vec![token.to_string(); 5];
    eventually("all nodes have the counter", Duration::from_secs(30), back).await;
    assert_eq!((token, 5), (fence(&guard), guard.extendable_nodes()));
}

pub(crate) async fn a_minority_that_lost_its_data_grants_again_unless_a_newer_claim_raised_its_counters<
    A: Adapter,
>() {
    let servers = five();
    let (redlock, other) = (warm::<A>(&servers).await, warm::<A>(&servers).await);
    let guard = fenced_by_all(&redlock).await;
    let token = fence(&guard);
    to_all(&servers[..2], &["FLUSHALL"]);
    guard.extend(TTL).await.unwrap();
    let back = async || counters(&servers) == vec![token.to_string(); 5];
    eventually("their keys are written again", Duration::from_secs(30), back).await;
    assert_eq!((5, 10), (guard.extendable_nodes(), keys(&servers).len()));

    to_all(&servers[..2], &["FLUSHALL"]);
    set_counters(&servers[..2], [token; 2]);
    assert!(other.lock("a", TTL).fenced().try_now().await.unwrap().is_none(), "a majority is held");
    other.close().await;
    guard.extend(TTL).await.unwrap();
    eventually("two are superseded", Duration::from_secs(30), async || guard.extendable_nodes() == 3).await;
    assert_eq!(LeaseState::Held, guard.state());
    let beyond = counters(&servers)[..2].iter().all(|counter| counter.parse::<u64>().unwrap() > token);
    assert!(beyond, "the failed attempt has raised the counters there");
}

pub(crate) async fn a_majority_that_lost_its_data_loses_the_lock<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let guard = fenced_by_all(&redlock).await;
    to_all(&servers[..3], &["FLUSHALL"]);
    assert_eq!(ErrorKind::Lost, guard.extend(TTL).await.unwrap_err().kind());
    assert!(!guard.is_held());
    assert_eq!(4, keys(&servers).len(), "without a quorum nothing is refilled");
}

pub(crate) async fn a_superseded_lease_is_held_and_never_extended<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let guard = fenced_by_all(&redlock).await;
    set_counters(&servers[..3], [fence(&guard) + 1; 3]);
    let error = guard.extend(TTL).await.unwrap_err();
    assert_eq!((ErrorKind::Superseded, false), (error.kind(), error.is_retryable()));
    assert!(error.to_string().contains("a newer claim advanced the fencing counters"), "{error}");
    let newer = FencingToken::new(fence(&guard) + 1).unwrap();
    let superseded = |node: &&NodeReport| matches!(node.outcome(), Outcome::Superseded(by) if *by == newer);
    assert_eq!(3, error.node_reports().iter().filter(superseded).count());
    assert_eq!((2, LeaseState::AtRisk), (guard.extendable_nodes(), guard.state()));
    assert!(guard.is_held(), "other clients are still excluded");
    let again = guard.extend(TTL).await.unwrap_err();
    assert_eq!(ErrorKind::Superseded, again.kind());
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());

    let next = fenced_by_all(&redlock).await;
    assert!(next.fencing_token().unwrap() > newer, "{next:?}");
}

pub(crate) async fn a_fenced_lease_is_resumed_with_its_token<A: Adapter>() {
    let servers = five();
    let (redlock, other) = (warm::<A>(&servers).await, warm::<A>(&servers).await);
    let guard = fenced_by_all(&redlock).await;
    let token = fence(&guard);
    let lease = serde_json::to_string(&guard.detach().await).unwrap();
    assert!(lease.contains(&format!("\"fencing_token\":{token}")), "{lease}");
    let lease: DetachedLease = serde_json::from_str(&lease).unwrap();
    let resumed = other.resume(&lease).await.unwrap();
    assert_eq!(token, resumed.fencing_token().unwrap().as_u64());
    drop(resumed.detach().await);

    // A newer claim has advanced the counters of a majority, so the lease is not resumed.
    set_counters(&servers[..3], [token + 1; 3]);
    assert_eq!(ErrorKind::Superseded, other.resume(&lease).await.unwrap_err().kind());
    assert_eq!(ReleaseOutcome::Released, other.release(&lease).await.unwrap());
}

pub(crate) async fn a_counter_can_be_neither_locked_nor_deleted<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    fenced_by_all(&redlock).await.release().await.unwrap();
    let before = counters(&servers);
    // A fencing token is not secret, and the value of a counter is such a token.
    let forged = DetachedLease::new(COUNTER, &before[0], TTL).unwrap();
    for outcome in [
        redlock.release(&forged).await.map(drop),
        redlock.resume(&forged).await.map(drop),
        redlock.lock(COUNTER, TTL).await.map(drop),
        redlock.lock("redlock:fence:{b}", TTL).await.map(drop),
        redlock.lock(["both", "redlock:fence:{both}"], TTL).fenced().try_now().await.map(drop),
        redlock.inspect(COUNTER).await.map(drop),
    ] {
        let error = outcome.unwrap_err();
        assert_eq!(ErrorKind::InvalidInput, error.kind());
        assert!(error.to_string().contains("reserved for fencing counters"), "{error}");
    }
    assert_eq!(before, counters(&servers));
    assert_eq!(5, keys(&servers).len());
    // With a prefix, the name is an ordinary one.
    let prefixed =
        A::builder_with(servers.iter().map(RedisServer::url), &Options::tokio().key_prefix("app:"));
    let prefixed = prefixed.unwrap().node_timeout(NODE_TIMEOUT).build().unwrap();
    drop(prefixed.lock(COUNTER, TTL).await.unwrap());
    prefixed.close().await;
}
