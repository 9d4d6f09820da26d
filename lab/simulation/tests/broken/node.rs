//! A node that fulfills the contract except for one flaw.
//!
//! A [`MemoryNode`] carries out each request. A flaw changes the request, the reply or the keys.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use redlock_core::node::{
    Availability, Begun, Claim, ConnectionId, Denial, Exchange, LockEntry, LockNode, NodeError, Profile,
    Reply, Request, ServerId, Status, Token, Ttl, Watch,
};
use redlock_core::{IntoResources, Resource};
use redlock_testkit::MemoryNode;

use super::Flaw::{self, *};
use super::operation::{Operation, yield_now};
use super::watchers::Watchers;

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) struct Node {
    pub(crate) flaw: Flaw,
    pub(crate) memory: MemoryNode,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) client: u64,
    pub(crate) busy: AtomicUsize,
    pub(crate) connection: AtomicU64,
}

/// A handle to a node, for the futures of its replies.
#[derive(Clone)]
pub(crate) struct Client(pub(crate) Arc<Node>);

impl LockNode for Client {
    fn label(&self) -> &str {
        if self.0.flaw == NoLabel { " " } else { "broken" }
    }

    fn profile(&self) -> Profile {
        let none = Profile::default();
        match self.0.flaw {
            InspectIsNotReported => none.with_watch().with_keep(),
            WatchIsNotReported => none.with_inspect().with_keep(),
            _ => none.with_inspect().with_watch().with_keep(),
        }
    }

    fn status(&self) -> Status {
        let step = u64::from(self.0.flaw == StatusIsOfAnother);
        Status::default().over(ConnectionId(self.0.connection.load(Ordering::Relaxed) + step))
    }

