//! The holder of a resource, without an attempt to lock it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{MS, NODE_TIMEOUT, Plain, TTL, foreign_claim, kind, with_five, with_nodes};
use redlock_core::node::{Begun, Exchange, LockNode, Profile, Request, ServerId, Token, Ttl};
use redlock_core::{DetachedLease, Error, ErrorKind, LockStatus, Outcome, Redlock, Resource};
use redlock_testkit::{FakeNode, Fault, MemoryNode, Operation};

fn ttl(millis: u32) -> Ttl {
    Ttl::new(MS * millis).expect("a valid TTL")
}

#[test]
fn inspection_returns_the_holder_and_the_least_remaining_time_of_a_quorum() {
    with_five(async |world| {
        let redlock = crate::common::builder(&world.process, &world.nodes).owner("host-1").build().unwrap();
        let guard = redlock.lock("a", TTL).await.unwrap();
        world.sleep(Duration::from_secs(1)).await;
        let inspection = world.other_client().inspect("a").await.unwrap();
        assert_eq!(Some(&guard.fingerprint()), inspection.holder());
        assert_eq!(Some(Duration::from_secs(9)), inspection.remaining());
        assert_eq!(
            format!("\"a\" is held by host-1#{} for at least 9.0s", &guard.fingerprint().to_string()[7..]),
            inspection.to_string()
        );
        assert!(inspection.is_held_by(&guard) && !inspection.is_free());
        let other = redlock.lock("b", TTL).await.unwrap();
        assert!(!inspection.is_held_by(&other));
        // The inspection acquires nothing, extends nothing and leaves nothing behind.
        assert_eq!(5, world.keys());
        drop((guard, other));
        redlock.close().await;
        world.nothing_left().await;
    });
}

#[test]
fn a_resource_without_a_holder_is_free() {
    with_five(async |world| {
        let inspection = world.redlock.inspect("a").await.unwrap();
        assert_eq!(
            (&LockStatus::Free, None, None),
            (inspection.status(), inspection.holder(), inspection.remaining())
        );
        assert_eq!("\"a\" is free", inspection.to_string());
        assert_eq!(0, world.keys());
        let guard = world.lock().await;
        assert!(!inspection.is_held_by(&guard), "the inspection was made while the lock was free");
    });
}

#[test]
fn the_remaining_time_is_that_of_a_quorum_minus_the_duration_of_the_inspection() {
    with_five(async |world| {
        for (node, millis) in world.nodes.iter().zip([1_000, 5_000, 3_000, 4_000, 2_000]) {
            node.inner().set_holder("a", foreign_claim().token().clone(), ttl(millis));
            node.inject(Fault::hold_reply().on(Operation::Inspect));
        }
        let redlock = world.redlock.clone();
        let nodes = world.nodes.clone();
        let process = world.process.clone();
        world.spawn(async move {
            redlock_core::runtime::Runtime::sleep(&process, MS * 100).await;
            for node in &nodes[1..4] {
                node.resume().await;
            }
        });
        let (inspection, took) = world.time(redlock.inspect("a")).await;
        let inspection = inspection.unwrap();
        assert_eq!(MS * 100, took);
        // The three nodes that reply hold it for 5, 3 and 4 s.
        assert_eq!(Some(MS * 2_900), inspection.remaining());
        let outcomes = inspection.node_reports().iter().map(|node| node.outcome().clone());
        let is_held = |outcome| matches!(outcome, Outcome::Held(_));
        assert_eq!(vec![false, true, true, true, false], outcomes.map(is_held).collect::<Vec<_>>());
    });
}

