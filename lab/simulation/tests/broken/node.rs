//! A node that fulfills the contract except for one flaw.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use redlock_core::node::{
    Availability, Begun, Claim, ConnectionId, Denial, Exchange, LockEntry, LockNode, NodeError, Profile,
    Reply, Request, ServerId, Status, Token, Ttl, Watch,
};
use redlock_core::runtime::{Instant, suspend_aware_now};
use redlock_core::{IntoResources, Resource};

use super::Flaw::{self, *};
use super::watchers::Watchers;

pub(crate) type Held = HashMap<Vec<u8>, (Vec<u8>, Instant)>;

/// A value that is not a token.
pub(crate) const NO_LOCK: &[u8] = b"[1, 2, 3]";

pub(crate) struct Node {
    pub(crate) flaw: Flaw,
    pub(crate) held: Arc<Mutex<Held>>,
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
        if let (SentBeforeThePoll, Request::Acquire(claim, ttl)) = (node.flaw, &request) {
            drop(node.acquire_at_once(claim, *ttl));
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
        match request {
            Request::Acquire(claim, ttl) => self.acquire(&claim, ttl).await,
            Request::Extend(claim, ttl) => self.extend(&claim, ttl).await,
            Request::Release(claim) => self.release(&claim).await,
            Request::Inspect(resource) => self.inspect(&resource).await,
            Request::Watch(resource) => self.watch(&resource).await,
            Request::Keep(claim, ttl) => Ok(self.keep_for(&claim, ttl)),
            _ if self.flaw == GrantsTheUnsupported => Ok(Reply::Granted),
            other => Err(NodeError::unsupported(&other)),
        }
    }

    async fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<Reply, NodeError> {
        if self.flaw == Sound {
            return self.acquire_at_once(claim, ttl);
        }
        self.enter().await?;
        if self.flaw == AcquireIsOvertaken {
            yield_now().await;
        }
        let (keys, token_bytes) = (self.keys(claim), self.token(claim));
        let taken = {
            let held = self.living();
            let is_taken = |key: &&Vec<u8>| {
                held.get(*key).is_some_and(|(token, _)| *token != token_bytes || self.flaw == DeniesItsToken)
            };
            keys.iter().find(is_taken).map(|key| (key.clone(), held[key].clone()))
        };
        if self.flaw == ChecksThenWrites {
            yield_now().await;
        }
        if let Some((key, (holder, deadline))) = taken {
            if holder == NO_LOCK && self.flaw != AnyTypeIsALock {
                return Err(NodeError::wrong_type(&Resource::new(key).expect("the name is valid")));
            }
            match self.flaw {
                Overwrites => {}
                DeniedAcquireExtends => {
                    self.living().insert(key, (holder, suspend_aware_now() + ttl.as_duration()));
                    return Ok(denied());
                }
                SetsOnlyFreeResources => {
                    for key in keys {
                        self.living()
                            .entry(key)
                            .or_insert((token_bytes.clone(), suspend_aware_now() + ttl.as_duration()));
                    }
                    return Ok(denied());
                }
                NamesTheCaller => return Ok(Reply::Denied(Denial::by(claim.token().clone()))),
                _ => {
                    let left = deadline.saturating_duration_since(suspend_aware_now());
                    let reported = if self.flaw == ReportsAnHour { Duration::from_secs(3600) } else { left };
                    let truth = Denial::by(Token::from_bytes(holder)).expiring_in(reported);
                    let tokens_differ =
                        matches!(self.flaw, TokensEndAtNul | TokensAreText | TokensAreNumbers);
                    return Ok(if tokens_differ { denied() } else { Reply::Denied(truth) });
                }
            }
        }
        if self.flaw == WritesNothing
            || self.flaw == SetsNoAbsentResource && keys.iter().any(|key| self.living().contains_key(key))
        {
            return Ok(Reply::Granted);
        }
        let deadline = suspend_aware_now() + self.time(ttl);
        for (position, key) in keys.into_iter().enumerate() {
            let never = self.flaw == OneExpires && position > 0;
            let fresh =
                (token_bytes.clone(), if never { deadline + Duration::from_secs(3600) } else { deadline });
            if matches!(self.flaw, Overwrites | RepeatedAcquireExtends) {
                self.living().insert(key, fresh);
            } else {
                self.living().entry(key).or_insert(fresh);
            }
            if self.flaw == WritesOneByOne {
                yield_now().await;
            }
        }
        Ok(Reply::Granted)
    }

