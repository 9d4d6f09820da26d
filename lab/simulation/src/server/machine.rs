//! The data and the behavior of a server: its keys, its wall clock, and its reasons for error replies.

mod memory;
mod redis;
mod stamped;

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use redlock_core::Resource;
use redlock_core::node::Token;
use redlock_core::runtime::Instant;

pub(super) use self::memory::Memory;
pub(super) use self::redis::{CarriedOut, Claims, Redis, STAMP};
use super::wall_clock::WallClock;

/// The data of a server. The fast layer receives requests, the whole stack receives commands.
pub(super) enum Machine {
    Memory(Memory),
    Redis(Redis),
}

/// The end of each reservation.
pub(super) type Reservations = BTreeMap<Vec<u8>, Instant>;

/// Returns whether a token is the place of a request that waits, for which a resource is reserved.
pub(super) fn is_place(token: &[u8]) -> bool {
    token.starts_with(b"next#") || token.starts_with(b"read##")
}

/// Returns the reservations that began, moved or ended between two moments, the last with the present time.
pub(super) fn changes(before: &Reservations, after: &Reservations, now: Instant) -> Vec<(Token, Instant)> {
    let ended = before.keys().filter(|token| !after.contains_key(*token)).map(|token| (token, now));
    let moved = after.iter().filter(|(token, until)| before.get(*token) != Some(until));
    let all = ended.chain(moved.map(|(token, until)| (token, *until)));
    all.map(|(token, until)| (Token::from_bytes(token.clone()), until)).collect()
}

/// The faults of a server that are about its data.
pub(super) trait Data {
    /// Returns the wall clock.
    fn clock(&self) -> &WallClock;

    /// Starts with a new identity.
    fn start(&mut self);

    /// Becomes the master again after it was a replica. It keeps its process, but not its identity.
    fn promote(&mut self);

    /// Returns whether it rejects every write.
    fn is_read_only(&self) -> bool;

    /// Sets whether it rejects every write.
    fn set_read_only(&mut self, is: bool);

    /// Sets whether it has no memory for new keys. Returns whether it had none.
    fn set_out_of_memory(&mut self, is: bool) -> bool;

    /// Copies all data.
    fn copy(&mut self);

    /// Replaces all data by the older copy. Returns the tokens whose keys are gone or expire earlier.
    fn roll_back(&mut self) -> Vec<Token>;

    /// Notifies connections that all keys were deleted or replaced.
    fn notify_of_loss(&mut self) {}

    /// Sets a non-lock value under a resource, as `RPUSH` would.
    ///
    /// Returns whether it was set: not over another value, and not while writes are rejected.
    fn set_non_lock_value(&mut self, resource: &Resource) -> bool;

    /// Deletes a non-lock value. Returns whether there was one.
    fn remove_non_lock_value(&mut self, resource: &Resource) -> bool;

    /// Loses locks, and the stamp unless all is kept. Returns the lost tokens.
    fn lose_all_but(&mut self, persistence: &Persistence) -> Vec<Token>;

    /// Loses the counters of fencing tokens. Returns whether there was any.
    fn lose_counters(&mut self) -> bool;

    /// Starts lost counters with 1 from now on.
    fn count_from_one(&mut self);

    /// Returns the tokens of the live locks, and their expiry by the clock.
    fn expiring(&self) -> Vec<(Token, Instant)>;

    /// Returns the places for which resources are reserved, and the true end of the last reservation of each.
    fn reservations(&self) -> Reservations {
        let mut reservations = Reservations::new();
        for (token, until) in self.locks().into_iter().filter(|(token, _)| is_place(token.as_bytes())) {
            let last = reservations.entry(token.as_bytes().to_vec()).or_insert(until);
            *last = until.max(*last);
        }
        reservations
    }

    /// Returns the tokens of the live locks, and their true expiry.
    fn locks(&self) -> Vec<(Token, Instant)> {
        let locks = self.expiring().into_iter();
        locks.map(|(token, expires)| (token, self.clock().true_time(expires))).collect()
    }

    /// Sets the clock. Returns the new true expiry of each lock; of an expired lock the present time.
    fn step_clock(&mut self, millis: i64) -> Vec<(Token, Instant)> {
        let before = self.expiring();
        self.clock().step(millis);
        self.expire_at(before)
    }

    /// Makes the clock run faster by these parts per million. Returns the new true expiry of each lock.
    fn slew_clock(&mut self, ppm: i32) -> Vec<(Token, Instant)> {
        let before = self.expiring();
        self.clock().slew(ppm);
        self.expire_at(before)
    }

    /// Returns the true expiry of locks.
    fn expire_at(&self, locks: Vec<(Token, Instant)>) -> Vec<(Token, Instant)> {
        locks.into_iter().map(|(token, expires)| (token, self.clock().true_time(expires))).collect()
    }
}

/// The data that a server still has after a crash.
///
/// Only keys that would not have expired meanwhile matter. Non-lock values are always kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// All data: the server syncs every write.
    #[default]
    All,
    /// Every second lock in the order of resources, and the counters of fencing tokens.
    ///
    /// The server syncs from time to time and was killed in between. A part of a claim on several resources may remain,
    /// although no client wrote it in this form.
    Part,
    /// No lock, but the counters of fencing tokens.
    Counters,
    /// The [older copy](super::Server::copy) of all data: the server loads a snapshot.
    Older,
    /// No data: the server has no persistence.
    Nothing,
}

impl Machine {
    /// Returns the server of the fast layer.
    pub(super) fn memory(&mut self) -> &mut Memory {
        match self {
            Self::Memory(memory) => memory,
            Self::Redis(_) => panic!("a server of the whole stack receives only bytes"),
        }
    }

    /// Returns the server of the whole stack.
    pub(super) fn redis(&mut self) -> Option<&mut Redis> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(redis) => Some(redis),
        }
    }
}

impl Deref for Machine {
    type Target = dyn Data;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Memory(memory) => memory,
            Self::Redis(redis) => redis,
        }
    }
}

impl DerefMut for Machine {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Memory(memory) => memory,
            Self::Redis(redis) => redis,
        }
    }
}
