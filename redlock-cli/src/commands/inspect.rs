//! `redlock inspect`: the holder of a lock, and its remaining time.

use redlock_redis_rs::{Error, Inspection, LockStatus, NodeReport, Outcome, Redlock, Resource, Slots};
use serde::Serialize;

use super::{only_looking, print, quarantine, resources};
use crate::args::{Inspect, Shared};
use crate::exit::{Code, Failure};
use crate::request;

/// Inspects locks. Returns the exit code.
pub(crate) fn inspect(args: &Inspect, shared: &Shared) -> Result<u8, Failure> {
    let names = resources(&args.resources)?;
    let quiet = shared.quiet;
    only_looking(shared, async |redlock| {
        let mut code = Code::Ok;
        for name in with_slots(&redlock, names, args.slots)? {
            let result = redlock.inspect(&name).await;
            code = worse(code, &result);
            match &result {
                Ok(_) if quiet => {}
                Ok(found) if args.json => print(&json(found))?,
                Ok(found) => print(&text(found))?,
                Err(error) => return Err(request::failure(error)),
            }
        }
        Ok(code as u8)
    })
}

/// Returns the names of the slots, if the names have slots.
fn with_slots(redlock: &Redlock, names: Vec<Resource>, slots: Option<u16>) -> Result<Vec<Resource>, Failure> {
    let Some(count) = slots else { return Ok(names) };
    let slots = names.iter().map(|name| redlock.slots(name, usize::from(count)));
    let slots = slots.collect::<Result<Vec<_>, _>>().map_err(|error| request::failure(&error))?;
    Ok(slots.iter().flat_map(Slots::resources).cloned().collect())
}

fn worse(before: Code, result: &Result<Inspection, Error>) -> Code {
    match result.as_ref().map(Inspection::status) {
        Ok(LockStatus::Held { .. }) if before == Code::Ok => Code::Conflict,
        Ok(LockStatus::Free | LockStatus::Held { .. }) => before,
        _ => Code::Unavailable,
    }
}

fn text(found: &Inspection) -> String {
    let node = |node: &NodeReport| match node.outcome() {
        // This is usually a healthy server that is a little slower.
        Outcome::Pending => {
            format!("  node {} ({}): not awaited: the other replies suffice", node.index(), node.label())
        }
        _ => format!("  {node}"),
    };
    let nodes = found.node_reports().iter().map(node);
    [found.to_string()].into_iter().chain(nodes).collect::<Vec<_>>().join("\n")
}

/// The fields for one resource.
#[derive(Serialize)]
struct Json {
    resource: String,
    status: &'static str,
    holder: Option<String>,
    remaining_ms: Option<u128>,
    nodes: Vec<Node>,
}

#[derive(Serialize)]
struct Node {
    label: String,
    status: &'static str,
    holder: Option<String>,
    remaining_ms: Option<u128>,
    quarantine: Option<quarantine::Json>,
    error: Option<String>,
}

fn json(found: &Inspection) -> String {
    let status = match found.status() {
        LockStatus::Free => "free",
        LockStatus::Held { .. } => "held",
        _ => "undecided",
    };
    let json = Json {
        resource: found.resource().to_string(),
        status,
        holder: found.holder().map(ToString::to_string),
        remaining_ms: found.remaining().map(|left| left.as_millis()),
        nodes: found.node_reports().iter().map(Node::new).collect(),
    };
    serde_json::to_string(&json).unwrap_or_default()
}

impl Node {
    fn new(report: &NodeReport) -> Self {
        let none = Self {
            label: report.label().into(),
            status: "failed",
            holder: None,
            remaining_ms: None,
            quarantine: None,
            error: None,
        };
        match report.outcome() {
            Outcome::Free => Self { status: "free", ..none },
            Outcome::Held(entry) => Self {
                status: "held",
                holder: Some(entry.token.fingerprint().to_string()),
                remaining_ms: entry.remaining.map(|left| left.as_millis()),
                ..none
            },
            Outcome::Quarantined { quarantine, .. } => {
                Self { status: "not counted", quarantine: Some(quarantine.into()), ..none }
            }
            Outcome::TimedOut => Self { status: "timed out", ..none },
            Outcome::Pending => Self { status: "pending", ..none },
            Outcome::Failed(error) => Self { error: Some(error.to_string()), ..none },
            _ => none,
        }
    }
}
