//! Nodes that lose their data, and do not count until the lost locks have expired.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{MS, TTL, World, both, builder, is_pending, kind, with_nodes};
use redlock_core::node::{Begun, LockNode, QuarantineReason, Request};
use redlock_core::runtime::{Instant, Runtime};
use redlock_core::{Builder, ErrorKind, LeaseState, LockStatus, Outcome, Redlock, ReleaseOutcome};
use redlock_testkit::sim::Process;
use redlock_testkit::{FakeNode, Fault, Operation};

/// The quarantine that follows from [`TTL`].
const WAIT: Duration = Duration::from_millis(10_102);

/// Runs a test on three nodes that take part.
fn with_three<F>(test: impl FnOnce(World) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    with_nodes(3, |mut world| {
        world.nodes.iter().for_each(|node| node.inner().set_longest_ttl(TTL));
        // The bound is read when a client is built.
        world.redlock = builder(&world.process, &world.nodes).build().unwrap();
        test(world)
    });
}

async fn available(redlock: &Redlock) -> bool {
    redlock.lock("probe", TTL).try_now().await.is_ok()
}

#[test]
fn a_majority_that_lost_its_data_grants_no_second_lock() {
    with_three(async |world| {
        let guard = world.lock().await;
        world.nodes[..2].iter().for_each(|node| node.inner().clear());
        let other = world.other_client();
        let error = other.lock("a", TTL).try_now().await.unwrap_err();
        assert_eq!(ErrorKind::NoQuorum, error.kind());
        assert!(guard.is_held());
        assert_eq!(
            "cannot lock \"a\": 2 of 3 nodes quarantined, so no quorum of 2 \
             (fake-0: may have lost locks (server restarted), counts again in 10.1s; \
             fake-1: may have lost locks (server restarted), counts again in 10.1s)",
            error.to_string()
        );
        assert_eq!(Some(WAIT), error.quarantine());
        guard.release().await.unwrap();
        other.close().await;
        world.nothing_left().await;
    });
}

#[test]
fn without_restart_admission_there_is_a_second_holder() {
    with_nodes(3, async |world| {
        let guard = world.lock().await;
        world.nodes[..2].iter().for_each(|node| node.inner().clear());
        let second = world.other_client().lock("a", TTL).try_now().await.unwrap();
        assert!(guard.is_held() && second.is_some());
    });
}

#[test]
fn the_wait_ends_exactly_after_the_longest_ttl_and_drift() {
    with_three(async |world| {
        world.nodes[..2].iter().for_each(|node| node.inner().flush());
        world.sleep(WAIT.saturating_sub(MS)).await;
        assert!(!available(&world.redlock).await);
        world.sleep(MS).await;
        assert!(available(&world.redlock).await);
        world.nothing_left().await;
    });
}

#[test]
fn a_minority_in_quarantine_is_written_to_and_cleaned_up() {
    with_three(async |world| {
        world.nodes[2].inner().clear();
        let guard = world.lock().await;
        assert_eq!(3, world.keys(), "the node in quarantine has the key, too");
        let reports = guard.node_reports();
        let Outcome::Quarantined { granted: true, quarantine } = reports[2].outcome() else {
            panic!("{}", reports[2])
        };
        assert_eq!(QuarantineReason::Restarted, quarantine.reason);
        assert!(reports[2].to_string().contains("granted after 0.0ns, not counted: may have lost locks"));
        guard.extend(TTL).await.unwrap();
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
        world.nothing_left().await;
    });
}

#[test]
fn a_failed_attempt_is_cleaned_up_on_nodes_in_quarantine() {
    with_three(async |world| {
        world.nodes[..2].iter().for_each(|node| node.inner().clear());
        assert_eq!(ErrorKind::NoQuorum, kind(world.redlock.lock("a", TTL).try_now().await));
        world.nothing_left().await;
    });
}

#[test]
fn an_extension_counts_only_admitted_nodes_and_proves_no_loss() {
    with_three(async |world| {
        let guard = world.lock().await;
        world.nodes[..2].iter().for_each(|node| node.inner().clear());
        assert_eq!(ErrorKind::NoQuorum, kind(guard.extend(TTL).await));
        assert_eq!(LeaseState::AtRisk, guard.state(), "denials of these nodes prove nothing");
        world.nodes[0].call(Request::Vouch).await.unwrap();
        // Two nodes count, and one of them has lost the key. Thus there is no quorum.
        assert_eq!(ErrorKind::NoQuorum, kind(guard.extend(TTL).await));
        drop(guard);
        world.nothing_left().await;
    });
}

