//! `redlock doctor`: checks of the servers, by `redlock-doctor` and the health check of the library.

use redlock_doctor::{Finding, Preflight, PreflightSettings, Severity};
use redlock_redis_rs::node::{Quarantine, QuarantineReason};
use redlock_redis_rs::{
    ClockRate, Health, ListHealth, LockStatus, NodeHealth, NodeListDifference, Redlock, Resource,
};
use serde_json::{Value, json};

use super::{print, resources, with_redlock};
use crate::args::{Doctor, Shared};
use crate::exit::{Code, Failure};

/// Checks the servers. Returns the exit code.
pub(crate) fn doctor(args: &Doctor, shared: &Shared) -> Result<u8, Failure> {
    let names = resources(&args.resources)?;
    let checks =
        PreflightSettings::new(args.ttl).fenced(args.fenced).readers(args.readers).observe(args.observe);
    let quiet = shared.quiet;
    with_redlock(shared, async |redlock, servers| {
        let result = servers.preflight(checks).await.map_err(|error| Failure::config(error.to_string()))?;
        let health = redlock.health().await;
        let mut problems = quarantines(&health);
        problems.extend(longer_ttl(&health));
        problems.extend(health.previous_nodes().and_then(without_quorum));
        problems.extend(health.node_list_difference().map(Problem::from));
        problems.extend(result.findings().iter().map(Problem::from));
        problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
        let disagreements = disagreements(&redlock, &names).await;
        if !quiet {
            let form = if args.json { as_json } else { as_text };
            print(&form(&result, &health, &problems, &disagreements))?;
        }
        Ok(code(&result, &problems, &disagreements, args.strict) as u8)
    })
}

/// A finding of the library, a server in quarantine, or another list of servers.
struct Problem {
    severity: Severity,
    nodes: Vec<String>,
    problem: String,
    consequence: String,
    fix: String,
}

impl From<&Finding> for Problem {
    fn from(finding: &Finding) -> Self {
        Self {
            severity: finding.severity(),
            nodes: finding.nodes().to_vec(),
            problem: finding.problem().to_owned(),
            consequence: finding.consequence().to_owned(),
            fix: finding.fix().to_owned(),
        }
    }
}

impl From<&NodeListDifference> for Problem {
    fn from(difference: &NodeListDifference) -> Self {
        Self {
            severity: Severity::Error,
            nodes: Vec::new(),
            problem: format!("another program lists other servers: {difference}"),
            consequence: "two programs can hold one lock at the same time; if lists must agree, one of them gets no lock"
                .to_owned(),
            fix: if difference.is_between_others() {
                "change the servers in three steps, one after the other; a program that has ended counts for up to 45 s"
            } else {
                "use one list in all programs; a program that has ended counts for up to 45 s"
            }
            .to_owned(),
        }
    }
}

/// Returns the lack of a quorum of previous servers, while the servers are changed.
fn without_quorum(previous: ListHealth) -> Option<Problem> {
    let (healthy, count, quorum) = (previous.healthy_nodes(), previous.node_count(), previous.quorum());
    (!previous.is_available()).then(|| Problem {
        severity: Severity::Error,
        nodes: Vec::new(),
        problem: format!("only {healthy} of {count} previous servers healthy, {quorum} required"),
        consequence: "no lock can be acquired".to_owned(),
        fix: "start the previous servers again; they are needed until the change is complete".to_owned(),
    })
}

/// Returns the servers in quarantine.
fn quarantines(health: &Health) -> Vec<Problem> {
    let (severity, consequence) = if health.is_available() {
        (Severity::Warning, "the votes do not count, so the locks tolerate fewer failures")
    } else {
        (Severity::Error, "the votes do not count, and too few others are left to grant a lock")
    };
    let fix = |reason| match reason {
        QuarantineReason::OtherNodeList => {
            "compare the lists with `redlock nodes`, and correct the wrong one"
        }
        QuarantineReason::NodeListNotCompared => "check the rights of the user for the keys of node lists",
        _ => "wait; see `redlock vouch` if the servers are new, or lost no lock",
    };
    // Servers with one reason have one entry, with the longest time.
    let mut reasons: Vec<(Quarantine, Problem)> = Vec::new();
    for node in health.nodes() {
        let Some(quarantine) = node.quarantine() else { continue };
        let position = reasons.iter().position(|(other, _)| other.reason == quarantine.reason);
        let position = position.unwrap_or_else(|| {
            let problem = Problem {
                severity,
                nodes: Vec::new(),
                problem: String::new(),
                consequence: consequence.to_owned(),
                fix: fix(quarantine.reason).to_owned(),
            };
            reasons.push((*quarantine, problem));
            reasons.len() - 1
        });
        let (longest, problem) = &mut reasons[position];
        longest.remaining = longest.remaining.max(quarantine.remaining);
        problem.nodes.push(node.label().to_owned());
        problem.problem = longest.to_string();
    }
    reasons.into_iter().map(|(_, problem)| problem).collect()
}

