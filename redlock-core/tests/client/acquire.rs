//! Acquisition: when a round is decided, and the errors it returns.
#![allow(clippy::unchecked_time_subtraction)] // only constants are subtracted

use std::time::Duration;

use crate::common::*;
use redlock_core::node::Ttl;
use redlock_core::{ErrorKind, Outcome};
use redlock_testkit::{Fault, Faulty, Operation};

#[test]
fn a_hung_minority_does_not_delay_acquisition() {
    with_five(async |world| {
        world.nodes[..2].iter().for_each(|node| node.inject(Fault::hang()));
        let (guard, took) = world.time(world.redlock.lock("a", TTL)).await;
        assert_eq!(Duration::ZERO, took);
        let votes = guard.unwrap().node_reports();
        assert!(matches!(votes[0].outcome(), Outcome::Pending), "{}", votes[0]);
        assert!(matches!(votes[4].outcome(), Outcome::Granted), "{}", votes[4]);
    });
}

#[test]
fn late_replies_are_in_the_node_reports_of_the_lease() {
    with_five(async |world| {
        world.nodes[0].inject(Fault::delay(50 * MS).on(Operation::Acquire));
        world.nodes[1].inject(Fault::hang());
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        world.sleep(NODE_TIMEOUT + MS).await;
        let votes = guard.node_reports();
        assert!(matches!(votes[0].outcome(), Outcome::Granted), "{}", votes[0]);
        assert!(matches!(votes[1].outcome(), Outcome::TimedOut), "{}", votes[1]);
        assert_eq!((50 * MS, NODE_TIMEOUT), (votes[0].latency(), votes[1].latency()));
    });
}

#[test]
fn nodes_that_have_not_replied_are_neither_available_nor_failed() {
    for hung in [2, 1] {
        with_five(async move |world| {
            world.nodes[..hung].iter().for_each(|node| node.inject(Fault::hang()));
            // These have not replied either when the third failure decides the round.
            world.nodes[hung..2].iter().for_each(|node| node.inject(Fault::delay(50 * MS)));
            world.nodes[2..].iter().for_each(Faulty::crash);
            let error = world.redlock.lock("a", TTL).try_now().await.unwrap_err();
            let expected =
                "cannot lock \"a\": 3 of 5 nodes failed, so no quorum of 3 (fake-2: connection refused; ";
            assert!(error.to_string().starts_with(expected), "{error}");
            assert!(!error.to_string().contains("fake-0"), "{error}");
        });
    }
}

#[test]
fn with_a_hung_majority_acquisition_fails_at_the_node_timeout() {
    with_five(async |world| {
        world.nodes[..3].iter().for_each(|node| node.inject(Fault::hang()));
        let (result, took) = world.time(world.redlock.lock("a", TTL).try_now()).await;
        assert_eq!(NODE_TIMEOUT, took);
        let error = result.unwrap_err();
        assert_eq!(ErrorKind::NoQuorum, error.kind());
        assert_eq!(vec!["timed out", "timed out", "timed out", "granted", "granted"], outcomes(&error));
        let causes = "fake-0: timed out after 200.0ms; fake-1: timed out after 200.0ms; fake-2: timed out after 200.0ms";
        assert_eq!(
            format!("cannot lock \"a\": 3 of 5 nodes failed, so no quorum of 3 ({causes})"),
            error.to_string()
        );
        assert_eq!(format!("NoQuorum: {error}"), format!("{error:?}"));
        for node in &world.nodes {
            node.resume().await;
        }
        world.nothing_left().await;
    });
}

#[test]
fn validity_counts_from_before_the_first_request() {
    with_five(async |world| {
        world.nodes.iter().for_each(|node| node.inject(Fault::delay(50 * MS)));
        let guard = world.redlock.lock("a", TTL).await.unwrap();
        assert_eq!(TTL - 50 * MS - 102 * MS, guard.remaining());
        world.sleep(guard.remaining() - MS).await;
        assert!(guard.is_held());
        world.sleep(MS).await;
        assert!(!guard.is_held(), "the lock expires at the deadline");
        assert!(world.keys() > 0, "the validity ends before the keys do");
    });
}

#[test]
fn a_ttl_used_up_before_a_quorum_grants_fails_as_too_slow() {
    with_five(async |world| {
        // Half of the TTL is the node timeout here, and the drift allowance uses up the other half.
        let ttl = 10 * MS;
        let builder = builder(&world.process, &world.nodes).clock_drift_factor(0.4);
        let redlock = builder.build().unwrap();
        world.nodes.iter().for_each(|node| node.inject(Fault::delay(5 * MS)));
        let error = redlock.lock("a", ttl).try_now().await.unwrap_err();
        assert_eq!(ErrorKind::TooSlow, error.kind(), "{error}");
        redlock.close().await;
        assert_eq!(0, world.keys());
    });
}

