//! A separate model of the fencing rule over a quorum, with every interleaving.
//!
//! Locks and tokens need different assumptions, so they have different models. Mutual exclusion requires clocks with
//! little drift, and keys that exist until their TTL ends. Tokens require neither. Here a key may be lost on any node
//! at any moment, and every client relies on its lease for any time. The only questions are whether tokens are unique
//! (I2), increase (I3), and supersede older leases (I4). See [`Property`].
//!
//! ```
//! use redlock_model::{Rule, explore};
//! use redlock_model::fence::{Counters, Extensions, Fencing, Scope};
//!
//! let scope = Scope {
//!     nodes: 3,
//!     attempts: 2,
//!     counters: Counters::Any,
//!     extensions: Extensions::Behind,
//!     forgets: false,
//!     lies: false,
//! };
//! let exploration = explore(Fencing::new(scope));
//! assert!(exploration.violation.is_none() && exploration.states > 10_000);
//! ```
//!
//! # The rule
//!
//! Each node has the key and a counter F.
//!
//! - *Acquire*: if another token has the key, the node denies. If this token has it already, the node replies with F
//!   and writes nothing. Otherwise the node sets the key, raises F and replies with F.
//! - *Grant*: m is the greatest reply at the moment when a quorum has granted. If all of these replies are m, the
//!   attempt is granted. Otherwise it is granted when a quorum has confirmed m.
//! - *Confirm*: a node counts only if this token has the key and F <= m. Then F becomes m. An extension is a confirm on
//!   a quorum.
//! - *Refill*: sets a missing key if F <= m. Then F becomes m.
//!
//! No operation lowers F.
//!
//! With [`Scope::lies`] the first node may reply to an acquire with a counter far from all others, independent of its
//! own. Such a reply does not count: m is the greatest of a quorum of the other replies. The node may still confirm.
//!
//! # Why it holds
//!
//! F never falls, and a grant of m leaves F >= m on a quorum. An attempt that starts later receives a reply from one of
//! these nodes, so its token is above m: I3. A later round that extends an older token is denied by each of these
//! nodes, and the others are no quorum: I4.
//!
//! For I2, let A and B be granted the same m. Some node counted for both grants, say first for that of A. F was m at
//! both moments, so it was m between them. The key of B was set in between. An acquire would have raised F, so a refill
//! set it. But refills follow the grant, and that node counted before it.
//!
//! A reply that does not count changes none of this: a quorum of replies is left, none of which is above m.
//!
//! # Reduction of the states
//!
//! A state is much smaller than the situations that it represents. No interleaving is lost.
//!
//! - *Requests* are not part of the state. A request that was sent may be carried out at any time, never, or any number
//!   of times, even long after its attempt has ended. Thus delays, losses and repetitions are unbounded.
//! - *Release, expiry and loss* of a key are one step, the removal of the key. A release deletes at most a key that
//!   could have been removed anyway.
//! - *Failed and dropped attempts* are not part of the state if no quorum has replied. Others see only a key that
//!   exists for a while, which makes nodes deny, and a higher counter. An attempt that is dropped later receives no
//!   more replies. Plain locks behave the same, without the counter.
//! - *A reply* is received at once or never, and its decision is made at once. A later arrival changes nothing on any
//!   node. A grant that returns earlier is newer for more attempts and extensions, so the properties demand more of
//!   them. Other replies of the node in between could have been sent before or after.
//! - *A confirmation* is always received by an open round, since it only helps the attempt.
//! - *Refills* may follow as soon as the grant has returned, not only after an extension.
//! - *Counters* in [`Counters::Any`] have an order and no size, so their number is finite without a bound. This covers
//!   failed attempts and the coarse time of the nodes, for any clocks.
//! - *Attempts without any further effect* make room for others with [`Scope::forgets`]. Then their total number is
//!   unbounded, and only the number of those that matter at once is bounded.
//!
//! Tests verify the last two items: every state reached with numbers, and by more attempts, is also reached with ranks,
//! and by fewer attempts.
//!
//! # Omissions
//!
//! - Lost and expired counters, and the coarse time that replaces them. They depend on durations, so the random engine
//!   covers them.
//! - Several resources: one token is raised on each of them, which adds checks but no rule.
//! - Exhausted counters.
//! - Reports of supersession, which are replies that do not count.
//! - Validity, cleanup and waiting, which do not involve tokens.

mod attempt;
mod description;
mod forget;
mod property;
mod protocol;
mod rank;
mod rule;
mod same;
mod scope;
mod state;
mod step;
mod variant;

use crate::catalog::Explored;
pub use crate::fence::property::Property;
pub use crate::fence::protocol::Fencing;
pub use crate::fence::scope::{Counters, Extensions, SCOPES, Scope};
pub use crate::fence::state::State;
pub use crate::fence::step::Step;
pub use crate::fence::variant::{CATALOG, HARMLESS, Variant};

/// The explorations of this model.
pub const EXPLORED: Explored<Fencing> =
    Explored { title: "The fencing rule", scopes: SCOPES, broken: CATALOG, holes: &[], harmless: HARMLESS };
