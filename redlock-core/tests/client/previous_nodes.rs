//! A change of the nodes: a lock needs a quorum of the nodes and a quorum of the previous nodes.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{MS, NODE_TIMEOUT, TTL, World, both, builder, with_nodes};
use redlock_core::node::{LockNode, Request, Token, Ttl};
use redlock_core::{
    Builder, Error, ErrorKind, IntoResources, LeaseState, LockStatus, Outcome, Redlock, ReleaseOutcome,
};
use redlock_testkit::{FakeNode, Fault, Operation};

/// The old and the new list of a change, as positions in the nodes of the world.
type Change = (&'static [usize], &'static [usize]);

const CHANGES: [Change; 8] = [
    (&[0], &[0, 1, 2]),
    (&[0], &[1, 2, 3]),
    (&[0, 1, 2], &[0, 1, 2, 3, 4]),
    (&[0, 1, 2], &[2, 3, 4, 5, 6]),
    (&[0, 1, 2, 3, 4], &[2, 3, 4]),
    (&[0, 1, 2, 3, 4], &[4, 5, 6]),
    (&[0, 1, 2], &[0, 1, 3]),
    (&[0, 1, 2], &[3, 4, 5]),
];

impl World {
    fn listed(&self, list: &[usize]) -> Vec<FakeNode> {
        list.iter().map(|node| self.nodes[*node].clone()).collect()
    }

    fn step(&self, nodes: &[usize], previous: Option<&[usize]>) -> Builder {
        let builder = builder(&self.process, &self.listed(nodes));
        match previous {
            None => builder,
            Some(previous) => builder.previous_nodes(
                self.listed(previous).into_iter().map(|node| Arc::new(node) as Arc<dyn LockNode>),
            ),
        }
    }

    /// Returns a client for each of the three deployments.
    fn steps(&self, (old, new): Change) -> [Redlock; 3] {
        [self.step(old, None), self.step(new, Some(old)), self.step(new, None)]
            .map(|builder| builder.build().unwrap())
    }

    async fn set_holder(&self, nodes: &[usize], name: &str, token: &str) {
        for node in nodes {
            let claim =
                redlock_core::node::Claim::new(name.into_resources().unwrap(), Token::from_bytes(token));
            let request = Request::Acquire(claim, Ttl::new(TTL).unwrap());
            self.nodes[*node].inner().call(request).await.unwrap();
        }
    }
}

#[test]
fn programs_in_neighbouring_steps_exclude_each_other() {
    for change in CHANGES {
        with_nodes(7, async move |world| {
            let steps = world.steps(change);
            for (one, other) in [(0, 1), (1, 0), (1, 1), (1, 2), (2, 1)] {
                let guard = steps[one].lock("a", TTL).await.unwrap();
                assert!(steps[other].lock("a", TTL).try_now().await.unwrap().is_none(), "{change:?}");
                world.sleep(Duration::from_secs(9)).await;
                guard.extend(TTL).await.unwrap();
                world.sleep(Duration::from_secs(9)).await;
                let error = steps[other].lock("a", TTL).max_wait(Duration::ZERO).await.unwrap_err();
                assert_eq!(ErrorKind::Contended, error.kind(), "{change:?}: {error}");
                assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
                let guard = steps[other].lock("a", TTL).try_now().await.unwrap();
                guard.expect("the lock is free").release().await.unwrap();
            }
            for redlock in &steps {
                assert_eq!(0, redlock.close().await);
            }
            world.nothing_left().await;
        });
    }
}

/// Shows that the middle step is necessary.
#[test]
fn without_the_middle_step_two_programs_hold_one_lock() {
    with_nodes(7, async |world| {
        let [old, _, new] = world.steps((&[0, 1, 2], &[3, 4, 5]));
        let _both = (old.lock("a", TTL).await.unwrap(), new.lock("a", TTL).await.unwrap());
    });
}

#[test]
fn fencing_tokens_increase_over_a_change_and_back() {
    for change in CHANGES {
        with_nodes(7, async move |world| {
            let steps = world.steps(change);
            let mut last = None;
            for step in [0, 0, 1, 0, 1, 2, 1, 2, 2, 1, 0] {
                let guard = steps[step].lock("a", TTL).fenced().await.unwrap();
                let token = guard.fencing_token();
                assert!(token > last, "{change:?}: {token:?} after {last:?}");
                last = token;
                guard.extend(TTL).await.unwrap();
                guard.release().await.unwrap();
            }
        });
    }
}