#[test]
fn disagreement_between_nodes_is_undecided() {
    with_five(async |world| {
        let tokens = ["x", "x", "y", "y"].map(Token::from_bytes);
        for (node, token) in world.nodes.iter().zip(&tokens) {
            node.inner().set_holder("a", token.clone(), Ttl::MAX);
        }
        let inspection = world.redlock.inspect("a").await.unwrap();
        assert_eq!(&LockStatus::Undecided, inspection.status());
        assert!(!inspection.is_free() && inspection.holder().is_none() && inspection.remaining().is_none());
        let message = inspection.to_string();
        for (index, token) in tokens.iter().enumerate().take(2) {
            assert!(
                message.contains(&format!("node {index} (fake-{index}): held by {token}, expires in ")),
                "{message}"
            );
        }
        assert!(!message.contains("by x") && !format!("{inspection:?}").contains("\"x\""), "{message}");

        world.nodes[4].inner().set_holder("a", tokens[0].clone(), Ttl::MAX);
        let inspection = world.redlock.inspect("a").await.unwrap();
        assert_eq!(Some(&tokens[0].fingerprint()), inspection.holder());
    });
}

#[test]
fn a_minority_that_is_down_or_hung_does_not_delay_inspection() {
    with_five(async |world| {
        let guard = world.lock().await;
        world.nodes[0].crash();
        world.nodes[1].inject(Fault::hang());
        let (inspection, took) = world.time(world.redlock.inspect("a")).await;
        assert!(inspection.unwrap().is_held_by(&guard));
        assert_eq!(Duration::ZERO, took);
    });
}

#[test]
fn too_few_replies_are_an_error() {
    with_five(async |world| {
        let _guard = world.lock().await;
        world.nodes[..3].iter().for_each(FakeNode::crash);
        let (result, took) = world.time(world.redlock.inspect("a")).await;
        assert_eq!((ErrorKind::NoQuorum, Duration::ZERO), (kind(result), took));
        world.nodes[..3].iter().for_each(FakeNode::restart);
        world.nodes[..3].iter().for_each(|node| node.inject(Fault::hang()));
        let (result, took) = world.time(world.redlock.inspect("a")).await;
        let error = result.unwrap_err();
        assert_eq!((ErrorKind::NoQuorum, NODE_TIMEOUT), (error.kind(), took));
        assert!(matches!(error.node_reports()[3].outcome(), Outcome::Held(_)));
        assert!(error.to_string().starts_with("cannot inspect \"a\": "), "{error}");
    });
}

#[test]
fn a_value_that_is_not_a_lock_is_a_wrong_type_error() {
    with_five(async |world| {
        world.nodes[..2].iter().for_each(|node| node.inner().set_non_lock_value("a"));
        assert!(world.redlock.inspect("a").await.unwrap().is_free(), "a quorum has no key");
        world.nodes[2].inner().set_non_lock_value("a");
        assert_eq!(ErrorKind::WrongType, kind(world.redlock.inspect("a").await));
        assert_eq!(ErrorKind::InvalidInput, kind(world.redlock.inspect("").await));
    });
}

