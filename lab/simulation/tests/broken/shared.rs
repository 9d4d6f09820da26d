//! Nodes that support readers, with one flaw each.

use std::sync::{Arc, Mutex, PoisonError};

use redlock_core::node::{
    Capabilities, Claim, LockEntry, LockNode, NodeError, Token, Ttl, Vote, Watch, async_trait,
};
use redlock_core::{IntoResource, IntoResources, Resource};
use redlock_testkit::MemoryNode;
use redlock_testkit::conformance::{self, Backend};

use self::Flaw::*;
use super::{assert_all_caught, assert_none_caught};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    Sound,
    OneReaderOnly,
    JoinsALock,
    IgnoresTheGate,
    AddsOnlyWherePossible,
    LivesForever,
    ReplacesReaders,
    ExtendsNothing,
    ExtendRevives,
    ReleasesAll,
    ReadersLock,
    InspectNamesOne,
    ReadersAreTaken,
    NeverNotifies,
    AnyTypeIsRead,
    IsNotReported,
}

/// Each flaw, the case that catches it, and the message of the case.
const CAUGHT: &[(Flaw, &str, &str)] = &[
    (OneReaderOnly, "many_readers_share_a_resource", "is granted if each resource is absent or has readers"),
    (JoinsALock, "readers_and_locks_exclude_each_other", "readers and locks exclude each other"),
    (IgnoresTheGate, "a_reader_is_denied_while_the_gate_is_locked", "denied if the gate is locked"),
    (
        AddsOnlyWherePossible,
        "a_shared_acquire_adds_the_reader_to_all_resources_or_none",
        "a denied acquire_shared changes nothing",
    ),
    (LivesForever, "a_reader_expires_beside_another", "each reader has a separate expiry"),
    (ReplacesReaders, "a_reader_with_a_short_time_shortens_no_other", "each reader has a separate expiry"),
    (ExtendsNothing, "extend_prolongs_one_reader", "makes the time of this reader at least ttl"),
    (ExtendRevives, "extend_of_an_expired_reader_is_denied", "if the token does not read any more"),
    (ReleasesAll, "release_removes_one_reader_and_the_last_one_frees", "release removes this reader"),
    (ReadersLock, "the_token_of_a_reader_is_no_lock", "readers and locks exclude each other"),
    (InspectNamesOne, "inspect_returns_the_readers", "names Token::of_readers"),
    (ReadersAreTaken, "a_shared_watch_reports_readers_as_free", "watch_shared reports readers as free"),
    (NeverNotifies, "a_release_of_a_lock_completes_a_shared_watch", "completes the watch of a reader"),
    (AnyTypeIsRead, "a_non_lock_value_is_an_error_for_readers", "a key of another type is an error"),
    (IsNotReported, "capabilities_report_support_for_readers", "says so in its capabilities"),
];

/// Returns whether a case catches a flaw.
pub(crate) fn catches(case: &str) -> bool {
    CAUGHT.iter().any(|(_, by, _)| *by == case)
}

#[test]
fn every_flaw_of_readers_is_caught_by_the_case_for_it() {
    assert_all_caught(CAUGHT, server);
}

#[test]
fn a_sound_node_with_readers_passes_the_suite() {
    assert_none_caught(conformance::cases().filter(|case| catches(case)), || server(Sound));
}

struct Server(Node);

fn server(flaw: Flaw) -> Server {
    Server(Node { flaw, memory: MemoryNode::new("shared"), readers: Arc::default() })
}

impl Backend for Server {
    async fn node(&self) -> Arc<dyn LockNode> {
        Arc::new(self.0.clone())
    }

    async fn no_lock(&self) -> Option<Resource> {
        self.0.memory.set_non_lock_value("list");
        "list".into_resource().ok()
    }
}

#[derive(Clone)]
struct Node {
    flaw: Flaw,
    memory: MemoryNode,
    /// The claims of all readers so far.
    readers: Arc<Mutex<Vec<Claim>>>,
}

impl Node {
    fn readers(&self) -> Vec<Claim> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_reader(&self, claim: &Claim) -> bool {
        self.readers().iter().any(|reader| reader.token() == claim.token())
    }

    async fn release_readers(&self) -> Result<bool, NodeError> {
        let mut released = false;
        for reader in self.readers() {
            released |= self.memory.release(&reader).await?;
        }
        Ok(released)
    }
}

#[async_trait]
impl LockNode for Node {
    fn label(&self) -> &str {
        self.memory.label()
    }

    async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        if self.flaw == ReadersLock && self.is_reader(claim) {
            return Ok(Vote::Granted);
        }
        self.memory.acquire(claim, ttl).await
    }

    async fn extend(&self, claim: &Claim, ttl: Ttl) -> Result<Vote, NodeError> {
        match self.flaw {
            ExtendsNothing => self.memory.extend(claim, Ttl::MIN).await,
            ExtendRevives => self.memory.acquire(claim, ttl).await.map(|_| Vote::Granted),
            _ => self.memory.extend(claim, ttl).await,
        }
    }

    async fn release(&self, claim: &Claim) -> Result<bool, NodeError> {
        match self.flaw {
            ReleasesAll if self.is_reader(claim) => self.release_readers().await,
            _ => self.memory.release(claim).await,
        }
    }

    async fn acquire_shared(&self, claim: &Claim, gate: &Resource, ttl: Ttl) -> Result<Vote, NodeError> {
        if self.flaw == ReplacesReaders {
            self.release_readers().await?;
        }
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(claim.clone());
        let other = "no gate".into_resource().expect("a valid name");
        match self.flaw {
            OneReaderOnly => self.memory.acquire(claim, ttl).await,
            IgnoresTheGate => self.memory.acquire_shared(claim, &other, ttl).await,
            LivesForever => self.memory.acquire_shared(claim, gate, Ttl::MAX).await,
            JoinsALock => {
                self.memory.acquire_shared(claim, gate, ttl).await?;
                Ok(Vote::Granted)
            }
            AnyTypeIsRead => Ok(self.memory.acquire_shared(claim, gate, ttl).await.unwrap_or(Vote::Granted)),
            AddsOnlyWherePossible => {
                let mut vote = Vote::Granted;
                for resource in claim.resources() {
                    let one = resource.into_resources().expect("the name is valid");
                    let one = Claim::new(one, claim.token().clone());
                    match self.memory.acquire_shared(&one, gate, ttl).await? {
                        Vote::Granted => {}
                        denied @ Vote::Denied(_) => vote = denied,
                    }
                }
                Ok(vote)
            }
            _ => self.memory.acquire_shared(claim, gate, ttl).await,
        }
    }

    async fn watch(&self, resource: &Resource) -> Result<Watch, NodeError> {
        self.memory.watch(resource).await
    }

    async fn watch_shared(&self, resource: &Resource) -> Result<Watch, NodeError> {
        match self.flaw {
            ReadersAreTaken => self.memory.watch(resource).await,
            NeverNotifies => {
                let watch = self.memory.watch_shared(resource).await?;
                Ok(Watch::new(watch.availability, std::future::pending()).held_by(watch.holder))
            }
            _ => self.memory.watch_shared(resource).await,
        }
    }

    async fn inspect(&self, resource: &Resource) -> Result<Option<LockEntry>, NodeError> {
        match self.flaw {
            InspectNamesOne => Ok(Some(LockEntry::of(Token::from_bytes("alice")))),
            _ => self.memory.inspect(resource).await,
        }
    }

    fn capabilities(&self) -> Capabilities {
        let capabilities = Capabilities::default().with_inspect().with_watch();
        if self.flaw == IsNotReported { capabilities } else { capabilities.with_shared() }
    }
}
