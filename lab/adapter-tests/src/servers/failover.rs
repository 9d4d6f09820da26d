//! A node whose server sentinels choose: one failover, and two masters at one time.

use std::ops::ControlFlow;

use redlock_core::node::QuarantineReason;
use redlock_doctor::{PreflightSettings, preflight};
use redlock_wire::{Connector, Credentials, Failure, Hub};

use super::admission::{LONGEST, QUARANTINE_LIMIT, all_count, guarded, reasons, vouch};
use super::*;
use crate::sentinels::{DOWN_AFTER, Monitored, Replicated, named_by};

/// The time in which a client gives up a master that its sentinels see down, on a busy machine.
const GIVEN_UP: Duration = Duration::from_secs(15);

/// A connector that connects to the master that one server names, as a usual client does.
pub(super) struct Follower<A: Adapter> {
    /// Returns the URL of the present master.
    master: Box<dyn Fn() -> Option<String> + Send + Sync>,
    first: A::Connector,
}

impl<A: Adapter> Follower<A> {
    /// Returns a client without restart admission.
    pub(super) fn client(monitored: &Monitored) -> Redlock {
        let sentinel = monitored.sentinel();
        Self::of(move || named_by(&sentinel).map(Monitored::url_of))
    }

    /// Returns a client without restart admission that follows the URL of the present master.
    pub(super) fn of(master: impl Fn() -> Option<String> + Send + Sync + 'static) -> Redlock {
        let options = Options::tokio();
        // It only has the label: there may be no master just now.
        let first = A::connector("redis://master".into()).unwrap();
        let node = Node::new(Self { master: Box::new(master), first }, &options);
        Builder::new(options.runtime()).node(node).node_timeout(NODE_TIMEOUT).build().unwrap()
    }
}

impl<A: Adapter> Connector for Follower<A> {
    type Connection = <A::Connector as Connector>::Connection;

    async fn connect(&self, login: Option<&Credentials>, hub: &Hub) -> Result<Self::Connection, Failure> {
        let Some(master) = (self.master)() else { return Err(Failure::not_sent("no master")) };
        let connector = A::connector(master).unwrap();
        connector.connect(login, hub).await
    }

    fn label(&self) -> &str {
        self.first.label()
    }
}

