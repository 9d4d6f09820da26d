//! The invariants of every state.

use std::fmt;

use crate::round::exploration::node::{FAR, Key};
use crate::round::exploration::possible::is_valid;
use crate::round::exploration::scope::{CLIENTS, Keys, NODES, QUORUM};
use crate::round::exploration::world::{Attempt, Call, Message, Phase, World};

/// A property of the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Property {
    /// At most one client has a valid lease, or only readers have one.
    Exclusion,
    /// No attempt removes the key of another attempt.
    NoTrespass,
    /// As long as a lease is valid, its key exists on every node that counted for it.
    CountedKeysExist,
    /// A lease was granted, and extended, by a quorum of nodes that count.
    Quorum,
    /// If an ended attempt has a key on a node, or a write in flight to it, its release is pending there. Thus no write
    /// follows the end of the cleanup. Writes by the second copy of a request are exempt: no client can know of them.
    NothingLeftBehind,
    /// A lease that has ended does not become valid again, and none is granted without validity.
    NoRevival,
    /// A round has a result at the latest when its last call ends. Batches of cleanup are rounds, too.
    OneResult,
    /// A release reports what has happened.
    ReleaseOutcome,
    /// A lease is reported as revoked only if a quorum has denied an extension.
    Revocation,
    /// No node is refilled before a quorum has extended the lease.
    RefillFollowsQuorum,
    /// No two leases have the same token.
    Unique,
    /// A token is greater than those of all leases that were received before its attempt began.
    Increasing,
    /// No extension succeeds if it began after a newer token was received.
    NoLateExtension,
    /// A quorum of counters is at least as great as each token that was received.
    CountersCover,
    /// No false counter becomes a token, or the counter of a node. Such a number would use up the range of tokens.
    Bounded,
}

impl Property {
    pub(super) const ALL: &[Self] = &[
        Self::Exclusion,
        Self::NoTrespass,
        Self::CountedKeysExist,
        Self::Quorum,
        Self::NothingLeftBehind,
        Self::NoRevival,
        Self::OneResult,
        Self::ReleaseOutcome,
        Self::Revocation,
        Self::RefillFollowsQuorum,
        Self::Unique,
        Self::Increasing,
        Self::NoLateExtension,
        Self::CountersCover,
        Self::Bounded,
    ];

    /// Returns true if the property holds even where keys vanish. It is one of fencing tokens then.
    fn is_of_tokens(self) -> bool {
        matches!(
            self,
            Self::Quorum
                | Self::RefillFollowsQuorum
                | Self::Unique
                | Self::Increasing
                | Self::NoLateExtension
                | Self::CountersCover
                | Self::Bounded
        )
    }

    pub(super) fn holds(self, world: &World) -> bool {
        let seen = &world.seen;
        match self {
            _ if world.scope.keys == Keys::Forgotten && !self.is_of_tokens() => true,
            Self::Exclusion => {
                valid(world).count() <= 1 || valid(world).all(|client| world.scope.readers[client])
            }
            Self::NoTrespass => !seen.trespassed,
            Self::CountedKeysExist => valid(world).all(|client| counted_keys_exist(world, client)),
            Self::Quorum => !seen.no_quorum,
            Self::NothingLeftBehind => (0..CLIENTS).all(|client| nothing_left_behind(world, client)),
            Self::NoRevival => !seen.revived,
            Self::OneResult => !seen.no_result,
            Self::ReleaseOutcome => !seen.wrong_release,
            Self::Revocation => !seen.wrong_loss,
            Self::RefillFollowsQuorum => !seen.early_refill,
            Self::Unique => !seen.same_token,
            Self::Increasing => !seen.decreasing,
            Self::NoLateExtension => !seen.late_extension,
            Self::Bounded => {
                let counters = world.nodes.iter().map(|node| node.counter);
                counters.chain(world.tokens.iter().copied()).all(|number| number < FAR)
            }
            Self::CountersCover => world.tokens.iter().all(|token| counters_cover(world, *token)),
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Returns the clients that have a valid lease.
fn valid(world: &World) -> impl Iterator<Item = usize> {
    let has = |client: &usize| {
        let own = &world.clients[*client];
        own.attempts.last().is_some_and(|last| is_valid(own, last))
    };
    (0..CLIENTS).filter(has)
}

fn counted_keys_exist(world: &World, client: usize) -> bool {
    let own = &world.clients[client];
    let Some(last) = own.attempts.last() else { return true };
    let is_own = |key: &Key| (usize::from(key.client), key.attempt) == (client, own.last());
    let counted = (0..NODES).filter(|node| last.counted & 1 << node != 0);
    counted.into_iter().all(|node| world.nodes[node].keys.iter().any(is_own))
}

fn nothing_left_behind(world: &World, client: usize) -> bool {
    let ended = world.clients[client].attempts.iter().enumerate();
    ended.filter(|(_, attempt)| attempt.phase == Phase::Ended).all(|(number, attempt)| {
        world.nodes.iter().all(|node| {
            let is_own = |key: &Key| {
                (usize::from(key.client), usize::from(key.attempt), key.by_copy) == (client, number, false)
            };
            let of = |message: &&Message| {
                (usize::from(message.client), usize::from(message.attempt)) == (client, number)
            };
            let mut own = node.messages.iter().filter(of);
            let to_come = |message: &Message| message.is_write() && message.is_to_come() && !message.is_copy;
            let may_be_there = node.keys.iter().any(is_own) || own.clone().any(to_come);
            !may_be_there || own.any(|message| is_cleaned_up(attempt, message))
        })
    })
}

/// Returns true if a release of the claim follows this call, or is it.
fn is_cleaned_up(attempt: &Attempt, message: &Message) -> bool {
    // An attempt that is lost releases its claim when the call has ended.
    let awaits =
        attempt.acquire.is_some() && attempt.release.is_none() && matches!(message.call, Call::Acquire(_));
    let is_lost = attempt.record.term().1.is_none();
    message.is_open() && (message.is_release() || awaits && is_lost)
}

fn counters_cover(world: &World, token: u64) -> bool {
    world.nodes.iter().filter(|node| node.counter >= token).count() >= QUORUM as usize
}