/// Returns the longest TTL that servers keep for other programs.
fn longer_ttl(health: &Health) -> Option<Problem> {
    let longest = health.nodes().iter().filter_map(NodeHealth::longer_ttl).max()?;
    let keeps = |node: &&NodeHealth| node.longer_ttl().is_some();
    Some(Problem {
        severity: Severity::Note,
        nodes: health.nodes().iter().filter(keeps).map(|node| node.label().to_owned()).collect(),
        problem: format!("another program has stated a longest TTL of {longest:?}, which the server keeps"),
        consequence: format!("a quarantine lasts for {:.0?} or more", Quarantine::duration(longest)),
        fix: "state this value in all programs; if no program uses such TTLs any more, see \"A shorter longest TTL\" in \
              docs/operating.md"
            .to_owned(),
    })
}

fn code(result: &Preflight, problems: &[Problem], disagreements: &[String], strict: bool) -> Code {
    let limit = if strict { Severity::Warning } else { Severity::Error };
    let is_bad = |problem: &Problem| problem.severity >= limit;
    if !result.is_available() {
        Code::Unavailable
    } else if problems.iter().any(is_bad) || (strict && !disagreements.is_empty()) {
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

fn as_text(result: &Preflight, health: &Health, problems: &[Problem], disagreements: &[String]) -> String {
    let mut lines = Vec::new();
    for Problem { severity, nodes, problem, consequence, fix } in problems {
        let nodes = nodes.join(", ");
        let place = if nodes.is_empty() { String::new() } else { format!("{nodes}: ") };
        lines.push(format!("{severity}: {place}{problem}"));
        lines.push(format!("  consequence: {consequence}"));
        lines.push(format!("  fix: {fix}"));
    }
    for disagreement in disagreements {
        lines.push(format!("warning: {disagreement}"));
        lines.push(
            "  consequence: the lock is being acquired or cleaned up, or servers have lost data".into(),
        );
        lines.push("  fix: run the check again; if the finding remains, wait for the TTL".into());
    }
    lines.extend(result.clock_rates().map(|(node, rate)| format!("{node}: {rate}")));
    lines.push(format!(
        "{} of {} servers reachable; findings: {}",
        result.reachable_nodes(),
        health.nodes().len(),
        problems.len() + disagreements.len()
    ));
    lines.join("\n")
}

fn as_json(result: &Preflight, health: &Health, problems: &[Problem], disagreements: &[String]) -> String {
    let finding = |Problem { severity, nodes, problem, consequence, fix }: &Problem| -> Value {
        json!({
            "severity": severity.to_string(),
            "nodes": nodes,
            "problem": problem,
            "consequence": consequence,
            "fix": fix,
        })
    };
    let clock = |(node, rate): (&str, ClockRate)| -> Value {
        let ClockRate { ppm, error_ppm, over, .. } = rate;
        json!({ "node": node, "ppm": ppm, "error_ppm": error_ppm, "over_ms": u64::try_from(over.as_millis()).ok() })
    };
    let clocks: Vec<_> = result.clock_rates().map(clock).collect();
    let findings: Vec<_> = problems.iter().map(finding).collect();
    let reachable = result.reachable_nodes();
    json!({
        "available": result.is_available(),
        "servers": health.nodes().len(),
        "reachable": reachable,
        "clock_drift_factor": health.clock_drift_factor(),
        "clocks": clocks,
        "findings": findings,
        "disagreements": disagreements,
    })
    .to_string()
}