#[test]
fn each_node_is_asked_once_even_if_it_is_in_both_lists() {
    with_nodes(5, async |world| {
        let redlock = world.step(&[0, 1, 2], Some(&[0, 1, 2, 3, 4])).build().unwrap();
        redlock.lock("a", TTL).await.unwrap().release().await.unwrap();
        redlock.close().await;
        assert_eq!(vec![1; 5], world.request_counts(Operation::Acquire));
        assert_eq!(vec![1; 5], world.request_counts(Operation::Release));
    });
}

#[test]
fn each_list_tolerates_its_own_minority() {
    with_nodes(7, async |world| {
        let redlock = world.step(&[2, 3, 4, 5, 6], Some(&[0, 1, 2])).build().unwrap();
        for node in [0, 3, 4] {
            world.nodes[node].crash();
        }
        let guard = redlock.lock("a", TTL).fenced().await.unwrap();
        guard.extend(TTL).await.unwrap();
        world.nodes[1].crash();
        let error = guard.extend(TTL).await.unwrap_err();
        assert_eq!(ErrorKind::NoQuorum, error.kind());
        assert!(
            error.to_string().contains("1 of 3 previous nodes extended, 2 required: 2 failed"),
            "{error}"
        );
        let error = redlock.lock("b", TTL).max_wait(Duration::ZERO).await.unwrap_err();
        assert_eq!(ErrorKind::NoQuorum, error.kind());
        let expected = "cannot lock \"b\": 2 of 3 previous nodes failed, so no quorum of 2, after";
        assert!(error.to_string().starts_with(expected), "{error}");
        world.nodes[5].crash();
        let error = redlock.inspect("b").await.unwrap_err();
        let expected = "cannot inspect \"b\": 3 of 5 nodes failed, so no quorum of 3 (";
        assert!(error.to_string().starts_with(expected), "{error}");
        let health = redlock.health().await;
        let previous = health.previous_nodes().unwrap();
        assert_eq!((false, 2, 3), (health.is_available(), health.healthy_nodes(), health.quorum()));
        assert_eq!((1, 2, 3), (previous.healthy_nodes(), previous.quorum(), previous.node_count()));
        let expected =
            "unavailable: 2 of 5 nodes healthy, 3 required; 1 of 3 previous nodes healthy, 2 required\n";
        assert!(health.to_string().starts_with(expected), "{health}");
    });
}

#[test]
fn a_lock_is_lost_if_the_keys_are_gone_on_one_list() {
    with_nodes(7, async |world| {
        let redlock = world.step(&[3, 4, 5], Some(&[0, 1, 2])).build().unwrap();
        let guard = redlock.lock("a", TTL).await.unwrap();
        world.settle().await;
        world.nodes[..2].iter().for_each(|node| node.inner().clear());
        let error = guard.extend(TTL).await.unwrap_err();
        assert_eq!(ErrorKind::Lost, error.kind(), "{error}");
        assert!(matches!(guard.state(), LeaseState::Lost(_)));
        let guard = redlock.lock("b", TTL).await.unwrap();
        world.settle().await;
        world.nodes[3..5].iter().for_each(|node| node.inner().clear());
        assert_eq!(ReleaseOutcome::AlreadyLost, guard.release().await.unwrap());
    });
}

#[test]
fn a_lost_node_is_refilled_on_both_lists() {
    with_nodes(6, async |world| {
        let redlock = world.step(&[3, 4, 5], Some(&[0, 1, 2])).build().unwrap();
        let guard = redlock.lock("a", TTL).await.unwrap();
        world.settle().await;
        for node in [0, 4] {
            world.nodes[node].inner().clear();
        }
        guard.extend(TTL).await.unwrap();
        world.sleep(MS).await;
        assert_eq!(6, world.keys());
    });
}

