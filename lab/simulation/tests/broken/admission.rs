//! Nodes that take part in restart admission, with one flaw each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redlock_core::node::{Admission, AdmissionId, LockNode, NodeError, Reply, Request, async_trait};
use redlock_testkit::MemoryNode;
use redlock_testkit::conformance::{self, Backend};

use self::Flaw::*;
use super::{assert_all_caught, assert_none_caught};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    Sound,
    StatesNoBound,
    ChangesAlways,
    StaysAdmitted,
    ReusesTheIdentifier,
    OthersStayAdmitted,
}

/// Each flaw, the case that catches it, and the message of the case.
const CAUGHT: &[(Flaw, &str, &str)] = &[
    (StatesNoBound, "an_admission_lasts_while_nothing_is_lost", "states its longest TTL"),
    (ChangesAlways, "an_admission_lasts_while_nothing_is_lost", "lasts while nothing is lost"),
    (StaysAdmitted, "a_loss_ends_the_admission_before_the_next_reply", "the admission has changed"),
    (ReusesTheIdentifier, "a_loss_ends_the_admission_before_the_next_reply", "never reused"),
    (OthersStayAdmitted, "two_clients_learn_of_a_loss", "the admission has changed"),
];

/// Returns whether a case catches a flaw.
pub(crate) fn catches(case: &str) -> bool {
    CAUGHT.iter().any(|(_, by, _)| *by == case)
}

#[test]
fn every_flaw_of_an_admission_is_caught_by_the_case_for_it() {
    assert_all_caught(CAUGHT, server);
}

#[test]
fn a_sound_node_with_restart_admission_passes_the_suite() {
    assert_none_caught(conformance::cases().filter(|case| catches(case)), || server(Sound));
}

struct Server {
    flaw: Flaw,
    memory: MemoryNode,
    clients: AtomicU64,
}

fn server(flaw: Flaw) -> Server {
    let memory = MemoryNode::new("lossy");
    memory.set_longest_ttl(Duration::from_secs(10));
    Server { flaw, memory, clients: AtomicU64::new(0) }
}

impl Backend for Server {
    async fn node(&self) -> Arc<dyn LockNode> {
        let client = self.clients.fetch_add(1, Ordering::Relaxed);
        Arc::new(Node { flaw: self.flaw, memory: self.memory.clone(), client, readings: AtomicU64::new(0) })
    }

    fn loss(&self) -> Option<Box<dyn Fn()>> {
        let memory = self.memory.clone();
        Some(Box::new(move || memory.flush()))
    }
}

struct Node {
    flaw: Flaw,
    memory: MemoryNode,
    client: u64,
    readings: AtomicU64,
}

#[async_trait]
impl LockNode for Node {
    fn label(&self) -> &str {
        self.memory.label()
    }

    async fn call(&self, request: Request) -> Result<Reply, NodeError> {
        match request {
            Request::Acquire(..) | Request::Extend(..) | Request::Release(_) | Request::Vouch => {
                self.memory.call(request).await
            }
            other => Err(NodeError::unsupported(&other)),
        }
    }

    fn longest_ttl(&self) -> Option<Duration> {
        self.memory.longest_ttl().filter(|_| self.flaw != StatesNoBound)
    }

    fn admission(&self) -> Admission {
        let truth = self.memory.admission();
        let is_out = matches!(truth, Admission::Quarantined(_));
        match self.flaw {
            ChangesAlways => Admission::Admitted(AdmissionId(self.readings.fetch_add(1, Ordering::Relaxed))),
            StaysAdmitted => Admission::Admitted(AdmissionId(0)),
            OthersStayAdmitted if self.client > 0 => Admission::Admitted(AdmissionId(0)),
            ReusesTheIdentifier if !is_out => Admission::Admitted(AdmissionId(0)),
            _ => truth,
        }
    }
}
