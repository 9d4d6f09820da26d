//! `redlock health`: whether enough servers could grant a lock.

use redlock_redis_rs::{Health, NodeHealth};
use serde_json::json;

use super::{print, quarantine, with_redlock};
use crate::args;
use crate::args::Shared;
use crate::exit::{Code, Failure};

/// Checks the servers. Returns the exit code.
pub(crate) fn health(args: &args::Health, shared: &Shared) -> Result<u8, Failure> {
    let quiet = shared.quiet;
    with_redlock(shared, async |redlock| {
        let health = redlock.health().await;
        if !quiet {
            print(&if args.json { json(&health) } else { health.to_string() })?;
        }
        Ok(code(&health, args.all) as u8)
    })
}

fn code(health: &Health, all: bool) -> Code {
    let is_met = if all { health.healthy_nodes() == health.nodes().len() } else { health.is_available() };
    if is_met { Code::Ok } else { Code::Unavailable }
}

fn json(health: &Health) -> String {
    let node = |node: &NodeHealth| {
        json!({
            "label": node.label(),
            "healthy": node.is_healthy(),
            "latency_ms": node.latency().as_secs_f64() * 1000.0,
            "quarantine": node.quarantine().map(quarantine::Json::from),
            "same_server_as": node.same_server_as().map(|(_, label)| label),
            "message": node.to_string(),
        })
    };
    let nodes: Vec<_> = health.nodes().iter().map(node).collect();
    let healthy = health.healthy_nodes();
    json!({ "available": health.is_available(), "healthy": healthy, "quorum": health.quorum(), "nodes": nodes }).to_string()
}
