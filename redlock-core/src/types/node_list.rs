//! The difference between the node lists of two programs.

use std::fmt;

/// Another program lists other nodes for the same locks, so that both can hold one lock.
///
/// Nodes are compared by the identities of their servers. Names, addresses, their order and the adapter do not matter.
/// See [`Builder::compare_node_lists`](crate::Builder::compare_node_lists).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NodeListDifference {
    #[cfg_attr(feature = "serde", serde(rename = "own_nodes"))]
    own: usize,
    #[cfg_attr(feature = "serde", serde(rename = "other_nodes"))]
    other: usize,
    #[cfg_attr(feature = "serde", serde(rename = "common_nodes"))]
    common: usize,
    #[cfg_attr(feature = "serde", serde(rename = "between_other_programs"))]
    is_between_others: bool,
}

impl NodeListDifference {
    pub(crate) fn new(own: usize, other: usize, common: usize) -> Self {
        Self { own, other, common, is_between_others: false }
    }

    /// Returns the same difference as one between two other programs. This program has both lists.
    pub(crate) fn between_others(self) -> Self {
        Self { is_between_others: true, ..self }
    }

    /// Returns whether this program has both lists, and two other programs have only one of them each.
    ///
    /// It happens during a [change of the nodes](crate::Builder::previous_nodes), if a program with only the new list
    /// starts before the last one with only the old list has ended. The lists are then [`nodes`](crate::Builder::nodes)
    /// and [`previous_nodes`](crate::Builder::previous_nodes) of this program. An announcement of a program that was
    /// killed counts for 30 s.
    ///
    /// ```
    /// # use redlock_core::NodeListDifference;
    /// fn advice(difference: &NodeListDifference) -> &'static str {
    ///     if difference.is_between_others() { "finish step 2 first" } else { "correct a list" }
    /// }
    /// ```
    pub fn is_between_others(&self) -> bool {
        self.is_between_others
    }

    /// Returns the number of nodes that this program lists.
    ///
    /// ```
    /// # use redlock_core::NodeListDifference;
    /// fn page(difference: &NodeListDifference) -> String {
    ///     format!("{} nodes here, {} elsewhere", difference.own_nodes(), difference.other_nodes())
    /// }
    /// ```
    pub fn own_nodes(&self) -> usize {
        self.own
    }

    /// Returns the number of nodes that the other program lists.
    ///
    /// ```
    /// # use redlock_core::NodeListDifference;
    /// fn has_same_number(difference: &NodeListDifference) -> bool {
    ///     difference.own_nodes() == difference.other_nodes()
    /// }
    /// ```
    pub fn other_nodes(&self) -> usize {
        self.other
    }

    /// Returns the number of nodes that are known to be in both lists.
    ///
    /// ```
    /// # use redlock_core::NodeListDifference;
    /// // The other program may lock the same resources on servers of its own.
    /// fn is_another_system(difference: &NodeListDifference) -> bool {
    ///     difference.common_nodes() <= difference.own_nodes() / 2
    /// }
    /// ```
    pub fn common_nodes(&self) -> usize {
        self.common
    }
}

/// Formats as `this program lists 3 nodes, another lists 5, 1 in common`.
impl fmt::Display for NodeListDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, other, common, is_between_others } = self;
        let common = if *common == 0 { "none".to_owned() } else { common.to_string() };
        if *is_between_others {
            return write!(
                f,
                "one program lists only the new nodes ({own}), another only the previous ones ({other}), {common} in common"
            );
        }
        let nodes = if *own == 1 { "node" } else { "nodes" };
        write!(f, "this program lists {own} {nodes}, another lists {other}, {common} in common")
    }
}