#[test]
fn a_dropped_inspection_leaves_nothing_behind() {
    with_five(async |world| {
        world.nodes.iter().for_each(|node| node.inject(Fault::hang()));
        let mut inspection = Box::pin(world.redlock.inspect("a"));
        std::future::poll_fn(|cx| {
            assert!(inspection.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        assert_eq!(vec![1; 5], world.request_counts(Operation::Inspect));
        drop(inspection);
        // The inspection is outstanding until the node timeout, and no longer.
        let (given_up, took) = world.time(world.redlock.close()).await;
        assert_eq!(0, given_up);
        assert_eq!(NODE_TIMEOUT, took);
    });
}

#[test]
fn nodes_without_inspection_receive_no_request() {
    with_nodes(1, async |world| {
        let plain =
            Redlock::builder(world.process.clone()).node(Plain(MemoryNode::new("plain"))).build().unwrap();
        let error = plain.inspect("a").await.unwrap_err();
        assert_eq!(ErrorKind::Unsupported, error.kind());
        assert!(
            error.node_reports().is_empty() && error.to_string().contains("only 0 of 1 nodes support it"),
            "{error}"
        );
    });
}

/// A node that reports its server and denies names that begin with `own:`.
struct Identified {
    node: MemoryNode,
    label: &'static str,
    server: &'static str,
    node_timeout: Arc<std::sync::Mutex<Option<Duration>>>,
}

impl Identified {
    fn new(node: &MemoryNode, label: &'static str, server: &'static str) -> Self {
        Self { node: node.clone(), label, server, node_timeout: Arc::default() }
    }
}

impl LockNode for Identified {
    fn label(&self) -> &str {
        self.label
    }

    fn profile(&self) -> Profile {
        Profile::default().with_inspect()
    }

    fn begin(&self, request: &Request) -> Begun {
        match self.node.begin(request) {
            Begun::Sent(exchange) => {
                Begun::Sent(Exchange { server: Some(ServerId::new(self.server)), ..exchange })
            }
            connecting @ Begun::Connecting(_) => connecting,
        }
    }

    fn check(&self, resource: &Resource) -> Result<(), Error> {
        if resource.as_bytes().starts_with(b"own:") {
            return Err(Error::invalid(format!("{resource:?} is used for something else")));
        }
        Ok(())
    }

    fn set_node_timeout(&self, timeout: Duration) {
        *self.node_timeout.lock().expect("no thread panics here") = Some(timeout);
    }
}

#[test]
fn a_node_that_reports_the_id_of_another_server_does_not_cost_its_vote() {
    with_five(async |world| {
        let honest = MemoryNode::with_runtime("honest", world.process.runtime());
        let empty = MemoryNode::with_runtime("impostor", world.process.runtime());
        honest.set_holder("a", foreign_claim().token().clone(), Ttl::MAX);
        world.nodes[..2]
            .iter()
            .for_each(|node| node.inner().set_holder("a", foreign_claim().token().clone(), Ttl::MAX));
        world.nodes[2].crash();
        let impostor = Identified::new(&empty, "impostor", "one server");
        let honest = Identified::new(&honest, "honest", "one server");
        let others = world.nodes[..3].iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
        let redlock = Redlock::builder(world.process.clone()).node(impostor).node(honest);
        let inspection = redlock.nodes(others).build().unwrap().inspect("a").await.unwrap();
        assert_eq!(Some(&foreign_claim().token().fingerprint()), inspection.holder(), "{inspection}");
    });
}

#[test]
fn a_name_that_a_node_rejects_is_never_sent() {
    with_nodes(2, async |world| {
        // This node would reply, but the other one rejects the name.
        let node = MemoryNode::with_runtime("node", world.process.runtime());
        let identified = Identified::new(&node, "node", "node");
        let node_timeout = Arc::clone(&identified.node_timeout);
        let redlock = crate::common::builder(&world.process, &world.nodes).node(identified).build().unwrap();
        assert_eq!(Some(NODE_TIMEOUT), *node_timeout.lock().unwrap());
        let detached = DetachedLease::new(["a", "own:b"], "token", TTL).unwrap();
        world
            .nodes
            .iter()
            .for_each(|node| node.inner().set_holder("own:b", Token::from_bytes("token"), Ttl::MAX));
        for outcome in [
            redlock.lock("own:b", TTL).await.map(drop),
            redlock.lock(["a", "own:b"], TTL).try_now().await.map(drop),
            redlock.lock("own:b", TTL).run(async |_| ()).await.map_err(Error::from),
            redlock.resume(&detached).await.map(drop),
            redlock.release(&detached).await.map(drop),
            redlock.inspect("own:b").await.map(drop),
        ] {
            let error = outcome.unwrap_err();
            assert_eq!(ErrorKind::InvalidInput, error.kind());
            assert_eq!("\"own:b\" is used for something else", error.to_string());
        }
        assert_eq!(2, world.keys(), "no key was deleted or set");
    });
}

#[test]
fn a_label_with_control_characters_is_rejected() {
    with_nodes(1, async |world| {
        let node = MemoryNode::with_runtime("evil\x1b[31m\n", world.process.runtime());
        let error = Redlock::builder(world.process.clone()).node(node).build().unwrap_err();
        assert_eq!(ErrorKind::InvalidInput, error.kind());
        assert_eq!(r#"the label "evil\u{1b}[31m\n" of node 0 has a control character"#, error.to_string());
    });
}
