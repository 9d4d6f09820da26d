//! `redlock inspect`: the holder of a lock, and its remaining time.

use redlock_redis_rs::{Error, Inspection, LockStatus, NodeReport, Outcome, Redlock, Resource, Slots};

use super::{only_looking, print, resources};
use crate::args::{Inspect, Shared};
use crate::exit::{Code, Failure};
use crate::request;

/// Inspects locks. Returns the exit code.
pub(crate) fn inspect(args: &Inspect, shared: &Shared) -> Result<u8, Failure> {
    let names = resources(&args.resources)?;
    let quiet = shared.quiet;
    only_looking(shared, async |redlock, _| {
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

fn json(found: &Inspection) -> String {
    serde_json::to_string(found).unwrap_or_default()
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
