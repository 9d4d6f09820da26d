//! The fencing rule over a quorum: every interleaving, in a model of its own.
//!
//! Locks and tokens do not need the same assumptions, so they do not share a model. Exclusion needs clocks that drift
//! little and keys that stand as long as they are promised to. Tokens need neither: here a key may go at any moment on any
//! node, every client believes in its lease for as long as it likes, and what is asked is only whether tokens are unique
//! (I2), grow (I3), and end the older leases (I4). See [`Property`] for the words.
//!
//! ```
//! use redlock_model::explore;
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
//! Each node has the key and a counter F. *Acquire*: held by another, refused; held by this very token, answers F and
//! writes nothing; else sets the key, raises F, answers F. m is the highest answer at the moment a quorum has granted. If
//! all of these answers are m, it is granted; else when a quorum has *confirmed* it: a node counts only if the key is ours
//! and F <= m, and F becomes m. To extend is to confirm on a quorum. A *refill* sets a missing key if F <= m, and F
//! becomes m. Nothing lowers F.
//!
//! With [`Scope::lies`] the first node may answer an acquire with a counter that is far from all others, whatever its own
//! is. Such an answer gets no vote: m is the highest of a quorum of the other answers. The node may still confirm.
//!
//! # Why it holds
//!
//! F never falls, and a grant of m leaves F >= m on a quorum. Whoever begins later hears from one of these nodes, and more
//! than m: I3. A round that extends an older token, begun later, is refused by each of them, and the others are no quorum:
//! I4. For I2, let A and B be granted the same m. Some node counted towards both grants, say first towards that of A. F was
//! m at both moments, so it was m between them, and between them B's key came. An acquire would have raised F, so it was
//! a refill; but refills come after the grant, and that node counted before it.
//!
//! An answer that gets no vote changes none of this: what is left is a quorum of answers, of which none is above m.
//!
//! # What stands for what
//!
//! A state is much smaller than what it stands for; no interleaving is lost.
//!
//! - *Requests* are not in the state. What was sent may be carried out at any time from then on, never, or any number of
//!   times, also when its attempt has ended long ago. So nothing is bounded here: not delays, losses or repetitions.
//! - *Releases, expiry and loss* of a key are one step: the key goes. A release deletes at most what might have gone anyway.
//! - *Attempts that are lost, or given up* before a quorum has answered are not in the state either. All that others see of
//!   them is a key that stands for a while, which only makes nodes refuse, and a counter that is higher than it was. An
//!   attempt that is given up later is one whose answers are not heard any more. Plain locks are the same without the
//!   counter.
//! - *An answer* is heard at once or never, and what it decides is decided at once. To hear later changes nothing on any
//!   node; and a grant that returns earlier is newer for more attempts and more extensions, so more is asked of them.
//!   What a node answers in between to others it could have answered before or after.
//! - *A node that counts* is always heard by a round that is open: that only helps whoever wants to be granted.
//! - *Refills* may come as soon as the grant has returned, not only after a round that extends.
//! - *Counters* in [`Counters::Any`] have an order and no size, which makes their number finite without a bound: what
//!   attempts that come to nothing do to them, and the nodes' coarse time, whatever their clocks say.
//! - *Attempts that can do nothing any more* make room for others with [`Scope::forgets`]: then nothing bounds how many
//!   there are, but only how many matter at once.
//!
//! That the last two leave nothing out is a test: what is reached with numbers, and by more attempts, is among the states
//! that are reached with ranks, and by fewer.
//!
//! # What is left out
//!
//! Counters that are lost or expire, and the coarse time that makes up for it (a matter of how long, so of the random
//! engine); several resources (one token, raised on each: more checks, no other rule); a counter at its end; who may tell
//! whom that it is superseded (an answer that counts nowhere); validity, chases and waiting, of which tokens know nothing.

mod attempt;
mod forget;
mod property;
mod protocol;
mod rank;
mod rule;
mod same;
mod scope;
mod state;
mod step;
mod story;
mod variant;

pub use crate::fence::property::Property;
pub use crate::fence::protocol::Fencing;
pub use crate::fence::scope::{Counters, Extensions, Scope};
pub use crate::fence::state::State;
pub use crate::fence::step::Step;
pub use crate::fence::variant::{Broken, CATALOGUE, HARMLESS, Variant};