    async fn extend(&self, claim: &Claim, ttl: Ttl) -> Result<Reply, NodeError> {
        self.enter().await?;
        let (keys, token_bytes) = (self.keys(claim), self.token(claim));
        let has_token = |key: &Vec<u8>| match self.living().get(key) {
            Some((token, _)) => *token == token_bytes || self.flaw == ExtendComparesNothing,
            None => self.flaw == ExtendCreates,
        };
        let all = keys.iter().all(has_token);
        if !all && self.flaw != ExtendsOnlyHeldResources {
            return Ok(denied());
        }
        let at_least = suspend_aware_now() + self.time(ttl);
        for key in keys.iter().filter(|key| has_token(key)) {
            {
                let mut held = self.living();
                let (_, deadline) = held.entry(key.clone()).or_insert((token_bytes.clone(), at_least));
                match self.flaw {
                    ExtendsNothing => {}
                    ExtendsForever => *deadline = *deadline + Duration::from_secs(3600),
                    ExtendSets => *deadline = at_least,
                    _ => *deadline = at_least.max(*deadline),
                }
            }
            match self.flaw {
                ExtendsOneOnly => break,
                ExtendsOneByOne => yield_now().await,
                _ => {}
            }
        }
        Ok(if all { Reply::Granted } else { denied() })
    }

    async fn release(&self, claim: &Claim) -> Result<Reply, NodeError> {
        self.enter().await?;
        let (keys, token_bytes) = (self.keys(claim), self.token(claim));
        let has_token = |key: &Vec<u8>| match self.living().get(key) {
            Some((token, _)) => *token == token_bytes || self.flaw == ReleaseComparesNothing,
            None => false,
        };
        let mut own_keys: Vec<_> = keys.iter().filter(|key| has_token(key)).cloned().collect();
        match self.flaw {
            ReleasesNothing => return Ok(Reply::Deleted(!own_keys.is_empty())),
            ReleaseAlwaysGrants => own_keys.push(b"nothing".to_vec()),
            ReleasesAllOrNone if own_keys.len() < keys.len() => return Ok(Reply::Deleted(false)),
            ReleaseReadsPatterns if keys.contains(&b"*".to_vec()) => self.living().clear(),
            ReleasesAllOfTheToken => self.living().retain(|_, (token, _)| *token != token_bytes),
            _ => {}
        }
        for key in &own_keys {
            self.living().remove(key);
            if self.flaw == ReleasesOneByOne {
                yield_now().await;
            }
        }
        self.watchers.notify(self.client, self.flaw);
        Ok(Reply::Deleted(!own_keys.is_empty()))
    }

    async fn inspect(&self, resource: &Resource) -> Result<Reply, NodeError> {
        self.enter().await?;
        let other =
            Claim::new(resource.into_resources().expect("the name is valid"), Token::from_bytes("other"));
        let key = self.keys(&other).remove(0);
        let found = self.living().get(&key).cloned();
        match self.flaw {
            InspectIsClaimed => return Err(NodeError::unsupported("inspect")),
            InspectFindsNothing => return Ok(Reply::Free { waiters: None }),
            InspectAcquires if found.is_none() => {
                drop(self.acquire(&other, Ttl::MAX).await);
            }
            InspectRearms if found.is_some() => {
                let later = suspend_aware_now() + Duration::from_secs(3600);
                self.living().entry(key).and_modify(|(_, deadline)| *deadline = later);
            }
            InspectFindsExpired if found.is_none() => {
                return Ok(Reply::Held(LockEntry::of(other.token().clone())));
            }
            _ => {}
        }
        let Some((token, deadline)) = found else { return Ok(Reply::Free { waiters: None }) };
        if token == NO_LOCK && self.flaw != InspectTakesAnyType {
            return Err(NodeError::wrong_type(resource));
        }
        let token = if self.flaw == InspectHidesTheHolder { b"".to_vec() } else { token };
        let left = deadline.saturating_duration_since(suspend_aware_now());
        let reported = if self.flaw == InspectReportsAnHour { Duration::from_secs(3600) } else { left };
        Ok(Reply::Held(LockEntry::of(Token::from_bytes(token)).expiring_in(reported)))
    }

