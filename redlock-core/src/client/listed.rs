//! The nodes of a client, from its node lists.

use std::sync::Arc;

use crate::decide::quorums::{MAX_NODES_OF_TWO_LISTS, Quorums};
use crate::node::LockNode;
use crate::types::error::Error;

/// Returns each node once, and the rule for the lists.
///
/// A node is in both lists if its label is. Its backend in the list of nodes is used.
pub(super) fn listed(
    mut nodes: Vec<Arc<dyn LockNode>>,
    previous: Option<Vec<Arc<dyn LockNode>>>,
) -> Result<(Vec<Arc<dyn LockNode>>, Quorums), Error> {
    if nodes.is_empty() {
        return Err(Error::invalid("no nodes were given; a lock needs at least one"));
    }
    check(&nodes, "node")?;
    let Some(previous) = previous else {
        let quorums = Quorums::of(nodes.len());
        return Ok((nodes, quorums));
    };
    if previous.is_empty() {
        return Err(Error::invalid(
            "no previous nodes were given; leave them out if the nodes do not change",
        ));
    }
    check(&previous, "previous node")?;
    let current = nodes.len();
    let mut positions = Vec::with_capacity(previous.len());
    for node in previous {
        let known = nodes[..current].iter().position(|other| other.label() == node.label());
        positions.push(known.unwrap_or(nodes.len()));
        if known.is_none() {
            nodes.push(node);
        }
    }
    if nodes.len() > MAX_NODES_OF_TWO_LISTS {
        let all = nodes.len();
        return Err(Error::invalid(format!(
            "{all} nodes with the previous ones; the maximum is {MAX_NODES_OF_TWO_LISTS}"
        )));
    }
    Ok((nodes, Quorums::of_change(current, &positions)))
}

/// Checks the labels of one list. `kind` is a word for each of its nodes.
fn check(nodes: &[Arc<dyn LockNode>], kind: &str) -> Result<(), Error> {
    for (index, node) in nodes.iter().enumerate() {
        let label = node.label();
        if label.contains(char::is_control) {
            return Err(Error::invalid(format!(
                "the label {label:?} of {kind} {index} has a control character"
            )));
        }
        if let Some(first) = nodes[..index].iter().position(|other| other.label() == label) {
            return Err(Error::invalid(format!("{kind}s {first} and {index} are the same server: {label}")));
        }
    }
    Ok(())
}
