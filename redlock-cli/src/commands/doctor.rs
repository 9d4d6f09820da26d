//! `redlock doctor`: checks of the servers, by the library's preflight.

use redlock_redis_rs::{Finding, LockStatus, Preflight, PreflightSettings, Redlock, Resource, Severity};
use serde_json::{Value, json};

use super::{print, resources, with_redlock};
use crate::args::{Doctor, Shared};
use crate::exit::{Code, Failure};
use crate::settings;

/// Checks the servers. Returns the exit code.
pub(crate) fn doctor(args: &Doctor, shared: &Shared) -> Result<u8, Failure> {
    let names = resources(&args.resources)?;
    let servers = settings::find(shared)?.servers;
    let checks = PreflightSettings::new(args.ttl).fenced(args.fenced).observe(args.observe);
    let quiet = shared.quiet;
    with_redlock(shared, async |redlock| {
        let result = servers.preflight(checks).await.map_err(|error| Failure::config(error.to_string()))?;
        let disagreements = disagreements(&redlock, &names).await;
        if !quiet {
            print(&if args.json {
                as_json(&result, &disagreements)
            } else {
                as_text(&result, &disagreements)
            })?;
        }
        Ok(code(&result, &disagreements, args.strict) as u8)
    })
}

fn code(result: &Preflight, disagreements: &[String], strict: bool) -> Code {
    let limit = if strict { Severity::Warning } else { Severity::Error };
    if !result.is_available() {
        Code::Unavailable
    } else if result.worst() >= Some(limit) || (strict && !disagreements.is_empty()) {
        Code::Findings
    } else {
        Code::Ok
    }
}

/// Returns the locks about which the servers disagree.
async fn disagreements(redlock: &Redlock, names: &[Resource]) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        match redlock.inspect(name).await {
            Ok(inspection) if *inspection.status() != LockStatus::Undecided => {}
            Ok(inspection) => found.push(inspection.to_string()),
            Err(error) => found.push(error.to_string()),
        }
    }
    found
}

fn as_text(result: &Preflight, disagreements: &[String]) -> String {
    let mut lines = Vec::new();
    for finding in result.findings() {
        let nodes = finding.nodes().join(", ");
        let place = if nodes.is_empty() { String::new() } else { format!("{nodes}: ") };
        lines.push(format!("{}: {place}{}", finding.severity(), finding.problem()));
        lines.push(format!("  consequence: {}", finding.consequence()));
        lines.push(format!("  fix: {}", finding.fix()));
    }
    for disagreement in disagreements {
        lines.push(format!("warning: {disagreement}"));
        lines.push(
            "  consequence: the lock is being acquired or cleaned up, or servers have lost data".into(),
        );
        lines.push("  fix: look again; if it stays, wait for its TTL".into());
    }
    lines.push(format!(
        "{} servers reachable, {} findings",
        result.reachable_nodes(),
        result.findings().len() + disagreements.len()
    ));
    lines.join("\n")
}

fn as_json(result: &Preflight, disagreements: &[String]) -> String {
    let finding = |finding: &Finding| -> Value {
        json!({
            "severity": finding.severity().to_string(),
            "nodes": finding.nodes(),
            "problem": finding.problem(),
            "consequence": finding.consequence(),
            "fix": finding.fix(),
        })
    };
    let findings: Vec<_> = result.findings().iter().map(finding).collect();
    let reachable = result.reachable_nodes();
    json!({ "available": result.is_available(), "reachable": reachable, "findings": findings, "disagreements": disagreements })
        .to_string()
}
