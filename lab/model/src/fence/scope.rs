//! How much of the fencing rule an exploration covers.

use std::fmt;

/// How many nodes there is room for.
pub(crate) const MOST_NODES: usize = 5;

/// How many attempts there is room for.
pub(crate) const MOST_ATTEMPTS: usize = 4;

/// The bounds of an exploration: within them, every interleaving is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// How many nodes there are, up to five.
    pub nodes: usize,
    /// How many attempts hear from a quorum, up to four, each of a client of its own or not, and all at once if it comes
    /// to that. Attempts that come to nothing are not counted: there may be any number.
    pub attempts: usize,
    /// What counters count to.
    pub counters: Counters,
    /// Whether holders extend.
    pub extensions: Extensions,
    /// An attempt that can do nothing any more makes room for another: `attempts` bounds how many matter at once, and
    /// nothing bounds how many there are. For the sound rule with [`Counters::Any`] alone.
    pub forgets: bool,
    /// The first node answers acquires with a counter far above all others whenever it likes. With [`Counters::UpTo`]
    /// alone.
    pub lies: bool,
}

/// What counters count to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counters {
    /// They grow by one, up to a bound.
    UpTo(u8),
    /// They grow by as much as they like, and only their order is looked at. This is what attempts that come to nothing
    /// and the nodes' clocks do to them, and it is finite without a bound.
    Any,
}

/// The counter that a node lies about: further from every other than the bound within which counters vote.
pub(crate) const FAR: u8 = 14;

/// Whether holders extend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extensions {
    /// They do not, and refill nothing.
    None,
    /// They begin to when a newer grant has returned: what must never succeed. Confirms and refills of earlier rounds are
    /// carried out at any time.
    Behind,
    /// They begin to at any time.
    Any,
}

impl Scope {
    pub(crate) fn quorum(self) -> usize {
        self.nodes / 2 + 1
    }
}

/// `3 nodes, 2 attempts, any counters, extensions`
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, attempts, .. } = self;
        let at_once = if self.forgets { " at once" } else { "" };
        write!(f, "{nodes} nodes, {attempts} attempts{at_once}, ")?;
        match self.counters {
            Counters::UpTo(bound) => write!(f, "counters up to {bound}")?,
            Counters::Any => f.write_str("any counters")?,
        }
        f.write_str(match self.extensions {
            Extensions::None => ", no extensions",
            Extensions::Behind => ", extensions",
            Extensions::Any => ", extensions at any time",
        })?;
        f.write_str(if self.lies { ", one lying counter" } else { "" })
    }
}
