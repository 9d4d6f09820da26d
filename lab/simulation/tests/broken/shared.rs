//! Nodes that support readers, with one flaw each.

use std::sync::{Arc, Mutex, PoisonError};

use redlock_core::node::{
    self, Claim, LockEntry, LockNode, NodeError, Profile, Reply, Request, Token, Ttl, Watch, async_trait,
};
use redlock_core::{IntoResource, IntoResources, Resource};
use redlock_testkit::MemoryNode;
use redlock_testkit::conformance::{self, Backend};

use self::Flaw::*;

flaws! {
    sound: conformance::cases().filter(|case| catches(case));
    OneReaderOnly: "many_readers_share_a_resource" => "is granted if each resource is absent or has readers";
    JoinsALock: "readers_and_locks_exclude_each_other" => "readers and locks exclude each other";
    IgnoresTheGate: "a_reader_is_denied_while_the_gate_is_locked" => "denied if the gate is locked";
    AddsOnlyWherePossible: "a_shared_acquire_adds_the_reader_to_all_resources_or_none" =>
        "a denied acquire_shared changes nothing";
    LivesForever: "a_reader_expires_beside_another" => "each reader has a separate expiry";
    ReplacesReaders: "a_reader_with_a_short_time_shortens_no_other" => "each reader has a separate expiry";
    ExtendsNothing: "extend_prolongs_one_reader" => "makes the time of this reader at least ttl";
    ExtendRevives: "extend_of_an_expired_reader_is_denied" => "if the token does not read any more";
    ReleasesAll: "release_removes_one_reader_and_the_last_one_frees" => "release removes this reader";
    ReadersLock: "the_token_of_a_reader_is_no_lock" => "readers and locks exclude each other";
    InspectNamesOne: "inspect_returns_the_readers" => "names Token::of_readers";
    ReadersAreTaken: "a_shared_watch_reports_readers_as_free" => "watch_shared reports readers as free";
    NeverNotifies: "a_release_of_a_lock_completes_a_shared_watch" => "completes the watch of a reader";
    AnyTypeIsRead: "a_non_lock_value_is_an_error_for_readers" => "a key of another type is an error";
    IsNotReported: "the_profile_reports_support_for_readers" => "says so in its profile";
}

struct Server(Node);

fn server(flaw: Flaw) -> Server {
    Server(Node { flaw, memory: MemoryNode::new("shared"), readers: Arc::default() })
}

impl Backend for Server {
    async fn node(&self) -> Arc<dyn LockNode> {
        Arc::new(Arc::new(self.0.clone()))
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

    async fn release_readers(&self) -> Result<Reply, NodeError> {
        let mut released = false;
        for reader in self.readers() {
            released |= self.memory.call(Request::Release(reader)).await? == Reply::Deleted(true);
        }
        Ok(Reply::Deleted(released))
    }
}

#[async_trait]
impl node::Backend for Node {
    fn label(&self) -> &str {
        self.memory.label()
    }

    async fn reply_to(&self, request: &Request) -> Result<Reply, NodeError> {
        match request {
            Request::Acquire(claim, ttl) => self.acquire(claim, *ttl).await,
            Request::Extend(claim, ttl) => self.extend(claim, *ttl).await,
            Request::Release(claim) => self.release(claim).await,
            Request::AcquireShared(claim, gate, ttl) => self.acquire_shared(claim, gate, *ttl).await,
            Request::Watch(resource) => self.watch(resource).await,
            Request::WatchShared(resource) => self.watch_shared(resource).await,
            Request::Inspect(resource) => self.inspect(resource).await,
            other => Err(NodeError::unsupported(other)),
        }
    }

    fn profile(&self) -> Profile {
        let profile = Profile::default().with_inspect().with_watch();
        if self.flaw == IsNotReported { profile } else { profile.with_shared() }
    }
}

impl Node {
    async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<Reply, NodeError> {
        if self.flaw == ReadersLock && self.is_reader(claim) {
            return Ok(Reply::Granted);
        }
        self.memory.call(Request::Acquire(claim.clone(), ttl)).await
    }

    async fn extend(&self, claim: &Claim, ttl: Ttl) -> Result<Reply, NodeError> {
        match self.flaw {
            ExtendsNothing => self.memory.call(Request::Extend(claim.clone(), Ttl::MIN)).await,
            ExtendRevives => {
                self.memory.call(Request::Acquire(claim.clone(), ttl)).await.map(|_| Reply::Granted)
            }
            _ => self.memory.call(Request::Extend(claim.clone(), ttl)).await,
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Reply, NodeError> {
        match self.flaw {
            ReleasesAll if self.is_reader(claim) => self.release_readers().await,
            _ => self.memory.call(Request::Release(claim.clone())).await,
        }
    }

    async fn acquire_shared(&self, claim: &Claim, gate: &Resource, ttl: Ttl) -> Result<Reply, NodeError> {
        if self.flaw == ReplacesReaders {
            self.release_readers().await?;
        }
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(claim.clone());
        let other = "no gate".into_resource().expect("a valid name");
        match self.flaw {
            OneReaderOnly => self.memory.call(Request::Acquire(claim.clone(), ttl)).await,
            IgnoresTheGate => {
                self.memory.call(Request::AcquireShared(claim.clone(), other.clone(), ttl)).await
            }
            LivesForever => {
                self.memory.call(Request::AcquireShared(claim.clone(), gate.clone(), Ttl::MAX)).await
            }
            JoinsALock => {
                self.memory.call(Request::AcquireShared(claim.clone(), gate.clone(), ttl)).await?;
                Ok(Reply::Granted)
            }
            AnyTypeIsRead => Ok(self
                .memory
                .call(Request::AcquireShared(claim.clone(), gate.clone(), ttl))
                .await
                .unwrap_or(Reply::Granted)),
            AddsOnlyWherePossible => {
                let mut vote = Reply::Granted;
                for resource in claim.resources() {
                    let one = resource.into_resources().expect("the name is valid");
                    let one = Claim::new(one, claim.token().clone());
                    match self.memory.call(Request::AcquireShared(one.clone(), gate.clone(), ttl)).await? {
                        Reply::Granted => {}
                        denied => vote = denied,
                    }
                }
                Ok(vote)
            }
            _ => self.memory.call(Request::AcquireShared(claim.clone(), gate.clone(), ttl)).await,
        }
    }

    async fn watch(&self, resource: &Resource) -> Result<Reply, NodeError> {
        self.memory.call(Request::Watch(resource.clone())).await
    }

    async fn watch_shared(&self, resource: &Resource) -> Result<Reply, NodeError> {
        match self.flaw {
            ReadersAreTaken => self.memory.call(Request::Watch(resource.clone())).await,
            NeverNotifies => match self.memory.call(Request::WatchShared(resource.clone())).await? {
                Reply::Watching(watch) => {
                    let silent = Watch::new(watch.availability, std::future::pending());
                    Ok(Reply::Watching(silent.held_by(watch.holder)))
                }
                other => Ok(other),
            },
            _ => self.memory.call(Request::WatchShared(resource.clone())).await,
        }
    }

    async fn inspect(&self, resource: &Resource) -> Result<Reply, NodeError> {
        match self.flaw {
            InspectNamesOne => Ok(Reply::Held(LockEntry::of(Token::from_bytes("alice")))),
            _ => self.memory.call(Request::Inspect(resource.clone())).await,
        }
    }
}
