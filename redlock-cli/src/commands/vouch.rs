//! `redlock vouch`: an operator asserts that servers have lost no lock.

use redlock_redis_rs::{Health, NodeHealth};

use super::{print, with_redlock};
use crate::args::{Shared, Vouch};
use crate::exit::Failure;
use crate::messages::Messages;
use crate::request;

/// Ends the quarantine of the named servers. Returns the exit code.
pub(crate) fn vouch(args: &Vouch, shared: &Shared) -> Result<u8, Failure> {
    let messages = Messages::new(shared.quiet, shared.verbose);
    let result = with_redlock(shared, async |redlock, servers| {
        if !servers.have_quarantines() {
            let fix = "set --longest-ttl or REDLOCK_LONGEST_TTL as in all programs";
            return Err(Failure::config(format!("a quarantine needs the longest TTL: {fix}")));
        }
        let health = redlock.health().await;
        let nodes = args.servers.iter().map(|server| find(&health, server)).collect::<Result<Vec<_>, _>>()?;
        for node in nodes {
            let label = node.label();
            if node.is_healthy() {
                messages.note(&format!("{label} is not in quarantine"));
                continue;
            }
            messages.warn(&warning(label));
            redlock.vouch(node.index()).await.map_err(|error| request::failure(&error))?;
            if !shared.quiet {
                print(&format!("ended the quarantine of {label}"))?;
            }
        }
        Ok(0)
    });
    messages.flush();
    result
}

/// Returns the node with this label.
fn find<'a>(health: &'a Health, server: &str) -> Result<&'a NodeHealth, Failure> {
    let nodes = health.nodes();
    nodes.iter().find(|node| node.label() == server).ok_or_else(|| {
        let labels = nodes.iter().map(NodeHealth::label).collect::<Vec<_>>().join(", ");
        Failure::usage(format!("there is no server {server:?} among {labels}"))
    })
}

/// Returns the assertion of the operator.
fn warning(label: &str) -> String {
    format!(
        "you assert that {label} has lost no lock; if it has, two clients may hold the same lock from now on"
    )
}
