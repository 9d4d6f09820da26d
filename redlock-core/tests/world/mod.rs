//! The nodes that all clients share, and an observer that sees all leases at once, in true time.

pub(crate) mod client;
pub(crate) mod network;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use redlock_core::Lease;
use redlock_core::runtime::{Instant, Runtime};
use redlock_testkit::MemoryNode;
use redlock_testkit::sim::Process;

use crate::{CALM, STORM, die, millis};

pub(crate) struct World {
    /// The process of nodes, networks and the observer. Its clock is the true one.
    pub(crate) outside: Process,
    pub(crate) nodes: Vec<MemoryNode>,
    ledger: Mutex<Ledger>,
}

#[derive(Default)]
struct Ledger {
    granted: Vec<Granted>,
    score: Score,
}

struct Granted {
    lease: Lease,
    /// The moment when the lease was first observed to be expired.
    expired_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Score {
    pub(crate) granted: u64,
    pub(crate) extended: u64,
}

impl World {
    pub(crate) fn new(outside: Process) -> Self {
        let node = |number| MemoryNode::with_runtime(format!("node-{number}"), outside.runtime());
        let nodes = (0..3 + die(&outside, 3)).map(node).collect();
        Self { outside, nodes, ledger: Mutex::default() }
    }

    pub(crate) fn is_stormy(&self) -> bool {
        self.outside.now() < Instant::ORIGIN + STORM
    }

    pub(crate) fn granted(&self, lease: Lease) {
        let mut ledger = self.ledger.lock().unwrap();
        ledger.granted.push(Granted { lease, expired_at: None });
        ledger.score.granted += 1;
        drop(ledger);
        self.check();
    }

    pub(crate) fn extended(&self) {
        self.ledger.lock().unwrap().score.extended += 1;
        self.check();
    }

    /// Drops all leases, since they are handles as well.
    pub(crate) fn forget(&self) -> Score {
        std::mem::take(&mut *self.ledger.lock().unwrap()).score
    }

    /// Checks the leases now and then, even if nothing was granted or extended.
    pub(crate) async fn watch(self: Arc<Self>) {
        while self.is_stormy() {
            self.outside.sleep(millis(&self.outside, 20)).await;
            self.check();
        }
    }

    /// Asserts the invariants that hold at every moment.
    fn check(&self) {
        let (now, mut locked) = (self.outside.now(), HashSet::new());
        let granted = &mut self.ledger.lock().unwrap().granted;
        granted.retain(|granted| granted.expired_at.is_none_or(|expired_at| now < expired_at + CALM / 10));
        for Granted { lease, expired_at } in granted {
            if lease.is_held() {
                assert_eq!(None, *expired_at, "{lease:?} was revived");
                let twice = lease.resources().iter().find(|name| !locked.insert((*name).clone()));
                assert_eq!(None, twice, "two leases are valid");
                let nodes = self.nodes.iter().filter(|node| outlives(node, lease)).count();
                assert!(nodes > self.nodes.len() / 2, "{nodes} of {:?} outlive {lease:?}", self.nodes);
            } else {
                expired_at.get_or_insert(now);
            }
        }
    }
}

/// Returns true if a node has all keys of a lease for longer than it is valid.
fn outlives(node: &MemoryNode, lease: &Lease) -> bool {
    lease.resources().iter().all(|name| {
        let holder = node.holder(name.as_bytes()).map(|token| token.fingerprint());
        holder == Some(lease.fingerprint()) && node.remaining(name.as_bytes()) > Some(lease.remaining())
    })
}
