//! Tests of a node whose servers are the three masters of a cluster.

use redlock_core::IntoResource;
use redlock_core::node::QuarantineReason;

use super::*;
use crate::cluster::slot::slot;
use crate::cluster_members::ClusterMembers;
use crate::sentinel::CONFIRMED_FOR;

const SECOND: Duration = Duration::from_secs(1);

/// The masters of a cluster, each with a third of the slots, and a node.
struct Shards {
    masters: [Fake; 3],
    node: Node<Fake>,
}

/// The slots of the masters.
const THIRDS: [&str; 3] = ["0-5460", "5461-10922", "10923-16383"];

/// A name whose slot is in each third.
const NAMES: [&str; 3] = ["b", "c", "a"];

impl Shards {
    fn new() -> Self {
        let masters: [Fake; 3] = Default::default();
        for master in &masters {
            master.is(|behavior| behavior.stamp = Some("1 a 0 5 30000"));
        }
        let found = masters.clone();
        let server = move |_: &str, port: u16| found[usize::from(port)].clone();
        let members = ClusterMembers::new(vec![("a".into(), 0)], false, server);
        let shards = Self { masters, node: Node::new(Fake::of_cluster(members), &options()) };
        shards.all_state(&["", "", ""], &THIRDS);
        shards
    }

    /// Lets all masters state these flags and slots of each master.
    fn all_state(&self, flags: &[&str; 3], slots: &[&str; 3]) {
        for master in 0..3 {
            self.states(master, flags, slots);
        }
    }

    fn states(&self, master: usize, flags: &[&str; 3], slots: &[&str; 3]) {
        let line = |index: usize| {
            let myself = if index == master { "myself," } else { "" };
            let (flags, slots) = (flags[index], slots[index]);
            format!("id{index} 10.0.0.1:{index}@1 {myself}master{flags} - 0 0 1 connected {slots}\n")
        };
        let text: String = (0..3).map(line).collect();
        self.masters[master].is(|behavior| behavior.cluster = Reply::Bytes(text.into()));
    }

    /// Returns the number of `SET` commands that each master has received since the last call.
    fn sets(&self) -> [usize; 3] {
        [0, 1, 2].map(|index| self.masters[index].calls().iter().filter(|name| **name == "SET").count())
    }
}

fn options() -> Options {
    Options::new(Arc::new(TokioRuntime::new()))
}

fn acquire(name: &str) -> Request {
    Request::Acquire(claim(name), ttl())
}

async fn call(node: &Node<Fake>, request: Request) -> Result<node::Reply, NodeError> {
    timeout(PATIENCE, node.call(request)).await.expect("the call hangs")
}

async fn granted(node: &Node<Fake>, name: &str) -> bool {
    matches!(call(node, acquire(name)).await, Ok(node::Reply::Granted))
}

