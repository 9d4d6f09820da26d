//! Replies that are those of the scripts of servers, beyond the contract of all backends.

use std::time::Duration;

use redlock_core::node::{
    Availability, Claim, Denial, LockNode, NodeErrorKind, Place, Reply, Request, Token, Ttl,
};
use redlock_core::{FencingToken, IntoResources, Resource};

use super::MemoryNode;
use crate::reply::watching;

fn claim(resources: impl IntoResources, token: &str) -> Claim {
    Claim::new(resources.into_resources().unwrap(), Token::from_bytes(token))
}

fn resource(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

fn call(node: &MemoryNode, request: Request) -> Result<Reply, NodeErrorKind> {
    crate::block_on(node.call(request)).map_err(|error| error.kind())
}

fn acquire(node: &MemoryNode, claim: Claim) -> Result<Reply, NodeErrorKind> {
    call(node, Request::Acquire(claim, Ttl::MAX))
}

fn denied_by(reply: &Result<Reply, NodeErrorKind>) -> Option<&Token> {
    let Ok(Reply::Denied(denial)) = reply else { panic!("not a denial: {reply:?}") };
    denial.holder.as_ref()
}

#[test]
fn an_error_passes_a_reservation_on() {
    let node = MemoryNode::new("a");
    let waiting = |resources: &[&str], id: &str, seconds| {
        let place = Place::new(Token::from_bytes(id), Duration::from_secs(seconds), Duration::from_secs(60));
        claim(resources, id).with_place(place)
    };
    let (first, second) = (waiting(&["a", "b"], "next#1", 2), waiting(&["a"], "next#2", 1));
    node.set_holder("a", Token::from_bytes("alice"), Ttl::MAX);
    for waiter in [&first, &second] {
        assert_eq!(Some(&Token::from_bytes("alice")), denied_by(&acquire(&node, waiter.clone())));
    }
    assert_eq!(Ok(Reply::Deleted(true)), call(&node, Request::Release(claim("a", "alice"))));
    assert_eq!(Some(Token::from_bytes("next#1")), node.holder("a"));

    node.set_non_lock_value("b");
    assert_eq!(Err(NodeErrorKind::WrongType), acquire(&node, first));
    assert_eq!(Some(Token::from_bytes("next#2")), node.holder("a"));
    let Ok(Reply::Held(entry)) = call(&node, Request::Inspect(resource("a"))) else {
        panic!("it is reserved")
    };
    assert_eq!(Some(1), entry.waiters, "the first request waits behind the second one");
}

#[test]
fn an_extension_is_denied_for_the_first_resource_that_is_not_held() {
    let both = || claim(["a", "b"], "alice");
    let requests = [Request::Extend(both(), Ttl::MAX), Request::Keep(both(), Ttl::MAX)];
    for request in requests {
        let node = MemoryNode::new("a");
        let nobody = Ok(Reply::Denied(Denial::default()));
        node.set_holder("b", Token::from_bytes("bob"), Ttl::MAX);
        assert_eq!(nobody, call(&node, request.clone()));
        node.set_non_lock_value("b");
        assert_eq!(nobody, call(&node, request.clone()));

        node.set_holder("a", Token::from_bytes("bob"), Ttl::MAX);
        assert_eq!(Some(&Token::from_bytes("bob")), denied_by(&call(&node, request.clone())));
        node.set_holder("a", Token::from_bytes("alice"), Ttl::MAX);
        assert_eq!(Err(NodeErrorKind::WrongType), call(&node, request.clone()));
        node.set_holder("b", Token::from_bytes("alice"), Ttl::MAX);
        assert_eq!(Ok(Reply::Granted), call(&node, request));
    }
}

#[test]
fn an_extension_of_a_reader_names_nobody_if_a_resource_is_free() {
    let node = MemoryNode::new("a");
    let reads =
        |resources: &[&str]| Request::AcquireShared(claim(resources, "alice"), resource("gate"), Ttl::MAX);
    let extends = || Request::Extend(claim(["a", "b"], "alice"), Ttl::MAX);
    assert_eq!(Ok(Reply::Granted), call(&node, reads(&["a"])));
    assert_eq!(Ok(Reply::Denied(Denial::default())), call(&node, extends()));
    assert_eq!(Ok(Reply::Granted), call(&node, reads(&["b"])));
    assert_eq!(Ok(Reply::Granted), call(&node, extends()));
    node.remove("b");
    let other = Request::AcquireShared(claim("b", "bob"), resource("gate"), Ttl::MAX);
    assert_eq!(Ok(Reply::Granted), call(&node, other));
    assert_eq!(Some(&Token::of_readers()), denied_by(&call(&node, extends())));
}

#[test]
fn a_watch_names_the_holder_of_a_lock_only() {
    let node = MemoryNode::new("a");
    let watch = || watching(call(&node, Request::Watch(resource("a"))).unwrap());
    node.set_non_lock_value("a");
    assert_eq!((Availability::Taken(None), None), (watch().availability, watch().holder));
    node.remove("a");
    let reads = Request::AcquireShared(claim("a", "alice"), resource("gate"), Ttl::MAX);
    assert_eq!(Ok(Reply::Granted), call(&node, reads));
    assert!(matches!(watch().availability, Availability::Taken(Some(_))));
    assert_eq!(None, watch().holder);
    node.set_holder("a", Token::from_bytes("bob"), Ttl::MAX);
    assert_eq!(Some(Token::from_bytes("bob")), watch().holder);
}

#[test]
fn counters_start_with_one_even_after_an_older_snapshot_is_restored() {
    let node = MemoryNode::new("a");
    node.set_counter("b", FencingToken::new(41));
    let snapshot = node.snapshot();
    node.count_from_one();
    node.restore(&snapshot);
    for (name, number) in [("a", 1), ("b", 42)] {
        let counted = FencingToken::new(number).map(Reply::Counted);
        assert_eq!(counted, call(&node, Request::AcquireFenced(claim(name, "alice"), Ttl::MAX)).ok());
    }
}
