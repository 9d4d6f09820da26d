//! A complete custom backend over a map in this process, with its conformance tests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use redlock_core::{Claim, Denial, Instant, LockNode, NodeError, Resource, Token, Ttl, Vote};
use redlock_core::{async_trait, suspend_aware_now};

/// An independent lock server. Clones are clients of the same server.
#[derive(Clone, Default)]
struct InProcess(Arc<Mutex<HashMap<Resource, (Token, Instant)>>>);

impl InProcess {
    /// Returns the live locks.
    fn held(&self) -> MutexGuard<'_, HashMap<Resource, (Token, Instant)>> {
        let mut held = self.0.lock().expect("no code panics with the map locked");
        held.retain(|_, (_, deadline)| *deadline > suspend_aware_now());
        held
    }
}

#[async_trait]
impl LockNode for InProcess {
    fn label(&self) -> &'static str {
        "in-process"
    }

    async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        let mut held = self.held();
        let theirs = |resource| held.get(resource).is_some_and(|(token, _)| token != claim.token());
        if claim.resources().iter().any(theirs) {
            return Ok(Vote::Denied(Denial::default()));
        }
        for resource in claim.resources() {
            held.entry(resource.clone())
                .or_insert((claim.token().clone(), suspend_aware_now() + ttl.as_duration()));
        }
        Ok(Vote::Granted)
    }

    async fn extend(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        let mut held = self.held();
        let ours = |resource| held.get(resource).is_some_and(|(token, _)| token == claim.token());
        if !claim.resources().iter().all(ours) {
            return Ok(Vote::Denied(Denial::default()));
        }
        let claimed = held.iter_mut().filter(|(resource, _)| claim.resources().contains(resource));
        let until = suspend_aware_now() + ttl.as_duration();
        claimed.for_each(|(_, (_, deadline))| *deadline = until.max(*deadline));
        Ok(Vote::Granted)
    }

    async fn release(&self, claim: &Claim) -> Result<Vote, NodeError> {
        let mut held = self.held();
        let before = held.len();
        held.retain(|resource, (token, _)| token != claim.token() || !claim.resources().contains(resource));
        Ok(if held.len() < before { Vote::Granted } else { Vote::Denied(Denial::default()) })
    }
}

/// Each call creates another client of the server.
impl redlock_testkit::conformance::Backend for InProcess {
    async fn node(&self) -> Arc<dyn LockNode> {
        Arc::new(self.clone())
    }
}

/// Runs every case of the suite. The macro below generates a test for each of them.
fn main() {
    for case in redlock_testkit::conformance::cases() {
        redlock_testkit::conformance::run(&InProcess::default(), case);
    }
}

#[cfg(test)]
redlock_testkit::conformance!(InProcess::default());

#[test]
fn a_backend_is_short() {
    let (backend, _) = include_str!("own_backend.rs").split_once("/// Each call creates").unwrap();
    assert!(backend.lines().count() <= 60, "{}", backend.lines().count());
}