/// Returns the connection over which a request is sent.
fn connection(node: &Node<Fake>, name: &str) -> Option<ConnectionId> {
    match node.begin(&Request::Release(claim(name))) {
        Begun::Sent(exchange) => exchange.connection,
        Begun::Connecting(_) => panic!("the node is connecting"),
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_goes_to_the_master_of_its_slot() {
    let shards = Shards::new();
    for (index, name) in NAMES.iter().enumerate() {
        assert_eq!(index, usize::from(slot(name.as_bytes()) / 5461), "{name}");
        assert!(granted(&shards.node, name).await);
        let mut expected = [0; 3];
        expected[index] = 1;
        assert_eq!(expected, shards.sets(), "{name}");
    }
    let connections: std::collections::HashSet<_> =
        NAMES.iter().map(|name| connection(&shards.node, name)).collect();
    assert_eq!(3, connections.len(), "each shard has a connection with its own identifier");
    assert_eq!("fake", shards.node.label());
}

#[tokio::test(start_paused = true)]
async fn requests_follow_a_slot_once_a_majority_agrees() {
    let shards = Shards::new();
    assert!(granted(&shards.node, "a").await);
    let (up, moved) = (["", "", ""], ["0-5460", "5461-16383", ""]);
    shards.states(1, &up, &moved);
    tokio::time::sleep(2 * SECOND).await;
    assert!(granted(&shards.node, "a").await, "one master decides nothing");
    assert_eq!([0, 0, 2], shards.sets());
    shards.states(2, &up, &moved);
    tokio::time::sleep(2 * SECOND).await;
    let reason = unavailable(call(&shards.node, acquire("a")).await);
    assert_eq!("the masters of the cluster do not agree yet which of them has slot 15495", reason);
    shards.states(0, &up, &moved);
    tokio::time::sleep(2 * SECOND).await;
    assert!(granted(&shards.node, "a").await);
    assert_eq!([0, 1, 0], shards.sets());
    shards.masters[2].until(|master| master.open() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn only_a_reply_that_proves_the_map_wrong_causes_a_survey_at_once() {
    let shards = Shards::new();
    assert!(granted(&shards.node, "a").await);
    for (reply, words, is_map_wrong) in [
        ("MOVED 15495 10.0.0.1:1", "slot 15495 is at another master (MOVED", true),
        ("ASK 15495 10.0.0.1:1", "slot 15495 is being moved to another master (ASK", false),
        ("TRYAGAIN Multiple keys request during rehashing of slot", "is being moved", false),
        (
            "CLUSTERDOWN The cluster is down",
            "is not served: its master does not reach a majority of the masters, or any slot has no master",
            false,
        ),
    ] {
        shards.masters[0].calls();
        while !shards.masters[0].calls().contains(&"CLUSTER") {
            tokio::time::sleep(SECOND / 100).await;
        }
        tokio::time::sleep(SECOND / 4).await;
        shards.masters[2].is(|behavior| behavior.set = Reply::Error(reply.into()));
        let error = call(&shards.node, acquire("a")).await.unwrap_err();
        assert_eq!(NodeErrorKind::Rejected, error.kind());
        assert!(error.to_string().contains(words), "{error}");
        tokio::time::sleep(SECOND / 4).await;
        assert_eq!(is_map_wrong, shards.masters[0].calls().contains(&"CLUSTER"), "{reply}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_gains_a_smaller_number_is_used_until_it_counts_by_the_new_stamp() {
    let shards = Shards::new();
    assert!(granted(&shards.node, "b").await);
    tokio::time::sleep(2 * SECOND).await;
    let (before, open) = (connection(&shards.node, "b"), shards.masters[0].open());
    // Until now, its stamp was that of 3. The slot of 1 is 9842.
    assert_eq!([9842, 1584], ["1", "3"].map(|number| slot(number.as_bytes())));
    shards.masters[0].is(|behavior| behavior.accepts = Err("refused"));
    shards.all_state(&["", "", ""], &["0-5460 9842", "5461-9841 9843-10922", "10923-16383"]);
    tokio::time::sleep(2 * SECOND).await;
    assert!(granted(&shards.node, "b").await);
    assert_eq!(before, connection(&shards.node, "b"), "the new stamp is not checked yet");
    shards.masters[0].is(|behavior| behavior.accepts = Ok(true));
    tokio::time::sleep(3 * SECOND).await;
    assert_ne!(before, connection(&shards.node, "b"));
    assert!(granted(&shards.node, "b").await);
    assert_eq!(open, shards.masters[0].open());
    // It has no slot of another stamp than before, so nothing changes.
    let after = connection(&shards.node, "b");
    shards.all_state(&["", "", ""], &["0-5461 9842", "5462-9841 9843-10922", "10923-16383"]);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(after, connection(&shards.node, "b"));
    assert_eq!(open, shards.masters[0].open());
}

#[tokio::test(start_paused = true)]
async fn a_stamp_that_moves_away_is_replaced_at_once() {
    let shards = Shards::new();
    assert!(granted(&shards.node, "b").await);
    let before = connection(&shards.node, "b");
    shards.all_state(&["", "", ""], &["0-1583 1585-5460", "1584 5461-10922", "10923-16383"]);
    tokio::time::sleep(2 * SECOND).await;
    assert!(granted(&shards.node, "b").await);
    assert_ne!(before, connection(&shards.node, "b"));
}

#[tokio::test(start_paused = true)]
async fn a_vote_counts_only_while_its_master_is_confirmed() {
    for slots in [THIRDS, ["0-5460", "5461-16383", ""]] {
        let shards = Shards::new();
        assert!(granted(&shards.node, "a").await);
        shards.masters[2].is(|behavior| behavior.holds = true);
        let late = async {
            tokio::time::sleep(SECOND / 10).await;
            shards.all_state(&["", "", ",fail"], &slots);
            tokio::time::sleep(CONFIRMED_FOR).await;
            shards.masters[2].is(|behavior| behavior.holds = false);
        };
        let (reply, ()) = tokio::join!(call(&shards.node, acquire("a")), late);
        let node::Reply::Quarantined(reply, quarantine) = reply.unwrap() else { panic!("it counts") };
        assert_eq!((node::Reply::Granted, QuarantineReason::NotChecked), (*reply, quarantine.reason));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_nothing_is_sent() {
    let shards = Shards::new();
    assert!(granted(&shards.node, "a").await);
    for master in &shards.masters[..2] {
        master.is(|behavior| behavior.accepts = Err("refused"));
        master.cut();
    }
    tokio::time::sleep(SECOND / 2).await;
    assert!(granted(&shards.node, "a").await, "the confirmation has not expired");
    tokio::time::sleep(CONFIRMED_FOR).await;
    shards.sets();
    let reason = unavailable(call(&shards.node, acquire("a")).await);
    assert!(reason.contains("only 1 of 3 masters of the cluster reply, 2 required"), "{reason}");
    assert_eq!([0; 3], shards.sets());
    shards.masters[0].is(|behavior| behavior.accepts = Ok(true));
    tokio::time::sleep(2 * SECOND).await;
    assert!(granted(&shards.node, "a").await);
}

#[tokio::test(start_paused = true)]
async fn a_master_that_the_others_see_down_is_not_used() {
    let shards = Shards::new();
    assert!(granted(&shards.node, "a").await);
    shards.states(0, &["", "", ",fail?"], &THIRDS);
    shards.states(1, &["", "", ",fail?"], &THIRDS);
    tokio::time::sleep(2 * SECOND).await;
    let reason = unavailable(call(&shards.node, acquire("a")).await);
    assert!(reason.contains("masters of the cluster see 10.0.0.1:2 down"), "{reason}");
    assert!(granted(&shards.node, "b").await, "the other shards");
}

#[tokio::test(start_paused = true)]
async fn keys_in_several_slots_are_rejected_before_anything_is_sent() {
    let shards = Shards::new();
    assert!(granted(&shards.node, "a").await);
    shards.sets();
    let resources = ["a", "b"].map(|name| name.into_resource().unwrap());
    let error = shards.node.check_together(&resources).unwrap_err();
    assert!(error.to_string().contains("different hash slots of the cluster"), "{error}");
    let request = Request::Acquire(claim(["a", "b"]), ttl());
    assert_eq!(NodeErrorKind::Rejected, call(&shards.node, request).await.unwrap_err().kind());
    // Its counter would be in another slot.
    let request = Request::AcquireFenced(claim("a}"), ttl());
    assert_eq!(NodeErrorKind::Rejected, call(&shards.node, request).await.unwrap_err().kind());
    assert!(shards.masters.iter().all(|master| !master.calls().contains(&"EVALSHA")));
    let tagged = ["{x}a", "b{x}"].map(|name| name.into_resource().unwrap());
    assert!(shards.node.check_together(&tagged).is_ok());
    let request = Request::Acquire(claim(["{x}a", "b{x}"]), ttl());
    drop(call(&shards.node, request).await);
    assert!(shards.masters[usize::from(slot(b"x") / 5461)].calls().contains(&"EVALSHA"));
}

#[tokio::test(start_paused = true)]
async fn vouching_is_for_all_shards() {
    let shards = Shards::new();
    assert_eq!(node::Reply::Granted, call(&shards.node, Request::Vouch).await.unwrap());
    for master in &shards.masters {
        assert!(master.calls().contains(&"EVAL look"), "a look after that of the handshake");
    }
    shards.states(0, &["", "", ",fail?"], &THIRDS);
    shards.states(1, &["", "", ",fail?"], &THIRDS);
    tokio::time::sleep(2 * SECOND).await;
    assert!(unavailable(call(&shards.node, Request::Vouch).await).contains("down"));
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_the_quarantine_of_one_shard_as_that_of_a_part() {
    let shards = Shards::new();
    let set_ahead = |master: usize, ahead| shards.masters[master].is(|behavior| behavior.ahead = Some(ahead));
    let state = || {
        let status = shards.node.status();
        (status.is_partly_quarantined, status.quarantine.map(|quarantine| quarantine.reason))
    };
    for (index, name) in NAMES.iter().enumerate() {
        set_ahead(index, Duration::ZERO);
        assert!(granted(&shards.node, name).await);
        assert_eq!((false, None), state());
    }
    set_ahead(0, 60 * SECOND);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!((true, None), state());
    set_ahead(1, 60 * SECOND);
    set_ahead(2, 60 * SECOND);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!((true, Some(QuarantineReason::ClockJumped)), state());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_node_leaves_no_task_and_no_connection() {
    let shards = Shards::new();
    for name in NAMES {
        assert!(granted(&shards.node, name).await);
    }
    drop(shards.node);
    settles(|| tasks() == 0).await;
    assert!(shards.masters.iter().all(|master| master.open() == 0));
}

#[test]
fn another_runtime_continues_when_that_of_the_surveyor_has_ended() {
    let shards = Shards::new();
    for _ in 0..2 {
        let runtime = runtime();
        assert!(runtime.block_on(granted(&shards.node, "a")));
        drop(runtime);
    }
    let reason = unavailable(shards.node.call(acquire("a")).now_or_never().unwrap());
    assert!(reason.contains("runtime"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_a_request_waits_for_the_next_survey() {
    let shards = Shards::new();
    assert!(granted(&shards.node, "a").await);
    // No task of this runtime runs meanwhile.
    tokio::time::advance(2 * CONFIRMED_FOR).await;
    assert!(granted(&shards.node, "a").await);
}
