//! Tests of a node whose server three sentinels choose.

use redlock_core::node::QuarantineReason;

use super::reconnect::{Log, subscribe};
use super::*;
use crate::sentinel::CONFIRMED_FOR;
use crate::sentinels::Sentinels;

const SECOND: Duration = Duration::from_secs(1);

/// Three sentinels, the two servers of the service, and a node.
struct Service {
    sentinels: [Fake; 3],
    servers: [Fake; 2],
    node: Node<Fake>,
}

impl Service {
    fn new() -> Self {
        let sentinels: [Fake; 3] = Default::default();
        let servers: [Fake; 2] = Default::default();
        for server in &servers {
            server.is(|behavior| behavior.stamp = Some("1 a 0 5 30000"));
        }
        let found = servers.clone();
        let server = move |_: &str, port: u16| found[usize::from(port)].clone();
        let node = Fake::chosen_by(Sentinels::new("m", sentinels.to_vec(), server));
        let service = Self { sentinels, servers, node: Node::new(node, &options()) };
        service.sentinels.iter().for_each(|sentinel| name(sentinel, "0", "master"));
        service
    }

    /// Returns whether a lock is granted, and the grant counts.
    async fn grants(&self) -> bool {
        matches!(lock(&self.node).await, Ok(node::Reply::Granted))
    }
}

fn options() -> Options {
    Options::new(Arc::new(TokioRuntime::new()))
}

/// Lets a sentinel name a server.
fn name(sentinel: &Fake, port: &str, flags: &str) {
    let fields = ["ip", "a", "port", port, "flags", flags, "num-other-sentinels", "2"];
    let reply = Reply::Array(fields.map(|field| Reply::Bytes(field.into())).into());
    sentinel.is(|behavior| behavior.sentinel = reply);
}

#[tokio::test(start_paused = true)]
async fn the_node_follows_the_majority_of_the_sentinels() {
    let service = Service::new();
    assert!(service.grants().await);
    let [one, other] = &service.servers;
    name(&service.sentinels[0], "1", "master");
    tokio::time::sleep(10 * SECOND).await;
    assert!(service.grants().await && one.connects() == 1, "one sentinel decides nothing");
    name(&service.sentinels[1], "1", "master");
    timeout(2 * SECOND, other.wait(|server| server.open() == 1)).await.expect("it follows");
    one.until(|server| server.open() == 0).await;
    assert!(service.grants().await);
    assert_eq!((1, 1), (one.connects(), other.connects()));
}

#[tokio::test(start_paused = true)]
async fn the_log_states_which_server_is_reached() {
    let log = Log::default();
    let _subscribed = subscribe(log.clone());
    let service = Service::new();
    assert!(service.grants().await);
    service.sentinels.iter().for_each(|sentinel| name(sentinel, "1", "master"));
    service.servers[1].until(|server| server.open() == 1).await;
    assert!(service.grants().await);
    let plain = Node::new(Fake::default(), &options());
    assert!(matches!(lock(&plain).await, Ok(node::Reply::Granted)));
    let lines = log.0.lock().unwrap().clone();
    let connected: Vec<_> = lines.iter().filter(|line| line.contains("=node connected ")).collect();
    assert_eq!(3, connected.len(), "{lines:#?}");
    assert!(connected[0].contains(r#"server="a:0" "#), "{lines:#?}");
    assert!(connected[1].contains(r#"server="a:1" "#), "{lines:#?}");
    assert!(!connected[2].contains("server="), "the node has the name of the server: {lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_hung_sentinel_changes_nothing() {
    let service = Service::new();
    service.sentinels[1].is(|behavior| behavior.replies = false);
    for _ in 0..20 {
        assert!(service.grants().await);
        tokio::time::sleep(SECOND).await;
    }
    assert_eq!(1, service.servers[0].connects());
    // Once to find the master, and once to watch it.
    assert_eq!((2, 2), (service.sentinels[0].connects(), service.sentinels[2].connects()));
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_the_master_is_given_up_and_used_again_later() {
    for flags in ["master,s_down", "master,failover_in_progress"] {
        let service = Service::new();
        assert!(service.grants().await);
        service.sentinels[..2].iter().for_each(|sentinel| name(sentinel, "0", flags));
        tokio::time::sleep(SECOND / 2).await;
        assert!(service.grants().await, "the confirmation has not expired");
        tokio::time::sleep(CONFIRMED_FOR + SECOND).await;
        let reason = unavailable(lock(&service.node).await);
        assert!(reason.contains("only 1 of 3 sentinels confirm a master, 2 required"), "{reason}");
        assert_eq!(0, service.servers[0].open());
        name(&service.sentinels[0], "0", "master");
        timeout(SECOND, service.servers[0].wait(|server| server.open() == 1))
            .await
            .expect("it is used again");
        assert!(service.grants().await);
    }
}

#[tokio::test(start_paused = true)]
async fn an_admission_ends_with_the_last_confirmation_even_if_the_connection_stays_open() {
    let service = Service::new();
    assert!(service.grants().await);
    service.sentinels.iter().for_each(|sentinel| sentinel.is(|behavior| behavior.replies = false));
    let link = service.servers[0].hub();
    // The clock of the supervisor may be slightly ahead of the paused one.
    tokio::time::advance(CONFIRMED_FOR + SECOND / 4).await;
    assert_eq!(1, service.servers[0].open(), "the supervisor still waits for replies of the sentinels");
    let now = || TokioRuntime::new().now();
    let admission = link.gate().admission(|| SECOND, now);
    assert!(
        matches!(&admission, node::Admission::Quarantined(q) if q.reason == QuarantineReason::NotChecked),
        "{admission:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_ttl_is_limited_and_a_quarantine_is_longer() {
    let service = Service::new();
    assert_eq!(Some(30 * SECOND), service.node.profile().longest_ttl);
    let longer = Fake::chosen_by(Sentinels::new("m", Vec::new(), |_: &str, _| Fake::default()));
    let node = Node::new(longer, &options().longest_ttl(60 * SECOND));
    assert_eq!(Some(60 * SECOND), node.profile().longest_ttl);
    assert_eq!(None, Node::new(Fake::default(), &options()).profile().longest_ttl);
    // The stamps are 60 s old, which is enough for a server that no sentinels choose.
    for (ttl, is_enough) in [(51, true), (52, false)] {
        let service = Service::new();
        let options = options().longest_ttl(ttl * SECOND);
        let sentinels = service.sentinels.to_vec();
        let server = service.servers[0].clone();
        let node = Node::new(
            Fake::chosen_by(Sentinels::new("m", sentinels, move |_: &str, _| server.clone())),
            &options,
        );
        let granted = matches!(lock(&node).await, Ok(node::Reply::Granted));
        assert_eq!(is_enough, granted, "60 s, of {ttl} s and 1 % and the margin");
    }
}
