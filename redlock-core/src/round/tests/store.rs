//! The keys and counters of one node.

use std::collections::HashMap;
use std::time::Duration;

use crate::node::{Claim, Denial, LockEntry, NodeError, Reply, Request, Token};
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::resource::Resource;

/// The keys and counters of one node, without a transport.
#[derive(Default)]
pub(super) struct Store {
    pub(super) keys: HashMap<Resource, (Token, Instant)>,
    pub(super) counters: HashMap<Resource, u64>,
    /// A defect for tests of tests: keys expire after this part of their TTL.
    pub(super) expires_early: Option<u32>,
}

impl Store {
    /// Carries out a request at a moment. Pure.
    pub(super) fn apply(&mut self, request: &Request, now: Instant) -> Result<Reply, NodeError> {
        self.keys.retain(|_, (_, until)| now < *until);
        let divisor = self.expires_early.unwrap_or(1);
        let until = |ttl: Duration| now + ttl / divisor;
        Ok(match request {
            Request::Acquire(claim, ttl) => match self.denial(claim, true) {
                Some(denial) => Reply::Denied(denial),
                None => {
                    self.set(claim, until(ttl.as_duration()));
                    Reply::Granted
                }
            },
            Request::AcquireFenced(claim, ttl) => match self.denial(claim, true) {
                Some(denial) => Reply::Denied(denial),
                None => {
                    let is_new = self.set(claim, until(ttl.as_duration()));
                    let next = self.counter(claim) + u64::from(is_new);
                    self.count(claim, next);
                    Reply::Counted(FencingToken::new(next).expect("counters are at least 1"))
                }
            },
            Request::Extend(claim, ttl) => match self.denial(claim, false) {
                Some(denial) => Reply::Denied(denial),
                None => {
                    self.prolong(claim, until(ttl.as_duration()));
                    Reply::Granted
                }
            },
            Request::Confirm(claim, ttl, token) | Request::Refill(claim, ttl, token) => {
                let may_be_absent = matches!(request, Request::Refill(..));
                match (self.denial(claim, may_be_absent), self.counter(claim)) {
                    (Some(denial), _) => Reply::Denied(denial),
                    (None, counter) if counter > token.as_u64() => {
                        Reply::Superseded(FencingToken::new(counter).expect("counters are at least 1"))
                    }
                    (None, _) => {
                        self.set(claim, until(ttl.as_duration()));
                        self.prolong(claim, until(ttl.as_duration()));
                        self.count(claim, token.as_u64());
                        Reply::Granted
                    }
                }
            }
            Request::Release(claim) => {
                let before = self.keys.len();
                self.keys
                    .retain(|name, (token, _)| token != claim.token() || !claim.resources().contains(name));
                Reply::Deleted(self.keys.len() < before)
            }
            Request::Inspect(resource) => {
                let free = Reply::Free { waiters: None };
                self.keys.get(resource).map_or(free, |(token, _)| Reply::Held(LockEntry::of(token.clone())))
            }
            _ => return Err(NodeError::unsupported(request)),
        })
    }

    fn denial(&self, claim: &Claim, may_be_absent: bool) -> Option<Denial> {
        claim.resources().iter().find_map(|name| match self.keys.get(name) {
            Some((token, _)) if token == claim.token() => None,
            Some((token, _)) => Some(Denial::by(token.clone())),
            None if may_be_absent => None,
            None => Some(Denial::of_gone_key()),
        })
    }

    fn set(&mut self, claim: &Claim, until: Instant) -> bool {
        let before = self.keys.len();
        for name in claim.resources() {
            self.keys.entry(name.clone()).or_insert_with(|| (claim.token().clone(), until));
        }
        self.keys.len() > before
    }

    fn prolong(&mut self, claim: &Claim, until: Instant) {
        for name in claim.resources() {
            if let Some((_, expires)) = self.keys.get_mut(name) {
                *expires = until.max(*expires);
            }
        }
    }

    fn counter(&self, claim: &Claim) -> u64 {
        claim.resources().iter().filter_map(|name| self.counters.get(name)).max().copied().unwrap_or(0)
    }

    fn count(&mut self, claim: &Claim, number: u64) {
        self.counters.extend(claim.resources().iter().map(|name| (name.clone(), number)));
    }
}