#[test]
fn one_denial_and_three_hung_nodes_are_reported_as_no_quorum() {
    with_five(async |world| {
        world.nodes[0].inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX);
        world.nodes[1..4].iter().for_each(|node| node.inject(Fault::hang()));
        let (result, took) = world.time(world.redlock.lock("a", TTL).try_now()).await;
        assert_eq!((ErrorKind::NoQuorum, NODE_TIMEOUT), (kind(result), took));
    });
}

#[test]
fn three_denials_of_five_are_contention_without_the_other_replies() {
    with_five(async |world| {
        world.nodes[..3]
            .iter()
            .for_each(|node| node.inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX));
        world.nodes[3..].iter().for_each(|node| node.inject(Fault::hang()));
        let (result, took) = world.time(world.redlock.lock("a", TTL).max_attempts(1)).await;
        let error = result.unwrap_err();
        assert_eq!((ErrorKind::Contended, Duration::ZERO), (error.kind(), took));
        assert_eq!(Some(foreign_claim().token().fingerprint()), error.holder());
        assert_eq!(vec!["denied", "denied", "denied", "pending", "pending"], outcomes(&error));
    });
}

/// Two failures, two denials and a grant, in every order of arrival.
#[test]
fn the_error_kind_does_not_depend_on_the_order_of_replies() {
    for rotation in 0..5 {
        with_five(async move |world| {
            let delay = |node: usize| Fault::delay(MS * u32::try_from((node + rotation) % 5).unwrap());
            for node in [0, 1] {
                world.nodes[node].inject(delay(node).on(Operation::Acquire));
                world.nodes[node].crash();
            }
            for node in [2, 3] {
                world.nodes[node].inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX);
                world.nodes[node].inject(delay(node));
            }
            world.nodes[4].inject(delay(4));
            assert_eq!(ErrorKind::Undecided, kind(world.redlock.lock("a", TTL).max_attempts(1).await));
        });
    }
}

#[test]
fn every_attempt_has_its_own_token() {
    with_five(async |world| {
        world.nodes[..3]
            .iter()
            .for_each(|node| node.inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX));
        // No release reaches this node, so the token of each attempt stays on it.
        world.nodes[4].inject(Fault::drop_request().on(Operation::Release));
        let mut tokens = std::collections::HashSet::new();
        for _ in 0..10 {
            assert!(world.redlock.lock("a", TTL).try_now().await.unwrap().is_none());
            world.settle().await;
            assert!(tokens.insert(world.nodes[4].inner().holder("a").unwrap()));
            world.sleep(TTL).await;
        }
    });
}

#[test]
fn every_attempt_of_one_request_has_its_own_token() {
    with_five(async |world| {
        world.nodes[..3]
            .iter()
            .for_each(|node| node.inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX));
        world.nodes[4].inject(Fault::delay(50 * MS).on(Operation::Release));
        let tokens = std::sync::Arc::new(std::sync::Mutex::new(std::collections::HashSet::new()));
        let (there, seen) = (world.clone(), tokens.clone());
        world.spawn(async move {
            loop {
                // A release reserves the lock for the next attempt, which is no token of an attempt.
                let holder = there.nodes[4].inner().holder("a");
                let attempt = holder.filter(|token| !token.as_bytes().starts_with(b"next#"));
                seen.lock().unwrap().extend(attempt);
                there.sleep(10 * MS).await;
            }
        });
        assert_eq!(ErrorKind::Contended, kind(world.redlock.lock("a", TTL).max_attempts(4).await));
        world.sleep(20 * MS).await;
        assert_eq!(4, tokens.lock().unwrap().len());
    });
}

#[test]
fn a_single_node_is_its_own_quorum_and_four_nodes_tolerate_one_failure() {
    with_nodes(1, async |world| {
        let guard = world.lock().await;
        assert!(world.redlock.lock("a", TTL).try_now().await.unwrap().is_none());
        drop(guard);
        world.nothing_left().await;
    });
    with_nodes(4, async |world| {
        world.nodes[0].crash();
        drop(world.redlock.lock("a", TTL).await.unwrap());
        world.nodes[1].crash();
        assert_eq!(ErrorKind::NoQuorum, kind(world.redlock.lock("b", TTL).try_now().await));
    });
}

