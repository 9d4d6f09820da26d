//! A node: who holds the resource, its counter, and the requests between the node and all clients.

use crate::node::{Denial, NodeError, Reply, Request};
use crate::round::exploration::broken::Variant;
use crate::round::exploration::world::{Message, claim};
use crate::types::fencing_token::FencingToken;
use crate::types::token::Token;

pub(super) struct Node {
    /// One key, or those of readers: each reader has an entry with an expiry of its own. The last one was written last.
    pub(super) keys: Vec<Key>,
    pub(super) counter: u64,
    /// True if the node has replied with a counter that is not its own. It may do so again.
    pub(super) replies_falsely: bool,
    pub(super) messages: Vec<Message>,
}

/// A counter in a false reply. It is further from all others than the [bound](crate::decide::fencing).
pub(super) const FAR: u64 = 10_000_000;

/// A check of a node before it confirms or refills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Another attempt does not have the key.
    Owner,
    /// The key exists.
    Key,
    /// The counter is not above the token.
    Counter,
}

/// The key of the resource, or the entry of one reader in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) client: u8,
    /// The attempt whose token the key contains.
    pub(super) attempt: u8,
    /// The key does not expire before the validity of this round has ended.
    pub(super) round: u8,
    /// True if the second copy of a request wrote the key. No client can know of it, so no cleanup is pending for it.
    pub(super) by_copy: bool,
    pub(super) reads: bool,
}

impl Node {
    pub(super) fn new(counter: u64) -> Self {
        Self { keys: Vec::new(), counter, replies_falsely: false, messages: Vec::new() }
    }

    /// Carries out a request by `own`: the key that it would set.
    pub(super) fn apply(
        &mut self,
        request: &Request,
        own: Key,
        variant: Variant,
    ) -> Result<Reply, NodeError> {
        let shared = variant == Variant::OneTokenForAllAttempts;
        let is_own = |key: Key| key.client == own.client && (key.attempt == own.attempt || shared);
        let denied = |key: Key| Reply::Denied(Denial::by(key.holder()));
        if variant == Variant::WriterReplacesReaders && matches!(request, Request::Acquire(..)) {
            self.keys.retain(|key| !key.reads);
        }
        let held = self.find(own, variant, is_own);
        let before = held.map(|position| self.keys[position]);
        let counted = |counter| Reply::Counted(FencingToken::new(counter).expect("counters are at least 1"));
        let skips = |check: Check| variant.skips(check, request, own.round > 0);
        Ok(match (request, before) {
            (_, Some(key)) if creates(request) && !is_own(key) => denied(key),
            (Request::Extend(..) | Request::Confirm(..), Some(key))
                if !is_own(key) && !skips(Check::Owner) =>
            {
                denied(key)
            }
            (Request::Extend(..), None)
                if variant == Variant::AnyReaderIsExtended && !self.keys.is_empty() =>
            {
                Reply::Granted
            }
            (Request::Extend(..) | Request::Confirm(..), None) if !skips(Check::Key) => {
                // Only entries of other readers are left. The denial names them, as that of a real node does.
                self.keys.first().map_or(Reply::Denied(Denial::of_gone_key()), |key| denied(*key))
            }
            (Request::Confirm(_, _, token) | Request::Refill(_, _, token), _)
                if token.as_u64() < self.counter && !skips(Check::Counter) =>
            {
                Reply::Superseded(FencingToken::new(self.counter).expect("counters are at least 1"))
            }
            (Request::Acquire(..) | Request::AcquireShared(..), _) => {
                self.keys.extend(held.is_none().then_some(own));
                Reply::Granted
            }
            (Request::AcquireFenced(..), _) => {
                self.counter += u64::from(held.is_none());
                self.keys.extend(held.is_none().then_some(own));
                counted(self.counter)
            }
            (Request::Extend(..), Some(_)) => {
                self.prolong(held, own, variant);
                Reply::Granted
            }
            (Request::Confirm(_, _, token) | Request::Refill(_, _, token), _) => {
                match request {
                    // A key that exists keeps its expiry, as after an acquire.
                    Request::Refill(..) => self.keys.extend(held.is_none().then_some(own)),
                    _ => self.prolong(held, own, variant),
                }
                self.counter = match variant {
                    Variant::ConfirmRaisesNothing => self.counter,
                    Variant::ConfirmLowersCounter | Variant::RefillLowersCounter => token.as_u64(),
                    _ => self.counter.max(token.as_u64()),
                };
                Reply::Granted
            }
            (Request::Release(_), before) => {
                let is_held = before.is_some_and(is_own);
                if is_held {
                    self.keys.retain(|key| !is_own(*key));
                }
                match variant {
                    Variant::ReleaseRemovesReaders if is_held => self.keys.clear(),
                    // The number of readers decreases by one, even if the caller is not one of them.
                    Variant::ReadersAreCounted if own.reads && !is_held => {
                        if let Some(reader) = self.keys.iter().position(|key| key.reads) {
                            self.keys.remove(reader);
                        }
                    }
                    _ => {}
                }
                Reply::Deleted(is_held)
            }
            (request, _) => return Err(NodeError::unsupported(request)),
        })
    }

    /// Returns the position of the client's key, or else of a key that excludes the client.
    fn find(&self, own: Key, variant: Variant, is_own: impl Fn(Key) -> bool) -> Option<usize> {
        let joins = own.reads && variant == Variant::ReaderJoinsAWriter;
        let excludes = |key: &Key| !(own.reads && key.reads || joins);
        let position = self.keys.iter().position(|key| is_own(*key));
        position.or_else(|| self.keys.iter().position(excludes))
    }

    fn prolong(&mut self, held: Option<usize>, own: Key, variant: Variant) {
        let key = held.map_or(own, |position| self.keys.remove(position));
        let shortens = variant == Variant::ExtensionShortens;
        let round = if shortens { own.round } else { key.round.max(own.round) };
        self.keys.push(Key { round, ..key });
    }

    /// Removes an expired key.
    pub(super) fn expire(&mut self, position: usize, variant: Variant) {
        let is_last = position + 1 == self.keys.len();
        self.keys.remove(position);
        match variant {
            Variant::LastReaderSetsTheExpiry if is_last => self.keys.clear(),
            Variant::RemovalDropsCounter => self.counter = 0,
            _ => {}
        }
    }
}

impl Key {
    /// Returns the token that a denial names.
    fn holder(self) -> Token {
        if self.reads { Token::of_readers() } else { claim(self.client, self.attempt.into()).token().clone() }
    }
}

/// Returns true if a request creates a key where there is none.
pub(super) fn creates(request: &Request) -> bool {
    use Request::{Acquire, AcquireFenced, AcquireShared, Refill};
    matches!(request, Acquire(..) | AcquireFenced(..) | AcquireShared(..) | Refill(..))
}
