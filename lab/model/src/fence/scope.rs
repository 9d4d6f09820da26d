//! The scope of an exploration of the fencing rule.

use std::fmt;

/// The maximum number of nodes.
pub(crate) const MOST_NODES: usize = 5;

/// The maximum number of attempts.
pub(crate) const MOST_ATTEMPTS: usize = 4;

/// The bounds of an exploration. Within them, every interleaving is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The number of nodes, up to five.
    pub nodes: usize,
    /// The number of attempts that receive replies from a quorum, up to four. They may run all at once, and belong to
    /// one client or to several. The number of failed attempts is unbounded.
    pub attempts: usize,
    /// The range of counters.
    pub counters: Counters,
    /// The extensions of holders.
    pub extensions: Extensions,
    /// True if attempts without any further effect are forgotten. Then `attempts` bounds the attempts that matter at once,
    /// and their total number is unbounded. This requires the sound rule and [`Counters::Any`].
    pub forgets: bool,
    /// True if the first node may reply to acquires with a counter far above all others. This requires
    /// [`Counters::UpTo`].
    pub lies: bool,
}

/// The range of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counters {
    /// Counters grow by one, up to a bound.
    UpTo(u8),
    /// Counters grow by any amount, and only their order is kept. This covers failed attempts and the clocks of nodes,
    /// and the number of states is finite without a bound.
    Any,
}

/// The counter in a false reply. It is further from all others than the bound within which counters count.
pub(crate) const FAR: u8 = 14;

/// The extensions of holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extensions {
    /// Holders neither extend nor refill.
    None,
    /// Holders start to extend after a newer grant has returned, which must never succeed. Confirms and refills of
    /// earlier rounds are carried out at any time.
    Behind,
    /// Holders start to extend at any time.
    Any,
}

impl Scope {
    pub(crate) fn quorum(self) -> usize {
        self.nodes / 2 + 1
    }
}

/// Formats the scope like `3 nodes, 2 attempts, any counters, extensions`.
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

const fn scope(nodes: usize, attempts: usize, extensions: Extensions) -> Scope {
    Scope { nodes, attempts, counters: Counters::Any, extensions, forgets: false, lies: false }
}

const fn any_number(scope: Scope) -> Scope {
    Scope { forgets: true, ..scope }
}

const fn up_to(bound: u8, scope: Scope) -> Scope {
    Scope { counters: Counters::UpTo(bound), ..scope }
}

const fn lying(scope: Scope) -> Scope {
    Scope { lies: true, ..scope }
}

/// The largest scopes that take only minutes.
pub const SCOPES: &[Scope] = &[
    up_to(6, scope(3, 2, Extensions::Behind)),
    up_to(4, scope(3, 3, Extensions::Behind)),
    scope(3, 2, Extensions::Any),
    scope(3, 2, Extensions::Behind),
    scope(3, 3, Extensions::Behind),
    any_number(scope(3, 2, Extensions::Behind)),
    any_number(scope(3, 3, Extensions::Behind)),
    any_number(scope(3, 4, Extensions::Behind)),
    scope(4, 2, Extensions::None),
    scope(4, 2, Extensions::Behind),
    any_number(scope(4, 2, Extensions::Behind)),
    lying(up_to(6, scope(3, 2, Extensions::Behind))),
    lying(up_to(4, scope(3, 2, Extensions::Any))),
    lying(up_to(4, scope(3, 3, Extensions::Behind))),
];