#[test]
fn two_nodes_on_one_server_have_one_vote() {
    use std::sync::Arc;

    use redlock_core::node::{Begun, LockNode, Profile, Request};
    use redlock_core::{LockStatus, Redlock};

    /// A second name for a server.
    struct Alias(redlock_testkit::MemoryNode, &'static str);

    impl LockNode for Alias {
        fn label(&self) -> &str {
            self.1
        }

        fn profile(&self) -> Profile {
            self.0.profile()
        }

        fn begin(&self, request: &Request) -> Begun {
            self.0.begin(request)
        }
    }

    with_nodes(1, async |world| {
        let server = redlock_testkit::MemoryNode::with_runtime("server", world.process.runtime());
        let aliases = ["x", "y"].map(|name| Arc::new(Alias(server.clone(), name)) as Arc<dyn LockNode>);
        let other = world.nodes[0].clone();
        let builder = Redlock::builder(world.process.clone()).nodes(aliases).node(other);
        let redlock = builder.build().unwrap();

        let guard = redlock.lock("a", TTL).await.unwrap();
        guard.extend(TTL).await.unwrap();
        assert!(redlock.inspect("a").await.unwrap().is_held_by(&guard));
        drop(guard);

        server.set_holder("c", foreign_claim().token().clone(), Ttl::MAX);
        let inspection = redlock.inspect("c").await.unwrap();
        assert_eq!(&LockStatus::Undecided, inspection.status(), "both nodes are the same server");

        world.nodes[0].crash();
        let error = redlock.lock("b", TTL).try_now().await.unwrap_err();
        assert_eq!(ErrorKind::NoQuorum, error.kind(), "both grants come from the same server");
        assert_eq!(Some((0, "x")), error.node_reports()[1].same_server_as());
        let report = error.node_reports()[1].to_string();
        assert!(report.contains("node 1 (y): granted"), "{report}");
        assert!(error.to_string().contains("y: the same server as x"), "{error}");
        let expected = "cannot lock \"b\": 1 of 3 nodes failed, 1 listed twice, so no quorum of 2 (";
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(1, redlock.health().await.healthy_nodes());
    });
}

#[test]
fn resources_that_a_node_cannot_lock_together_are_rejected_before_anything_is_sent() {
    use redlock_core::node::{Begun, LockNode, Profile, Request};
    use redlock_core::{Error, Redlock, Resource};

    /// A node that locks resources together only if they have the same last byte.
    struct Apart(redlock_testkit::MemoryNode);

    impl LockNode for Apart {
        fn label(&self) -> &str {
            self.0.label()
        }

        fn profile(&self) -> Profile {
            self.0.profile()
        }

        fn begin(&self, request: &Request) -> Begun {
            let last = |resource: &Resource| resource.as_bytes().last().copied();
            assert!(
                request.resources().windows(2).all(|pair| last(&pair[0]) == last(&pair[1])),
                "{request:?}"
            );
            self.0.begin(request)
        }

        fn check_together(&self, resources: &[Resource]) -> Result<(), Error> {
            assert!(resources.len() > 1, "{resources:?}");
            let last = |resource: &Resource| resource.as_bytes().last().copied();
            if resources.windows(2).all(|pair| last(&pair[0]) == last(&pair[1])) {
                return Ok(());
            }
            Err(Error::invalid(format!("{resources:?} are apart")))
        }
    }

    with_nodes(1, async |world| {
        let server = redlock_testkit::MemoryNode::with_runtime("server", world.process.runtime());
        let redlock = Redlock::builder(world.process.clone()).node(Apart(server)).build().unwrap();
        let error = redlock.lock(["a", "b"], TTL).await.unwrap_err();
        assert_eq!(ErrorKind::InvalidInput, error.kind());
        assert_eq!("[\"a\", \"b\"] are apart", error.to_string());
        redlock.lock(["1a", "2a"], TTL).fenced().await.unwrap().release().await.unwrap();
        redlock.lock("b", TTL).await.unwrap().release().await.unwrap();
        // Each slot is a lock of its own, and a reader also needs the gate, "catalog:writer".
        redlock.slots("workers", 2).unwrap().acquire(TTL).await.unwrap().release().await.unwrap();
        let error = redlock.rw_lock("catalog").unwrap().read(TTL).await.unwrap_err();
        assert_eq!("[\"catalog\", \"catalog:writer\"] are apart", error.to_string());
    });
}

#[test]
fn node_timeouts_out_of_bounds_are_rejected() {
    with_five(async |world| {
        for bad in [Duration::ZERO, 999 * MS / 1000, Duration::from_secs(24 * 86_400) + MS, Duration::MAX] {
            let error = builder(&world.process, &world.nodes).node_timeout(bad).build().unwrap_err();
            assert_eq!(ErrorKind::InvalidInput, error.kind(), "{error}");
        }
    });
}