#[test]
fn a_node_in_quarantine_that_lost_the_key_is_refilled_and_counts_later() {
    with_three(async |world| {
        let guard = world.lock().await;
        world.nodes[0].inner().clear();
        guard.extend(TTL).await.unwrap();
        world.settle().await;
        assert_eq!(3, world.keys(), "the key is restored");
        for _ in 0..3 {
            world.sleep(Duration::from_secs(4)).await;
            guard.extend(TTL).await.unwrap();
        }
        // The node counts again, and makes a quorum with one other.
        world.nodes[1].crash();
        guard.extend(TTL).await.unwrap();
        world.nodes[1].restart();
        guard.release().await.unwrap();
        world.nothing_left().await;
    });
}

/// The loss comes after the request was carried out, and before the reply is read.
#[test]
fn a_vote_does_not_count_after_a_loss_in_between() {
    with_three(async |world| {
        world.nodes[1].crash();
        world.nodes[0].inject(Fault::hold_reply().on(Operation::Acquire));
        let lose = async {
            world.nodes[0].wait_for_requests(Operation::Acquire, 1).await;
            world.settle().await;
            world.nodes[0].inner().flush();
            world.nodes[0].resume().await;
        };
        let (result, ()) = both(world.redlock.lock("a", TTL).try_now(), lose).await;
        let error = result.unwrap_err();
        let reports = error.node_reports();
        assert_eq!(Some(QuarantineReason::DataLost), reports[0].quarantine().map(|q| q.reason), "{error}");
        world.nodes[1].restart();
        world.nothing_left().await;
    });
}

/// The request is sent during the quarantine, and its reply is read after it.
#[test]
fn a_vote_of_a_request_that_was_sent_in_quarantine_does_not_count() {
    with_three(async |world| {
        world.nodes[1].crash();
        world.nodes[0].inner().clear();
        world.sleep(WAIT.saturating_sub(10 * MS)).await;
        world.nodes[0].inject(Fault::delay(20 * MS).on(Operation::Acquire).once());
        assert_eq!(ErrorKind::NoQuorum, kind(world.redlock.lock("a", TTL).try_now().await));
        assert!(available(&world.redlock).await);
        world.nodes[1].restart();
        world.nothing_left().await;
    });
}

#[test]
fn a_fenced_lock_ignores_the_counter_of_a_node_in_quarantine() {
    with_three(async |world| {
        let first = world.redlock.lock("a", TTL).fenced().await.unwrap();
        let token = first.fencing_token().unwrap();
        first.release().await.unwrap();
        world.nodes[0].inner().clear();
        world.nodes[0].inner().count_from_one();
        let second = world.redlock.lock("a", TTL).fenced().await.unwrap();
        assert!(second.fencing_token().unwrap() > token);
        second.release().await.unwrap();
        world.nothing_left().await;
    });
}

#[test]
fn inspection_and_resumption_ignore_nodes_in_quarantine() {
    with_three(async |world| {
        let guard = world.lock().await;
        world.nodes[..2].iter().for_each(|node| node.inner().clear());
        let other = world.other_client();
        assert_eq!(ErrorKind::NoQuorum, kind(other.inspect("a").await), "not free");
        let detached = guard.detach().await;
        assert_eq!(ErrorKind::NoQuorum, kind(other.resume(&detached).await));
        world.nodes[0].inner().restore(&world.nodes[2].inner().snapshot());
        world.nodes[0].call(Request::Vouch).await.unwrap();
        assert!(matches!(other.inspect("a").await.unwrap().status(), LockStatus::Held { .. }));
        let resumed = other.resume(&detached).await.unwrap();
        resumed.release().await.unwrap();
        other.close().await;
        world.nothing_left().await;
    });
}

