//! A state of the world under the fencing rule: the nodes, and the attempts with what they have heard.
//!
//! Requests are not in it. What an attempt has sent may be carried out at any time from then on, any number of times or
//! never: what it has sent follows from its phase.

use crate::fence::scope::{MOST_ATTEMPTS, MOST_NODES};

/// Everything, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(crate) nodes: [Node; MOST_NODES],
    pub(crate) attempts: [Attempt; MOST_ATTEMPTS],
    /// The newest token of the grants that were forgotten.
    pub(crate) forgotten: Option<u8>,
    /// Which properties were violated on the way, a bit each.
    pub(crate) violated: u8,
}

/// A node, as to the one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Which attempt's key stands.
    pub(crate) key: Option<u8>,
    /// F.
    pub(crate) counter: u8,
}

/// An attempt, and the lease that has become of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) phase: Phase,
    /// While it asks the highest answer that it has heard, and then m.
    pub(crate) token: u8,
    /// The newest token that had been granted when it began. Forgotten when it can no longer make a difference.
    pub(crate) floor: Option<u8>,
    /// The nodes that it has heard from in the round that is open, as bits: those that answered, then those that counted.
    pub(crate) heard: u8,
    /// Of those that answered, the ones that gave the highest answer, as bits.
    pub(crate) highest: u8,
    pub(crate) round: Round,
    /// It has heard a counter that is far from all others, and given it no vote.
    pub(crate) outlier: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has not begun.
    #[default]
    None,
    /// It asks all nodes.
    Asking,
    /// A quorum has granted, and m is being confirmed.
    Confirming,
    /// It was granted: its client may believe in it for as long as it likes.
    Granted,
}

/// A round that extends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Round {
    /// None is open.
    #[default]
    None,
    /// It began when no newer grant had returned.
    InTime,
    /// It began after one had.
    Behind,
    /// None had, but fewer than a quorum of nodes had F <= m when it began.
    Hopeless,
}

impl Attempt {
    /// Whether it has its m.
    pub(crate) fn is_decided(self) -> bool {
        matches!(self.phase, Phase::Confirming | Phase::Granted)
    }

    pub(crate) fn has_heard(self, node: usize) -> bool {
        self.heard & 1 << node != 0
    }
}

impl State {
    /// The newest token of the grants that have returned.
    pub(crate) fn newest(&self) -> Option<u8> {
        let granted = self.attempts.iter().filter(|attempt| attempt.phase == Phase::Granted);
        granted.map(|attempt| attempt.token).max().max(self.forgotten)
    }
}

/// What can be seen of a state, for tests that compare it with something else.
impl State {
    /// Which attempt's key stands on a node, if one's does.
    pub fn key_on(&self, node: usize) -> Option<usize> {
        self.nodes[node].key.map(usize::from)
    }

    /// F on a node.
    pub fn counter_on(&self, node: usize) -> u8 {
        self.nodes[node].counter
    }

    /// The token that an attempt was granted, if it was.
    pub fn granted(&self, attempt: usize) -> Option<u8> {
        let is = self.attempts[attempt];
        (is.phase == Phase::Granted).then_some(is.token)
    }
}