    async fn watch(&self, resource: &Resource) -> Result<Reply, NodeError> {
        self.enter().await?;
        if self.flaw == WatchIsClaimed {
            return Err(NodeError::unsupported("watch"));
        }
        let other =
            Claim::new(resource.into_resources().expect("the name is valid"), Token::from_bytes("other"));
        let key = self.keys(&other).remove(0);
        let joined = (self.flaw != WatchArmsLate).then(|| self.watchers.join(self.client));
        let found = self.living().get(&key).map(|(_, deadline)| *deadline);
        let later = suspend_aware_now() + Duration::from_secs(3600);
        match self.flaw {
            WatchArmsLate => yield_now().await,
            WatchAcquires if found.is_none() => {
                drop(self.acquire(&other, Ttl::MAX).await);
            }
            WatchRearms if found.is_some() => {
                self.living().entry(key).and_modify(|(_, deadline)| *deadline = later);
            }
            _ => {}
        }
        let joined = joined.unwrap_or_else(|| self.watchers.join(self.client));
        let left = |deadline: Instant| deadline.saturating_duration_since(suspend_aware_now());
        let availability = match found {
            None if self.flaw == WatchFindsExpired => Availability::Taken(None),
            Some(_) if self.flaw == WatchReportsAnHour => Availability::Taken(Some(left(later))),
            Some(deadline) if self.flaw != WatchFindsNothing => Availability::Taken(Some(left(deadline))),
            _ => Availability::Free,
        };
        Ok(Reply::Watching(Watch::new(availability, async {
            let _completed = joined.await;
        })))
    }

    fn keep_for(&self, claim: &Claim, ttl: Ttl) -> Reply {
        let (keys, token_bytes) = (self.keys(claim), self.token(claim));
        let mut held = self.living();
        let is_held = |key: &Vec<u8>| held.get(key).is_some_and(|(token, _)| *token == token_bytes);
        if self.flaw != KeepComparesNothing && !keys.iter().all(is_held) {
            return denied();
        }
        let until = suspend_aware_now() + ttl.as_duration();
        for key in keys {
            let Some((_, deadline)) = held.get_mut(&key) else { continue };
            *deadline = match self.flaw {
                KeepNeverShortens => until.max(*deadline),
                KeepNeverLengthens => until.min(*deadline),
                _ => until,
            };
        }
        Reply::Granted
    }
}

impl Node {
    /// Acquires in one step, as the contract requires.
    fn acquire_at_once(&self, claim: &Claim, ttl: Ttl) -> Result<Reply, NodeError> {
        let (keys, token_bytes) = (self.keys(claim), self.token(claim));
        let mut held = self.living();
        for key in &keys {
            let Some((holder, deadline)) = held.get(key).filter(|(token, _)| *token != token_bytes) else {
                continue;
            };
            if holder == NO_LOCK {
                return Err(NodeError::wrong_type(&Resource::new(key).expect("the name is valid")));
            }
            let left = deadline.saturating_duration_since(suspend_aware_now());
            return Ok(Reply::Denied(Denial::by(Token::from_bytes(holder)).expiring_in(left)));
        }
        let deadline = suspend_aware_now() + self.time(ttl);
        for key in keys {
            held.entry(key).or_insert_with(|| (token_bytes.clone(), deadline));
        }
        Ok(Reply::Granted)
    }

    async fn enter(&self) -> Result<(), NodeError> {
        if matches!(self.flaw, AtMostAHundredCalls | ADropLeaksAPermit) {
            if self.busy.fetch_add(1, Ordering::Relaxed) >= 100 {
                return Err(NodeError::unavailable("too many calls"));
            }
            yield_now().await;
            self.busy.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn living(&self) -> MutexGuard<'_, Held> {
        let mut held = lock(&self.held);
        held.retain(|_, (_, deadline)| *deadline > suspend_aware_now());
        held
    }

    fn keys(&self, claim: &Claim) -> Vec<Vec<u8>> {
        let names = claim.resources().iter().map(Resource::as_bytes);
        match self.flaw {
            NamesAreJoined => vec![names.collect::<Vec<_>>().concat()],
            NamesEndAtNul => names.map(until_nul).collect(),
            NamesAreText => names.map(as_text).collect(),
            NamesAreTrimmed => names.map(|name| name.trim_ascii().to_vec()).collect(),
            NamesAreCut => names.map(|name| name[..name.len().min(255)].to_vec()).collect(),
            _ => names.map(<[u8]>::to_vec).collect(),
        }
    }

    fn token(&self, claim: &Claim) -> Vec<u8> {
        let token = claim.token().as_bytes();
        match self.flaw {
            TokensEndAtNul => until_nul(token),
            TokensAreText => as_text(token),
            TokensAreNumbers => {
                let number = std::str::from_utf8(token).ok().and_then(|text| text.parse::<f64>().ok());
                number.map_or_else(|| token.to_vec(), |number| number.to_string().into_bytes())
            }
            _ => token.to_vec(),
        }
    }

    fn time(&self, ttl: Ttl) -> Duration {
        let ttl = ttl.as_duration();
        match self.flaw {
            NeverExpires => Duration::from_secs(1_000_000),
            ExpiresEarly => ttl / 2,
            ExpiresLate => ttl * 1000,
            LongestTtlIsTruncated if ttl > Duration::from_secs(1 << 20) => Duration::ZERO,
            _ => ttl,
        }
    }
}

pub(crate) fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Lets all other tasks run first.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
