//! A node: the key of the resource, its counter, and the requests between the node and all clients.

use crate::node::{Denial, NodeError, Reply, Request};
use crate::round::exploration::broken::Variant;
use crate::round::exploration::world::{Message, claim};
use crate::types::fencing_token::FencingToken;

pub(super) struct Node {
    pub(super) key: Option<Key>,
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

/// The key of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) client: u8,
    /// The attempt whose token the key contains.
    pub(super) attempt: u8,
    /// The key does not expire before the validity of this round has ended.
    pub(super) round: u8,
    /// True if the second copy of a request wrote the key. No client can know of it, so no cleanup is pending for it.
    pub(super) by_copy: bool,
}

impl Node {
    pub(super) fn new(counter: u64) -> Self {
        Self { key: None, counter, replies_falsely: false, messages: Vec::new() }
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
        let denied =
            |key: Key| Reply::Denied(Denial::by(claim(key.client, key.attempt.into()).token().clone()));
        let held = self.key;
        let counted = |counter| Reply::Counted(FencingToken::new(counter).expect("counters are at least 1"));
        let skips = |check: Check| variant.skips(check, request, own.round > 0);
        Ok(match (request, held) {
            (Request::Acquire(..) | Request::AcquireFenced(..) | Request::Refill(..), Some(key))
                if !is_own(key) =>
            {
                denied(key)
            }
            (Request::Extend(..) | Request::Confirm(..), Some(key))
                if !is_own(key) && !skips(Check::Owner) =>
            {
                denied(key)
            }
            (Request::Extend(..) | Request::Confirm(..), None) if !skips(Check::Key) => {
                Reply::Denied(Denial::of_gone_key())
            }
            (Request::Confirm(_, _, token) | Request::Refill(_, _, token), _)
                if token.as_u64() < self.counter && !skips(Check::Counter) =>
            {
                Reply::Superseded(FencingToken::new(self.counter).expect("counters are at least 1"))
            }
            (Request::Acquire(..), _) => {
                self.key = held.or(Some(own));
                Reply::Granted
            }
            (Request::AcquireFenced(..), _) => {
                self.counter += u64::from(held.is_none());
                self.key = held.or(Some(own));
                counted(self.counter)
            }
            (Request::Extend(..), Some(key)) => {
                self.prolong(key, own.round);
                Reply::Granted
            }
            (Request::Confirm(_, _, token) | Request::Refill(_, _, token), held) => {
                self.prolong(held.unwrap_or(own), own.round);
                self.counter = match variant {
                    Variant::ConfirmRaisesNothing => self.counter,
                    Variant::ConfirmLowersCounter | Variant::RefillLowersCounter => token.as_u64(),
                    _ => self.counter.max(token.as_u64()),
                };
                Reply::Granted
            }
            (Request::Release(_), Some(key)) if is_own(key) => {
                self.key = None;
                Reply::Deleted(true)
            }
            (Request::Release(_), _) => Reply::Deleted(false),
            (request, _) => return Err(NodeError::unsupported(request)),
        })
    }

    fn prolong(&mut self, key: Key, round: u8) {
        self.key = Some(Key { round: key.round.max(round), ..key });
    }
}