/// Two programs with both lists that each have one of them: neither holds the lock.
#[test]
fn clients_that_share_the_lists_are_not_reported_as_holders() {
    with_nodes(6, async |world| {
        let redlock = world.step(&[3, 4, 5], Some(&[0, 1, 2])).build().unwrap();
        // An attempt of another program that has one list, and is released meanwhile.
        world.set_holder(&[0, 1, 2], "a", "attempt").await;
        let nodes = world.listed(&[0, 1, 2]);
        let release = async {
            world.sleep(MS).await;
            for node in &nodes {
                node.inner().clear();
            }
        };
        world.nodes.iter().for_each(|node| node.inject(Fault::delay(MS / 2)));
        let (result, ()) = both(redlock.lock("a", TTL).try_now(), release).await;
        assert!(result.unwrap().is_some(), "the attempt is repeated");
    });
}

#[test]
fn a_program_with_one_list_is_reported_as_the_holder() {
    with_nodes(6, async |world| {
        let [old, both, new] = world.steps((&[0, 1, 2], &[3, 4, 5]));
        for holder in [&old, &new] {
            let guard = holder.lock("a", TTL).owner("host-1").await.unwrap();
            world.settle().await;
            let before = world.request_counts(Operation::Acquire).iter().sum::<u64>();
            assert!(both.lock("a", TTL).try_now().await.unwrap().is_none());
            let after = world.request_counts(Operation::Acquire).iter().sum::<u64>();
            assert_eq!(12, after - before, "two attempts on six nodes");
            let inspection = both.inspect("a").await.unwrap();
            assert!(inspection.is_held_by(&guard), "{inspection}");
            let error = both.lock("a", TTL).max_wait(50 * MS).await.unwrap_err();
            assert_eq!(ErrorKind::Contended, error.kind());
            assert!(error.to_string().contains("locked by host-1#"), "{error}");
            guard.release().await.unwrap();
        }
        let guard = both.lock("a", TTL).await.unwrap();
        world.settle().await;
        for redlock in [&old, &both, &new] {
            assert!(redlock.inspect("a").await.unwrap().is_held_by(&guard));
        }
    });
}

#[test]
fn two_holders_of_one_list_each_are_undecided() {
    with_nodes(6, async |world| {
        let redlock = world.step(&[3, 4, 5], Some(&[0, 1, 2])).build().unwrap();
        world.set_holder(&[0, 1, 2], "a", "one").await;
        world.set_holder(&[3, 4, 5], "a", "other").await;
        assert_eq!(&LockStatus::Undecided, redlock.inspect("a").await.unwrap().status());
    });
}

#[test]
fn waiters_in_all_steps_receive_the_lock_from_each_other() {
    for change in CHANGES {
        for ordered in [false, true] {
            with_nodes(7, async move |world| {
                let nodes: Vec<_> = (0..7)
                    .map(|number| {
                        let node = FakeNode::new(format!("fake-{number}"), world.process.runtime());
                        if ordered { node.ordered() } else { node.watching() }
                    })
                    .collect();
                let world = World { nodes, ..world };
                let steps = world.steps(change);
                for (one, other) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
                    let guard = steps[one].lock("a", TTL).await.unwrap();
                    let waiting = steps[other].lock("a", TTL);
                    let release = async {
                        world.sleep(Duration::from_secs(1)).await;
                        guard.release().await.unwrap();
                    };
                    let ((acquired, ()), took) = world.time(both(waiting, release)).await;
                    acquired.unwrap().release().await.unwrap();
                    assert!(took < Duration::from_millis(1_300), "{change:?}, ordered {ordered}: {took:?}");
                }
            });
        }
    }
}

