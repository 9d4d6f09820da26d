//! A state of the world under the fencing rule: the nodes, and the attempts with the replies they have received.
//!
//! Requests are not part of it. A request of an attempt may be carried out at any time after it was sent, any number of
//! times or never. The requests of an attempt follow from its phase.

use crate::fence::scope::{MOST_ATTEMPTS, MOST_NODES};

/// A complete state of the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(crate) nodes: [Node; MOST_NODES],
    pub(crate) attempts: [Attempt; MOST_ATTEMPTS],
    /// The newest token of the forgotten grants.
    pub(crate) forgotten: Option<u8>,
    /// The properties violated so far, one bit each.
    pub(crate) violated: u8,
}

/// A node, with respect to the one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// The attempt that owns the key, if the key exists.
    pub(crate) key: Option<u8>,
    /// The counter F.
    pub(crate) counter: u8,
}

/// An attempt, and the lease that results from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) phase: Phase,
    /// The greatest counter received while acquiring; m afterwards.
    pub(crate) token: u8,
    /// The newest token granted before the attempt started. It is dropped when it can no longer matter.
    pub(crate) floor: Option<u8>,
    /// The nodes that replied in the open round, as bits: to the acquire first, then to the confirm.
    pub(crate) received: u8,
    /// The nodes that replied with the greatest counter, as bits.
    pub(crate) highest: u8,
    pub(crate) round: Round,
    /// A received counter was far from all others and did not count.
    pub(crate) outlier: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The attempt has not started.
    #[default]
    None,
    /// The acquires are sent to all nodes.
    Acquiring,
    /// A quorum has granted, and m is being confirmed.
    Confirming,
    /// The attempt was granted. Its client may rely on the lease for any time.
    Granted,
}

/// The round of an extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Round {
    /// No round is open.
    #[default]
    None,
    /// The round started when no newer grant had returned.
    InTime,
    /// The round started after a newer grant had returned.
    Behind,
    /// No newer grant had returned, but fewer than a quorum of nodes had F <= m when the round started.
    Hopeless,
}

impl Attempt {
    /// Returns true if m is known.
    pub(crate) fn is_decided(self) -> bool {
        matches!(self.phase, Phase::Confirming | Phase::Granted)
    }

    pub(crate) fn has_received(self, node: usize) -> bool {
        self.received & 1 << node != 0
    }
}

impl State {
    /// Returns the newest token of the grants that have returned.
    pub(crate) fn newest(&self) -> Option<u8> {
        let granted = self.attempts.iter().filter(|attempt| attempt.phase == Phase::Granted);
        granted.map(|attempt| attempt.token).max().max(self.forgotten)
    }
}

/// Accessors for tests that compare a state with something else.
impl State {
    /// Returns the attempt that owns the key on a node.
    pub fn key_on(&self, node: usize) -> Option<usize> {
        self.nodes[node].key.map(usize::from)
    }

    /// Returns the counter F of a node.
    pub fn counter_on(&self, node: usize) -> u8 {
        self.nodes[node].counter
    }

    /// Returns the token that an attempt was granted.
    pub fn granted(&self, attempt: usize) -> Option<u8> {
        let is = self.attempts[attempt];
        (is.phase == Phase::Granted).then_some(is.token)
    }

    /// Returns the token of an attempt that a quorum has granted, confirmed or not.
    pub fn token(&self, attempt: usize) -> Option<u8> {
        let is = self.attempts[attempt];
        is.is_decided().then_some(is.token)
    }

    /// Returns true if an extension of an attempt is open.
    pub fn is_extending(&self, attempt: usize) -> bool {
        self.attempts[attempt].round != Round::None
    }
}
