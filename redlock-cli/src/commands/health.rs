//! `redlock health`: whether enough servers could grant a lock.

use redlock_redis_rs::{Health, NodeHealth};

use super::{print, with_redlock};
use crate::args;
use crate::args::Shared;
use crate::exit::{Code, Failure};

/// Checks the servers. Returns the exit code.
pub(crate) fn health(args: &args::Health, shared: &Shared) -> Result<u8, Failure> {
    let quiet = shared.quiet;
    with_redlock(shared, async |redlock, _| {
        if !args.observe.is_zero() {
            // Connects.
            let _ = redlock.health().await;
            tokio::time::sleep(args.observe).await;
        }
        let health = redlock.health().await;
        if !quiet {
            print(&if args.json { json(&health) } else { health.to_string() })?;
        }
        Ok(code(&health, args.all) as u8)
    })
}

fn code(health: &Health, all: bool) -> Code {
    let is_counted = |node: &NodeHealth| node.is_healthy() && node.same_server_as().is_none();
    let is_met = if all { health.nodes().iter().all(is_counted) } else { health.is_available() };
    if is_met { Code::Ok } else { Code::Unavailable }
}

fn json(health: &Health) -> String {
    serde_json::to_string(health).unwrap_or_default()
}
