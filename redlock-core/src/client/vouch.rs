//! Vouching: an operator asserts that a server has lost no lock.

use std::sync::Arc;

use tracing::Span;

use crate::node::NodeErrorKind;
use crate::round::engine::run;
use crate::round::nodes::Nodes;
use crate::round::vouch::Vouch;
use crate::types::error::{Error, ErrorKind};
use crate::types::report::Outcome;

pub(crate) async fn vouch(nodes: &Arc<Nodes>, index: usize) -> Result<(), Error> {
    if index >= nodes.peers.len() {
        let last = nodes.peers.len() - 1;
        return Err(Error::invalid(format!("there is no node {index}; the last one is {last}")));
    }
    let limit = nodes.rules.node_timeout;
    let (kind, cause) = match run(nodes, Vouch::new(index), nodes.now(), limit, Span::none()).await {
        Outcome::Granted => return Ok(()),
        Outcome::Failed(error) if error.kind() == NodeErrorKind::Unsupported => {
            (ErrorKind::Unsupported, error.to_string())
        }
        Outcome::Failed(error) => (ErrorKind::NoQuorum, error.to_string()),
        _ => (ErrorKind::NoQuorum, format!("timed out after {limit:.1?}")),
    };
    let message = format!("cannot vouch for node {index} ({}): {cause}", nodes.label(index));
    Err(Error::new(kind, message))
}
