//! Nodes that take part in restart admission, with one flaw each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redlock_core::node::{
    Begun, LockNode, NodeError, Profile, Quarantine, QuarantineReason, Reply, Request, Status,
};
use redlock_testkit::MemoryNode;
use redlock_testkit::conformance::{self, Backend};

use self::Flaw::*;

const LONGEST_TTL: Duration = Duration::from_secs(10);

flaws! {
    sound: conformance::cases().filter(|case| catches(case));
    NeverCounts: "the_votes_of_a_node_count_while_nothing_is_lost" => "count while nothing is lost";
    AlwaysCounts: "a_reply_after_a_loss_has_no_vote" => "after a loss has no vote";
    HidesTheQuarantine: "a_reply_after_a_loss_has_no_vote" => "the status of a node in quarantine";
    ReadsTheAdmissionLate: "a_request_that_began_before_a_loss_has_no_vote" =>
        "even if the node counts again";
    OthersAlwaysCount: "two_clients_learn_of_a_loss" => "after a loss has no vote";
}

struct Server {
    flaw: Flaw,
    memory: MemoryNode,
    clients: AtomicU64,
}

fn server(flaw: Flaw) -> Server {
    let memory = MemoryNode::new("lossy");
    memory.set_longest_ttl(LONGEST_TTL);
    Server { flaw, memory, clients: AtomicU64::new(0) }
}

impl Backend for Server {
    async fn node(&self) -> Arc<dyn LockNode> {
        let client = self.clients.fetch_add(1, Ordering::Relaxed);
        Arc::new(Node { flaw: self.flaw, memory: self.memory.clone(), client })
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
}

impl LockNode for Node {
    fn label(&self) -> &str {
        self.memory.label()
    }

    fn profile(&self) -> Profile {
        Profile::default().with_longest_ttl(LONGEST_TTL)
    }

    fn status(&self) -> Status {
        if self.flaw == HidesTheQuarantine { Status::default() } else { self.memory.status() }
    }

    fn begin(&self, request: &Request) -> Begun {
        if !matches!(
            request,
            Request::Acquire(..) | Request::Extend(..) | Request::Release(_) | Request::Vouch
        ) {
            return Begun::failed(NodeError::unsupported(request));
        }
        match self.flaw {
            // The admission is that of the first poll, not that of the beginning.
            ReadsTheAdmissionLate => {
                let (memory, request) = (self.memory.clone(), request.clone());
                Begun::sent(async move { memory.call(request).await })
            }
            NeverCounts => self.memory.begin(request).map(|reply| match reply? {
                Reply::Granted => {
                    let quarantine = Quarantine::new(QuarantineReason::Restarted);
                    Ok(Reply::Quarantined(Box::new(Reply::Granted), quarantine))
                }
                reply => Ok(reply),
            }),
            AlwaysCounts => self.memory.begin(request).map(counted),
            OthersAlwaysCount if self.client > 0 => self.memory.begin(request).map(counted),
            _ => self.memory.begin(request),
        }
    }
}

/// Gives a reply its vote back.
fn counted(reply: Result<Reply, NodeError>) -> Result<Reply, NodeError> {
    match reply? {
        Reply::Quarantined(reply, _) => Ok(*reply),
        reply => Ok(reply),
    }
}