#[test]
fn health_reports_the_quarantine_and_an_operator_ends_it() {
    with_three(async |world| {
        world.nodes[..2].iter().for_each(|node| node.inner().flush());
        world.sleep(Duration::from_secs(3)).await;
        let health = world.redlock.health().await;
        assert_eq!((1, false), (health.healthy_nodes(), health.is_available()));
        let node = &health.nodes()[1];
        assert!(!node.is_healthy());
        let quarantine = node.quarantine().unwrap();
        assert_eq!(QuarantineReason::DataLost, quarantine.reason);
        let shown = node.to_string();
        assert!(shown.contains("replied after 0.0ns, not counted: may have lost locks"), "{shown}");
        assert_eq!(Some(WAIT.saturating_sub(Duration::from_secs(3))), quarantine.remaining);
        assert!(node.to_string().contains("counts again in 7.1s"), "{node}");
        assert_eq!(ErrorKind::InvalidInput, kind(world.redlock.vouch(3).await));
        world.redlock.vouch(0).await.unwrap();
        let health = world.redlock.health().await;
        assert_eq!((2, true), (health.healthy_nodes(), health.is_available()));
        world.nothing_left().await;
    });
}

#[test]
fn ttls_above_the_shortest_bound_are_rejected_before_anything_is_sent() {
    with_three(async |world| {
        world.nodes[1].inner().set_longest_ttl(TTL / 2);
        let redlock = builder(&world.process, &world.nodes).build().unwrap();
        let error = redlock.lock("a", TTL).await.unwrap_err();
        assert_eq!("the TTL of 10s is longer than longest_ttl, 5s", error.to_string());
        assert_eq!(ErrorKind::InvalidInput, kind(redlock.lock("a", TTL).try_now().await));
        let guard = redlock.lock("a", TTL / 2).await.unwrap();
        assert_eq!(ErrorKind::InvalidInput, kind(guard.extend(TTL).await));
        guard.release().await.unwrap();
        assert_eq!(vec![1; 3], world.request_counts(Operation::Acquire));
        assert_eq!(vec![0; 3], world.request_counts(Operation::Extend));
    });
}

#[test]
fn nodes_without_restart_admission_cannot_be_vouched_for() {
    with_nodes(1, async |world| {
        world.nodes[0].inner().clear();
        assert!(available(&world.redlock).await, "a lost lock is not noticed");
        let error = world.redlock.vouch(0).await.unwrap_err();
        assert_eq!(ErrorKind::Unsupported, error.kind());
        assert!(error.to_string().starts_with("cannot vouch for node 0 (fake-0): "), "{error}");
        let _: Arc<dyn LockNode> = world.nodes[0].clone().into();
    });
}

/// A node whose first connection is established at a certain time.
struct Connecting {
    node: FakeNode,
    process: Process,
    at: Instant,
}

impl LockNode for Connecting {
    fn label(&self) -> &str {
        self.node.label()
    }

    fn begin(&self, request: &Request) -> Begun {
        let remaining = self.at.saturating_duration_since(self.process.now());
        if remaining.is_zero() {
            self.node.begin(request)
        } else {
            Begun::connecting(self.process.sleep(remaining))
        }
    }
}

#[test]
fn a_request_dropped_while_nodes_connect_sends_nothing_to_them() {
    with_three(async |world| {
        let node = |index: usize| {
            let (node, process) = (world.nodes[index].clone(), world.process.clone());
            let at = process.now() + if index == 0 { Duration::ZERO } else { 10 * MS };
            Arc::new(Connecting { node, process, at }) as Arc<dyn LockNode>
        };
        let redlock = Builder::new(world.process.runtime()).nodes((0..3).map(node)).build().unwrap();
        let mut request = Box::pin(redlock.lock("a", TTL).into_future());
        assert!(is_pending(&mut request).await);
        drop(request);
        redlock.close().await;
        world.sleep(20 * MS).await;
        for operation in [Operation::Acquire, Operation::Release] {
            assert_eq!(vec![1, 0, 0], world.request_counts(operation), "{operation:?}");
        }
        world.nothing_left().await;
    });
}

#[test]
fn a_node_that_is_not_connected_in_time_needs_no_cleanup() {
    with_three(async |world| {
        let node = |index: usize| {
            let (node, process) = (world.nodes[index].clone(), world.process.clone());
            let at = process.now() + if index == 2 { Duration::from_secs(3_600) } else { Duration::ZERO };
            Arc::new(Connecting { node, process, at }) as Arc<dyn LockNode>
        };
        let redlock = Builder::new(world.process.runtime()).nodes((0..3).map(node)).build().unwrap();
        let start = world.process.now();
        let guard = redlock.lock("a", TTL).await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(0, redlock.close().await);
        let elapsed = world.process.now().saturating_duration_since(start);
        assert!(elapsed < Duration::from_secs(1), "closed after {elapsed:?}");
        assert_eq!(vec![1, 1, 0], world.request_counts(Operation::Acquire));
        world.nothing_left().await;
    });
}
