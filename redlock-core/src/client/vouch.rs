//! Vouching: an operator asserts that a server has lost no lock.

use std::sync::Arc;

use crate::drive::{Responder, drive};
use crate::inner::Inner;
use crate::node::{NodeErrorKind, Request};
use crate::protocol::call::Call;
use crate::protocol::fan_out::Calls;
use crate::types::error::{Error, ErrorKind};
use crate::types::report::Outcome;

pub(crate) async fn vouch(inner: &Arc<Inner>, index: usize) -> Result<(), Error> {
    if index >= inner.peers.len() {
        let nodes = inner.peers.len();
        return Err(Error::invalid(format!("there is no node {index}; the last one is {}", nodes - 1)));
    }
    drive(inner, |responder| run(Arc::clone(inner), index, responder)).await
}

async fn run(inner: Arc<Inner>, index: usize, responder: Responder<Result<(), Error>>) {
    let peer = &inner.peers[index];
    let call = [Call::new(peer, Request::Vouch)];
    let limit = inner.settings.node_timeout;
    let mut calls = Calls::new(&*inner.runtime, inner.now(), limit, call.into_iter());
    let (kind, cause) = match calls.next().await {
        Some((_, Outcome::Granted)) => {
            responder.send(Ok(()));
            return;
        }
        Some((_, Outcome::Failed(error))) if error.kind() == NodeErrorKind::Unsupported => {
            (ErrorKind::Unsupported, error.to_string())
        }
        Some((_, Outcome::Failed(error))) => (ErrorKind::NoQuorum, error.to_string()),
        _ => (ErrorKind::NoQuorum, format!("timed out after {limit:.1?}")),
    };
    let message = format!("cannot vouch for node {index} ({}): {cause}", peer.node.label());
    responder.send(Err(Error::new(kind, message)));
}