    fn begin(&self, request: &Request) -> Begun {
        let (Self(node), request) = (self.clone(), request.clone());
        if let (SentBeforeThePoll, Request::Acquire(..)) = (node.flaw, &request) {
            let sent = pin!(node.memory.call(request.clone()));
            assert!(sent.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
        let step = u64::from(node.flaw == ConnectionsChange);
        let connection = ConnectionId(node.connection.fetch_add(step, Ordering::Relaxed));
        let id = if node.flaw == ClientsDisagree { node.client } else { 0 };
        Begun::Sent(Exchange {
            connection: Some(connection),
            server: Some(ServerId::new(format!("server-{id}"))),
            reply: Box::pin(async move { node.reply_to(request).await }),
        })
    }
}

impl Node {
    async fn reply_to(&self, request: Request) -> Result<Reply, NodeError> {
        if matches!(self.flaw, AtMostAHundredCalls | ADropLeaksAPermit) {
            if self.busy.fetch_add(1, Ordering::Relaxed) >= 100 {
                return Err(NodeError::unavailable("too many calls"));
            }
            yield_now().await;
            self.busy.fetch_sub(1, Ordering::Relaxed);
        }
        match request {
            Request::Acquire(claim, ttl) => self.acquire(&self.read(&claim), self.time(ttl)).await,
            Request::Extend(claim, ttl) => self.extend(&self.read(&claim), ttl).await,
            Request::Release(claim) => self.release(&self.read(&claim)).await,
            Request::Inspect(resource) => self.inspect(resource).await,
            Request::Watch(resource) => self.watch(resource).await,
            Request::Keep(claim, ttl) => self.keep_for(&claim, ttl).await,
            _ if self.flaw == GrantsTheUnsupported => Ok(Reply::Granted),
            other => Err(NodeError::unsupported(&other)),
        }
    }

    async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<Reply, NodeError> {
        let (before, resources) = (Operation::new(&self.memory, claim, ttl), claim.resources());
        let is_taken = before.is_taken();
        match self.flaw {
            AcquireIsOvertaken => yield_now().await,
            WritesNothing if !is_taken => return Ok(Reply::Granted),
            SetsNoAbsentResource if before.free.len() < resources.len() => return Ok(Reply::Granted),
            DeniesItsToken if before.free.len() < resources.len() => return Ok(denied()),
            ChecksThenWrites => {
                yield_now().await;
                if !is_taken {
                    before.set(resources, ttl);
                }
            }
            WritesOneByOne => return self.one_by_one(claim, |one| Request::Acquire(one, ttl)).await,
            _ => {}
        }
        let reply = self.memory.call(Request::Acquire(claim.clone(), ttl)).await;
        match (self.flaw, reply) {
            (AnyTypeIsALock, Err(_)) => return Ok(Reply::Granted),
            (Overwrites, Ok(Reply::Denied(_))) => {
                before.set(resources, ttl);
                return Ok(Reply::Granted);
            }
            (NamesTheCaller, Ok(Reply::Denied(_))) => {
                return Ok(Reply::Denied(Denial::by(claim.token().clone())));
            }
            (ReportsAnHour, Ok(Reply::Denied(denial))) => return Ok(Reply::Denied(denial.expiring_in(HOUR))),
            (TokensEndAtNul | TokensAreText | TokensAreNumbers, Ok(Reply::Denied(_))) => return Ok(denied()),
            (DeniedAcquireExtends, Ok(Reply::Denied(_))) => before.rearm(),
            (SetsOnlyFreeResources, Ok(Reply::Denied(_))) => before.set(&before.free, ttl),
            (RepeatedAcquireExtends, Ok(Reply::Granted)) => before.set(resources, ttl),
            (OneExpires, Ok(Reply::Granted)) => before.set(&resources[1..], Ttl::MAX),
            (LongestTtlIsTruncated, Ok(Reply::Granted)) if ttl.as_duration() > 300 * HOUR => {
                before.remove_new();
            }
            (_, reply) => return reply,
        }
        Ok(if is_taken { denied() } else { Reply::Granted })
    }

    async fn extend(&self, claim: &Claim, ttl: Ttl) -> Result<Reply, NodeError> {
        let (before, resources) = (Operation::new(&self.memory, claim, ttl), claim.resources());
        let extend = |claim: Claim, ttl: Ttl| self.memory.call(Request::Extend(claim, ttl));
        let reply = match self.flaw {
            // The shortest extension changes nothing.
            ExtendsNothing | ExtendsOneOnly | ExtendsOneByOne => extend(claim.clone(), Ttl::MIN).await?,
            _ => extend(claim.clone(), ttl).await?,
        };
        match (self.flaw, &reply) {
            (ExtendsForever, Reply::Granted) => before.set(resources, Ttl::MAX),
            (ExtendSets, Reply::Granted) => before.set(resources, ttl),
            (ExtendsOneOnly, Reply::Granted) => return extend(on(claim, &resources[0]), ttl).await,
            (ExtendsOneByOne, Reply::Granted) => {
                return self.one_by_one(claim, |one| Request::Extend(one, ttl)).await;
            }
            (ExtendCreates, Reply::Denied(_)) if !before.is_taken() => {
                before.set(&before.free, ttl);
                return Ok(Reply::Granted);
            }
            (ExtendComparesNothing, Reply::Denied(_)) if before.free.is_empty() => return Ok(Reply::Granted),
            (ExtendsOnlyHeldResources, Reply::Denied(_)) => {
                for resource in resources {
                    extend(on(claim, resource), ttl).await?;
                }
            }
            _ => {}
        }
        Ok(reply)
    }

    async fn release(&self, claim: &Claim) -> Result<Reply, NodeError> {
        let (memory, resources) = (&self.memory, claim.resources());
        let holds = |resource: &&Resource| memory.holder(*resource).as_ref() == Some(claim.token());
        let held = resources.iter().filter(holds).count();
        let remove_if = |is: &dyn Fn(&LockEntry) -> bool| {
            let locks = memory.locks().into_iter().filter(|(_, entry)| is(entry));
            locks.for_each(|(resource, _)| memory.remove(resource));
        };
        match self.flaw {
            ReleasesNothing => return Ok(Reply::Deleted(held > 0)),
            ReleasesAllOrNone if held < resources.len() => return Ok(Reply::Deleted(false)),
            ReleaseReadsPatterns if resources.iter().any(|name| name.as_bytes() == b"*") => {
                remove_if(&|_| true);
            }
            ReleasesAllOfTheToken => remove_if(&|entry| entry.token == *claim.token()),
            ReleaseComparesNothing => {
                let any = resources.iter().any(|resource| memory.holder(resource).is_some());
                for resource in resources {
                    memory.remove(resource);
                }
                return Ok(Reply::Deleted(any));
            }
            ReleasesOneByOne => drop(self.one_by_one(claim, Request::Release).await?),
            _ => drop(memory.call(Request::Release(claim.clone())).await?),
        }
        self.watchers.notify(self.client, self.flaw);
        Ok(Reply::Deleted(held > 0 || self.flaw == ReleaseAlwaysGrants))
    }

    async fn inspect(&self, resource: Resource) -> Result<Reply, NodeError> {
        let (memory, other) = (&self.memory, Token::from_bytes("other"));
        let reply = memory.call(Request::Inspect(resource.clone())).await;
        Ok(match (self.flaw, reply) {
            (InspectIsClaimed, _) => return Err(NodeError::unsupported("inspect")),
            (InspectTakesAnyType, Err(_)) | (InspectFindsExpired, Ok(Reply::Free { .. })) => {
                Reply::Held(LockEntry::of(other))
            }
            (InspectFindsNothing, _) => Reply::Free { waiters: None },
            (InspectAcquires, Ok(reply @ Reply::Free { .. })) => {
                memory.set_holder(resource, other, Ttl::MAX);
                reply
            }
            (InspectRearms, Ok(Reply::Held(entry))) => {
                memory.set_holder(resource, entry.token.clone(), Ttl::MAX);
                Reply::Held(entry)
            }
            (InspectHidesTheHolder, Ok(Reply::Held(_))) => Reply::Held(LockEntry::of(Token::from_bytes(""))),
            (InspectReportsAnHour, Ok(Reply::Held(entry))) => Reply::Held(entry.expiring_in(HOUR)),
            (_, reply) => return reply,
        })
    }

    async fn watch(&self, resource: Resource) -> Result<Reply, NodeError> {
        if self.flaw == WatchIsClaimed {
            return Err(NodeError::unsupported("watch"));
        }
        let arm = async || match self.memory.call(Request::Watch(resource.clone())).await? {
            Reply::Watching(watch) => Ok(watch),
            other => panic!("no reply to a watch: {other:?}"),
        };
        let Watch { availability, mut changed, holder, .. } = arm().await?;
        match (self.flaw, holder) {
            (WatchMissesItsOwn | WatchMissesOthers | WatchNotifiesOne, _) => {
                let joined = self.watchers.join(self.client);
                changed = Box::pin(async {
                    let _completed = joined.await;
                });
            }
            (WatchArmsLate, _) => {
                yield_now().await;
                changed = arm().await?.changed;
            }
            (WatchAcquires, None) => self.memory.set_holder(&resource, Token::from_bytes("other"), Ttl::MAX),
            (WatchRearms, Some(holder)) => self.memory.set_holder(&resource, holder, Ttl::MAX),
            _ => {}
        }
        let availability = match (self.flaw, availability) {
            (WatchFindsNothing, _) => Availability::Free,
            (WatchFindsExpired, Availability::Free) => Availability::Taken(None),
            (WatchReportsAnHour, Availability::Taken(_)) => Availability::Taken(Some(HOUR)),
            (_, availability) => availability,
        };
        Ok(Reply::Watching(Watch::new(availability, changed)))
    }

    async fn keep_for(&self, claim: &Claim, ttl: Ttl) -> Result<Reply, NodeError> {
        let left = claim.resources().iter().filter_map(|resource| self.memory.remaining(resource)).min();
        let request = match self.flaw {
            KeepNeverShortens => Request::Extend(claim.clone(), ttl),
            KeepNeverLengthens if left.is_some_and(|left| left < ttl.as_duration()) => {
                Request::Extend(claim.clone(), Ttl::MIN)
            }
            _ => Request::Keep(claim.clone(), ttl),
        };
        match self.memory.call(request).await? {
            Reply::Denied(_) if self.flaw == KeepComparesNothing => Ok(Reply::Granted),
            reply => Ok(reply),
        }
    }

    /// Carries out a request for one resource after the other.
    async fn one_by_one(
        &self,
        claim: &Claim,
        request: impl Fn(Claim) -> Request,
    ) -> Result<Reply, NodeError> {
        for resource in claim.resources() {
            if let denied @ Reply::Denied(_) = self.memory.call(request(on(claim, resource))).await? {
                return Ok(denied);
            }
            yield_now().await;
        }
        Ok(Reply::Granted)
    }

    /// Returns a claim as the node reads it.
    fn read(&self, claim: &Claim) -> Claim {
        let names = claim.resources().iter().map(Resource::as_bytes);
        let names: Vec<Vec<u8>> = match self.flaw {
            NamesAreJoined => vec![names.collect::<Vec<_>>().concat()],
            NamesEndAtNul => names.map(until_nul).collect(),
            NamesAreText => names.map(as_text).collect(),
            NamesAreTrimmed => names.map(|name| name.trim_ascii().to_vec()).collect(),
            NamesAreCut => names.map(|name| name[..name.len().min(255)].to_vec()).collect(),
            _ => names.map(<[u8]>::to_vec).collect(),
        };
        let token = claim.token().as_bytes();
        let token = match self.flaw {
            TokensEndAtNul => until_nul(token),
            TokensAreText => as_text(token),
            TokensAreNumbers => {
                let number = std::str::from_utf8(token).ok().and_then(|text| text.parse::<f64>().ok());
                number.map_or_else(|| token.to_vec(), |number| number.to_string().into_bytes())
            }
            _ => token.to_vec(),
        };
        // A name must not be empty.
        let name = |name: Vec<u8>| if name.is_empty() { b"empty".to_vec() } else { name };
        let resources = names.into_iter().map(name).collect::<Vec<_>>().into_resources();
        Claim::new(resources.expect("the names are valid"), Token::from_bytes(token))
    }

    fn time(&self, ttl: Ttl) -> Ttl {
        let time = ttl.as_duration();
        match self.flaw {
            NeverExpires => Ttl::MAX,
            ExpiresEarly => Ttl::new(time / 2).unwrap_or(Ttl::MIN),
            ExpiresLate => Ttl::new(time * 1000).unwrap_or(Ttl::MAX),
            _ => ttl,
        }
    }
}

/// Returns a claim of one of its resources.
fn on(claim: &Claim, resource: &Resource) -> Claim {
    Claim::new(resource.into_resources().expect("the name is valid"), claim.token().clone())
}

fn denied() -> Reply {
    Reply::Denied(Denial::default())
}

fn until_nul(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().take_while(|byte| *byte != 0).collect()
}

fn as_text(bytes: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(bytes).into_owned().into_bytes()
}