#[test]
fn readers_writers_and_slots_of_neighbouring_steps_exclude_each_other() {
    for change in CHANGES {
        with_nodes(7, async move |world| {
            let steps = world.steps(change);
            for (one, other) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
                let (one, other) = (&steps[one], &steps[other]);
                let reader = one.rw_lock("a").unwrap().read(TTL).await.unwrap();
                let second = other.rw_lock("a").unwrap().read(TTL).try_now().await.unwrap();
                assert!(second.is_some(), "{change:?}: readers share the lock");
                second.unwrap().release().await.unwrap();
                assert!(other.rw_lock("a").unwrap().write(TTL).try_now().await.unwrap().is_none());
                reader.release().await.unwrap();
                let writer = one.rw_lock("a").unwrap().write(TTL).await.unwrap();
                assert!(other.rw_lock("a").unwrap().read(TTL).try_now().await.unwrap().is_none());
                writer.release().await.unwrap();
                let slot = one.slots("s", 2).unwrap().acquire(TTL).await.unwrap();
                let second = other.slots("s", 2).unwrap().acquire(TTL).try_now().await.unwrap().unwrap();
                assert!(one.slots("s", 2).unwrap().acquire(TTL).try_now().await.unwrap().is_none());
                slot.release().await.unwrap();
                second.release().await.unwrap();
            }
        });
    }
}

#[test]
fn quarantine_of_one_list_ends_when_its_quorum_counts() {
    with_nodes(6, async |world| {
        world.nodes.iter().for_each(|node| node.inner().set_longest_ttl(TTL));
        let redlock = world.step(&[3, 4, 5], Some(&[0, 1, 2])).build().unwrap();
        redlock.lock("a", TTL).await.unwrap().release().await.unwrap();
        world.nodes[3..].iter().for_each(|node| node.inner().clear());
        let error = redlock.lock("a", TTL).try_now().await.unwrap_err();
        assert_eq!(ErrorKind::NoQuorum, error.kind());
        assert!(error.to_string().contains("of 3 nodes quarantined, so no quorum of 2"), "{error}");
        let wait = error.quarantine().unwrap();
        world.sleep(wait.saturating_sub(MS)).await;
        assert!(redlock.lock("a", TTL).try_now().await.is_err());
        world.sleep(MS).await;
        assert!(redlock.lock("a", TTL).try_now().await.unwrap().is_some());
    });
}

#[test]
fn invalid_lists_are_rejected() {
    fn message(result: Result<Redlock, Error>) -> String {
        let error = result.unwrap_err();
        assert_eq!(ErrorKind::InvalidInput, error.kind());
        error.to_string()
    }
    with_nodes(70, async |world| {
        assert_eq!(
            "no previous nodes were given; leave them out if the nodes do not change",
            message(world.step(&[0], Some(&[])).build())
        );
        assert_eq!(
            "previous nodes 1 and 2 are the same server: fake-3",
            message(world.step(&[0], Some(&[0, 3, 3])).build())
        );
        assert_eq!(
            "no nodes were given; a lock needs at least one",
            message(world.step(&[], Some(&[0])).build())
        );
        let all: Vec<_> = (0..65).collect();
        assert_eq!(
            "65 nodes with the previous ones; the maximum is 64",
            message(world.step(&all, Some(&[0])).build())
        );
        let redlock = world.step(&all[..64], Some(&[0, 63])).build().unwrap();
        assert!(redlock.lock("a", TTL).await.is_ok());
        assert!(world.step(&[0, 1, 2], Some(&[2, 1, 0])).build().is_ok(), "equal lists");
    });
}

/// Nodes that fail late and deny on both lists, so that the reason of a failure depends on the lists.
#[test]
fn an_attempt_is_decided_without_a_slow_minority_of_either_list() {
    with_nodes(6, async |world| {
        let redlock = world.step(&[3, 4, 5], Some(&[0, 1, 2])).build().unwrap();
        for node in [0, 5] {
            world.nodes[node].inject(Fault::delay(NODE_TIMEOUT * 3 / 4));
        }
        let (guard, took) = world.time(redlock.lock("a", TTL)).await;
        assert!(took < NODE_TIMEOUT / 2, "{took:?}");
        let (released, took) = world.time(guard.unwrap().release()).await;
        assert!(took < NODE_TIMEOUT / 2 && released.is_ok(), "{took:?}");
        world.set_holder(&[1, 2, 3, 4], "b", "holder").await;
        let (error, took) = world.time(redlock.lock("b", TTL).max_wait(Duration::ZERO)).await;
        let error = error.unwrap_err();
        assert!(took < NODE_TIMEOUT / 2, "{took:?}");
        assert_eq!(ErrorKind::Contended, error.kind());
        assert!(matches!(error.node_reports()[0].outcome(), Outcome::Denied(_)), "previous nodes come last");
    });
}