/// Tries to acquire the lock for as long as `goes_on` returns `Continue`. Returns whether it was granted.
async fn try_until(redlock: &Redlock, goes_on: impl Fn() -> ControlFlow<()>) -> bool {
    while goes_on().is_continue() {
        if let Ok(Some(_)) = redlock.lock("a", LONGEST).try_now().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

/// The servers have run for longer than a quarantine, so only the first client needs to vouch for the master.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn a_promoted_server_grants_no_lock_that_the_former_master_has_granted<A: Adapter>() {
    let monitored = Monitored::start();
    let [holder, other] = [guarded::<A>([monitored.url()]), guarded::<A>([monitored.url()])];
    for client in [&holder, &other] {
        vouch(client, 1).await;
    }
    let independent = RedisServer::start_many(2);
    let urls = [monitored.url()].into_iter().chain(independent.iter().map(RedisServer::url));
    let one_of_three = guarded::<A>(urls);
    vouch(&one_of_three, 3).await;

    let master = monitored.master().unwrap();
    monitored.cut_off_replicas(master);
    let guard = holder.lock("a", LONGEST).await.unwrap();
    let lease = guard.lease();
    monitored.servers[master].kill();
    let promoted = monitored.wait_for_another(master);
    one_of_three.lock("b", LONGEST).await.unwrap().release().await.unwrap();

    let follower = Follower::<A>::client(&monitored);
    let is_held = || if lease.is_held() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
    assert!(lease.is_held(), "the failover took longer than the lock: the machine is too busy");
    assert!(try_until(&follower, is_held).await, "without restart admission, there is a second holder");
    follower.close().await;
    let console = monitored.servers[promoted].command(&["DEL", "a"]);
    assert_eq!("0", console, "the follower has released it");
    assert!(!try_until(&other, is_held).await, "a second holder");

    // The stamp is a copy of the former master's, as after a restart from a copy.
    let is_promoted = async || {
        let reason = reasons(&other.health().await)[0];
        matches!(
            reason,
            Some(
                QuarantineReason::PromotedOrRestarted | QuarantineReason::Promoted | QuarantineReason::Recent
            )
        )
    };
    eventually("the promoted server is in quarantine", QUARANTINE_LIMIT, is_promoted).await;
    let again = async || matches!(other.lock("a", LONGEST).try_now().await, Ok(Some(_)));
    eventually("the promoted server grants locks", 2 * QUARANTINE_LIMIT, again).await;
    all_count(&one_of_three).await;
}

/// Two masters are reachable at one time: the former one does not learn of the failover.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn a_master_that_its_sentinels_cannot_reach_is_given_up<A: Adapter>() {
    let monitored = Monitored::start();
    let client = guarded::<A>([monitored.url()]);
    vouch(&client, 1).await;
    let follower = Follower::<A>::client(&monitored);
    all_up(&follower).await;
    let master = monitored.master().unwrap();
    monitored.cut_off_replicas(master);
    monitored.replace(master);
    let given_up = async || client.lock("a", LONGEST).try_now().await.is_err();
    eventually("the master is given up", DOWN_AFTER + GIVEN_UP, given_up).await;
    let promoted = monitored.wait_for_another(master);
    for server in [master, promoted] {
        let role = monitored.servers[server].command(&["ROLE"]);
        assert!(role.starts_with("master"), "two masters: {role}");
    }
    let _kept = follower.lock("a", LONGEST).await.expect("it is still connected to the former master");
    assert_eq!("1", monitored.servers[master].command(&["EXISTS", "a"]));
    assert_eq!("0", monitored.servers[promoted].command(&["EXISTS", "a"]));
    let again = async || matches!(client.lock("a", LONGEST).try_now().await, Ok(Some(_)));
    eventually("the promoted server grants locks", 2 * QUARANTINE_LIMIT, again).await;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn a_master_is_used_only_while_a_majority_of_the_sentinels_replies<A: Adapter>() {
    let monitored = Monitored::start();
    let client = A::builder([monitored.url()]).unwrap().node_timeout(NODE_TIMEOUT).build().unwrap();
    let error = client.lock("a", Duration::from_secs(31)).await.unwrap_err();
    assert_eq!(ErrorKind::InvalidInput, error.kind(), "the default of longest_ttl is 30 s: {error}");
    let error = client.lock("a", LONGEST).try_now().await.unwrap_err();
    assert!(error.quarantine().is_some(), "{error}");
    vouch(&client, 1).await;
    client.lock("a", LONGEST).await.unwrap().release().await.unwrap();

    monitored.sentinels[0].pause();
    tokio::time::sleep(Duration::from_secs(5)).await; // longer than a confirmation lasts
    client.lock("a", LONGEST).await.expect("two of three sentinels reply").release().await.unwrap();

    monitored.sentinels[1].pause();
    let reason = async || match client.lock("a", LONGEST).try_now().await {
        Ok(_) => false,
        Err(error) => error.to_string().contains("sentinels confirm a master, 2 required"),
    };
    eventually("one of three sentinels is no majority", GIVEN_UP, reason).await;
    monitored.sentinels[0].resume();
    let again = async || matches!(client.lock("a", LONGEST).try_now().await, Ok(Some(_)));
    eventually("the master is used again, without a quarantine", Duration::from_secs(10), again).await;
    monitored.sentinels[1].resume();
}

/// A name may lead to another server now, so a connection to a replica is opened again.
pub(crate) async fn a_connection_to_a_replica_is_opened_again<A: Adapter>() {
    let server = RedisServer::start();
    let connections = || {
        let stats = server.command(&["INFO", "stats"]);
        let count = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        count.unwrap().parse::<u64>().unwrap()
    };
    for options in [Options::tokio(), Options::tokio().longest_ttl(LONGEST)] {
        let redlock = A::builder_with([server.url()], &options).unwrap().node_timeout(NODE_TIMEOUT);
        let redlock = redlock.build().unwrap();
        let is_known = async || {
            redlock.health().await.nodes().iter().all(|node| node.is_healthy() || node.quarantine().is_some())
        };
        eventually("it is connected", PATIENCE, is_known).await;
        server.command(&["REPLICAOF", "127.0.0.1", "1"]);
        let before = connections();
        let mut asked = 0;
        // Each look at the server is a connection as well.
        let again = async || {
            asked += 1;
            redlock.lock("a", LONGEST).try_now().await.is_err() && connections() > before + asked
        };
        eventually("it connects again", PATIENCE, again).await;
        server.command(&["REPLICAOF", "NO", "ONE"]);
        redlock.close().await;
    }
}

/// The sentinels have another password than the servers.
pub(crate) async fn a_check_finds_what_is_wrong_with_sentinels<A: Adapter>() {
    let monitored = Monitored::start();
    let check = async || {
        let settings = PreflightSettings::new(LONGEST).observe(Duration::ZERO);
        let options = Options::tokio().connect_timeout(PATIENCE); // for a busy machine
        let found = preflight([A::connector(monitored.url())], &options, settings).await.unwrap();
        assert!(found.is_available(), "two sentinels are a majority: {found:?}");
        found.findings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let found = check().await;
    assert!(
        found.len() == 1 && found[0].contains("there is a single node, whose servers fail over"),
        "{found:#?}"
    );
    monitored.sentinels[2].command(&["SENTINEL", "SET", "locks", "quorum", "1"]);
    monitored.sentinels[1].kill();
    let found = check().await;
    let unreachable =
        format!("warning: 127.0.0.1:{}: sentinel not reachable: ", monitored.sentinels[1].port());
    for expected in [&*unreachable, "the quorum of locks is 1, less than a majority of its 3 sentinels"] {
        assert!(found.iter().any(|finding| finding.contains(expected)), "{expected}: {found:#?}");
    }
    assert_eq!(3, found.len(), "{found:#?}");
}
