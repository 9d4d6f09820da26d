//! A complete custom backend over a map in this process. The conformance suite verifies it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use redlock_core::Resource;
use redlock_core::node::{Backend, Denial, LockNode, NodeError, Reply, Request, Token, Ttl, async_trait};
use redlock_core::runtime::{Instant, suspend_aware_now};

/// One independent lock server.
#[derive(Default)]
struct InProcess(Mutex<HashMap<Resource, (Token, Instant)>>);

impl InProcess {
    /// Returns the held keys, without expired ones.
    fn held(&self) -> MutexGuard<'_, HashMap<Resource, (Token, Instant)>> {
        let mut held = self.0.lock().expect("no thread panics while it holds the map");
        held.retain(|_, (_, deadline)| *deadline > suspend_aware_now());
        held
    }
}

#[async_trait]
impl Backend for InProcess {
    fn label(&self) -> &'static str {
        "in-process"
    }

    async fn reply_to(&self, request: &Request) -> Result<Reply, NodeError> {
        let mut held = self.held();
        let until = |ttl: Ttl| suspend_aware_now() + ttl.as_duration();
        let owner = |name| held.get(name).map(|(token, _)| token);
        match request {
            Request::Acquire(claim, ttl) => {
                let is_foreign = |name| owner(name).is_some_and(|token| token != claim.token());
                if claim.resources().iter().any(is_foreign) {
                    return Ok(Reply::Denied(Denial::default()));
                }
                for resource in claim.resources() {
                    held.entry(resource.clone()).or_insert((claim.token().clone(), until(*ttl)));
                }
                Ok(Reply::Granted)
            }
            Request::Extend(claim, ttl) => {
                if !claim.resources().iter().all(|name| owner(name) == Some(claim.token())) {
                    return Ok(Reply::Denied(Denial::default()));
                }
                let claimed = held.iter_mut().filter(|(resource, _)| claim.resources().contains(resource));
                claimed.for_each(|(_, (_, deadline))| *deadline = until(*ttl).max(*deadline));
                Ok(Reply::Granted)
            }
            Request::Release(claim) => {
                let before = held.len();
                held.retain(|name, (token, _)| token != claim.token() || !claim.resources().contains(name));
                Ok(Reply::Deleted(held.len() < before))
            }
            other => Err(NodeError::unsupported(other)),
        }
    }
}

/// The server of one case.
#[derive(Default)]
struct Server(Arc<InProcess>);

/// Each call makes another client of the server.
impl redlock_testkit::conformance::Backend for Server {
    async fn node(&self) -> Arc<dyn LockNode> {
        Arc::new(self.0.clone())
    }
}

/// Runs every case of the suite. `redlock_testkit::conformance!` makes tests of them.
fn main() {
    for case in redlock_testkit::conformance::cases() {
        redlock_testkit::conformance::run(&Server::default(), case);
    }
}

#[cfg(test)]
redlock_testkit::conformance!(
    Server::default(),
    without: [inspect, watch, keep, places, fencing, shared, admission, non_lock_values]
);

#[test]
fn the_backend_has_at_most_65_lines() {
    let (backend, _) = include_str!("own_backend.rs").split_once("/// The server of one case").unwrap();
    assert!(backend.lines().count() <= 65, "{}", backend.lines().count());
}
