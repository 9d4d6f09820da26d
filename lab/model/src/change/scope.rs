//! The scope of an exploration of a change of the nodes.

use std::fmt;

/// The maximum number of clients.
pub(crate) const CLIENTS: usize = 3;

/// The maximum number of nodes of both lists.
pub(crate) const NODES: usize = 6;

/// The bounds of an exploration. Within them, every interleaving is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The lists before and after the change.
    pub lists: Lists,
    /// The program of each client. Each client makes one attempt.
    pub programs: [Program; CLIENTS],
    /// The maximum number of extensions of each lease, up to two.
    pub extensions: [u8; CLIENTS],
    /// The maximum number of faults: a call that ends without its reply, a request that arrives twice.
    pub faults: u8,
    /// The maximum number of keys that nodes lose.
    pub losses: u8,
}

/// The node lists before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lists {
    pub(crate) old: List,
    pub(crate) new: List,
}

/// Nodes as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List(u8);

/// The node lists of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// There is no such client.
    Absent,
    /// Step 1 of the change: the old list.
    Old,
    /// Step 2: both lists.
    Both,
    /// Step 3: the new list.
    New,
}

impl Lists {
    /// Creates the lists of a change.
    ///
    /// # Panics
    ///
    /// Panics if a list is empty, or a node is not below 6.
    #[must_use]
    pub const fn new(old: &[usize], new: &[usize]) -> Self {
        Self { old: List::new(old), new: List::new(new) }
    }

    /// Returns whether a client has a node.
    pub(crate) fn has(self, program: Program, node: usize) -> bool {
        match program {
            Program::Absent => false,
            Program::Old => self.old.contains(node),
            Program::Both => self.old.contains(node) || self.new.contains(node),
            Program::New => self.new.contains(node),
        }
    }
}

impl List {
    const fn new(nodes: &[usize]) -> Self {
        assert!(!nodes.is_empty(), "the list is empty");
        let (mut bits, mut position) = (0, 0);
        while position < nodes.len() {
            assert!(nodes[position] < NODES, "too many nodes");
            bits |= 1 << nodes[position];
            position += 1;
        }
        Self(bits)
    }

    /// Returns the nodes of both lists as one list.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn contains(self, node: usize) -> bool {
        self.0 >> node & 1 == 1
    }

    pub(crate) fn nodes(self) -> impl Iterator<Item = usize> {
        (0..NODES).filter(move |node| self.contains(*node))
    }

    /// Returns the number of nodes that must agree.
    pub(crate) fn quorum(self) -> usize {
        self.nodes().count() / 2 + 1
    }
}

/// Formats the scope like `0,1,2 to 2,3,4, steps 1+2, extensions 1+0, faults 0, losses 0`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lists { old, new } = self.lists;
        let present = || (0..CLIENTS).filter(|client| self.programs[*client] != Program::Absent);
        let steps: Vec<_> = present().map(|client| (self.programs[client] as u8).to_string()).collect();
        let extensions: Vec<_> = present().map(|client| self.extensions[client].to_string()).collect();
        write!(f, "{old} to {new}, steps {}, extensions {}, ", steps.join("+"), extensions.join("+"))?;
        write!(f, "faults {}, losses {}", self.faults, self.losses)
    }
}

/// Formats the nodes like `0,1,2`.
impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.nodes().map(|node| node.to_string()).collect::<Vec<_>>().join(","))
    }
}

/// From one node to three.
pub(crate) const ONE_TO_THREE: Lists = Lists::new(&[0], &[0, 1, 2]);

/// From three nodes to five.
pub(crate) const THREE_TO_FIVE: Lists = Lists::new(&[0, 1, 2], &[0, 1, 2, 3, 4]);

/// Another node for one of three.
pub(crate) const ONE_EXCHANGED: Lists = Lists::new(&[0, 1, 2], &[0, 1, 3]);

/// Two other nodes for two of three.
pub(crate) const TWO_EXCHANGED: Lists = Lists::new(&[0, 1, 2], &[2, 3, 4]);

/// Three other nodes.
pub(crate) const ALL_EXCHANGED: Lists = Lists::new(&[0, 1, 2], &[3, 4, 5]);

pub(crate) const STEPS_1_AND_2: [Program; CLIENTS] = [Program::Old, Program::Both, Program::Absent];

pub(crate) const STEPS_2_AND_3: [Program; CLIENTS] = [Program::Both, Program::New, Program::Absent];

const STEP_2: [Program; CLIENTS] = [Program::Both, Program::Both, Program::Absent];

const ALL_STEPS: [Program; CLIENTS] = [Program::Old, Program::Both, Program::New];

impl Scope {
    /// Creates a scope without extensions, faults and losses.
    pub(crate) const fn plain(lists: Lists, programs: [Program; CLIENTS]) -> Self {
        Self { lists, programs, extensions: [0; CLIENTS], faults: 0, losses: 0 }
    }

    const fn extensions(self, extensions: [u8; CLIENTS]) -> Self {
        Self { extensions, ..self }
    }

    const fn faults(self, faults: u8) -> Self {
        Self { faults, ..self }
    }

    const fn losses(self, losses: u8) -> Self {
        Self { losses, ..self }
    }
}

/// The largest scopes that take only minutes.
///
/// A change back has the same quorums, so the first steps of one are the last steps of the other.
pub const SCOPES: &[Scope] = &[
    Scope::plain(ONE_TO_THREE, ALL_STEPS).faults(1).losses(1),
    Scope::plain(ONE_TO_THREE, ALL_STEPS).extensions([1; 3]),
    Scope::plain(ONE_EXCHANGED, ALL_STEPS),
    Scope::plain(ONE_EXCHANGED, STEPS_1_AND_2).faults(1).losses(1),
    Scope::plain(ONE_EXCHANGED, STEPS_1_AND_2).extensions([1, 1, 0]),
    Scope::plain(TWO_EXCHANGED, ALL_STEPS),
    Scope::plain(TWO_EXCHANGED, STEP_2).losses(1),
    Scope::plain(TWO_EXCHANGED, STEPS_1_AND_2).faults(1).losses(1),
    Scope::plain(TWO_EXCHANGED, STEPS_1_AND_2).extensions([0, 1, 0]).losses(1),
    Scope::plain(THREE_TO_FIVE, ALL_STEPS),
    Scope::plain(THREE_TO_FIVE, STEPS_1_AND_2).faults(1).losses(1),
    Scope::plain(THREE_TO_FIVE, STEPS_1_AND_2).extensions([1, 1, 0]),
    Scope::plain(THREE_TO_FIVE, STEPS_2_AND_3).faults(1).losses(1),
    Scope::plain(THREE_TO_FIVE, STEPS_2_AND_3).extensions([1, 0, 0]),
    Scope::plain(ALL_EXCHANGED, ALL_STEPS),
    Scope::plain(ALL_EXCHANGED, STEPS_1_AND_2).faults(1).losses(1),
    Scope::plain(ALL_EXCHANGED, STEPS_1_AND_2).extensions([0, 1, 0]),
];
