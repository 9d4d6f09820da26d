//! From facts to findings.

use std::collections::HashSet;
use std::time::Duration;

use redlock_core::ClockRate;

use super::facts::{CLOCK, COUNTS, FENCED, Facts, NEEDED, ORDER, READERS, Shards, State, USEFUL};
use super::{Finding, List, PreflightSettings, Severity, sentinels};

/// The least version whose locks are tested.
const LEAST: (u64, u64) = (6, 2);

/// The difference of clocks above which there is a note. Plain locks do not depend on it.
const CLOCKS_APART: f64 = 60.0;

/// The number of masters of a cluster of which one can fail.
const MASTERS: usize = 3;

/// The rate of a clock in parts per million, relative to that of a program, above which restart admission does not
/// count the votes of the server. `ServerClock` of `redlock-core` has the same limit.
const TOLERATED: i64 = 2_500;

/// The longest part of a TTL that one reply may take.
const SLOW: u32 = 20;

/// Returns whether enough servers of each list can be reached, and the findings, the worst first.
///
/// `restart_admission`: whether a longest TTL is set, so that servers without their locks do not count. Clusters, and
/// servers that sentinels choose, have one in any case.
pub(super) fn judge(
    all: &[Facts],
    lists: &[List],
    settings: PreflightSettings,
    restart_admission: bool,
) -> (bool, Vec<Finding>) {
    let mut findings = Vec::new();
    let counted: Vec<_> = lists.iter().map(|list| count(all, list, &mut findings)).collect();
    let is_available = counted.iter().all(|is_available| *is_available);
    let restart_admission = restart_admission || all.iter().all(Facts::can_fail_over);
    if !restart_admission {
        findings.push(finding(
            Severity::Note,
            &[],
            "no longest TTL is set",
            "a server that was flushed, or restarted without its data, grants locks that are still held",
            "set one value in all programs: --longest-ttl or longest_ttl in the file of the command redlock, \
             Options::longest_ttl in the library",
        ));
    }
    twins(all, is_available, &mut findings);
    findings.extend(merge(each(all, settings, restart_admission, is_available)));
    clocks(all, settings, &mut findings);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    (is_available, findings)
}

/// Judges each server, without a comparison with the others.
fn each(
    all: &[Facts],
    settings: PreflightSettings,
    restart_admission: bool,
    is_available: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Facts { label, watched, shards, state } in all {
        if let (Some(shards), Ok(_)) = (shards, state) {
            cluster(label, shards, settings, &mut findings);
            continue;
        }
        let role = if watched.is_some() { Role::Chosen } else { Role::Single };
        if let Some(watched) = watched {
            sentinels::judge(label, watched, &mut findings);
        }
        match state {
            Ok(state) => {
                let mut add = |severity, problem, consequence: &str, fix: &str| {
                    findings.push(finding(severity, &[label], problem, consequence, fix));
                };
                let restart_admission = restart_admission || role == Role::Chosen;
                one(state, role, settings, restart_admission, &mut add);
                if !restart_admission {
                    persistence(state, settings, &mut add);
                }
            }
            Err(reason) => findings.push(finding(
                Severity::Warning,
                &[label],
                format!("not reachable: {reason}"),
                if is_available {
                    "the locks tolerate one failure fewer"
                } else {
                    "see above: too few servers are left"
                },
                fix(reason),
            )),
        }
    }
    findings
}

/// Merges findings of several servers that differ only in the servers.
fn merge(findings: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        let text = |finding: &Finding| {
            let Finding { severity, nodes: _, problem, consequence, fix } = finding.clone();
            (severity, problem, consequence, fix)
        };
        let same = |other: &&mut Finding| text(other) == text(&finding);
        match merged.iter_mut().find(same) {
            Some(other) => {
                let nodes = finding.nodes.into_iter().filter(|label| !other.nodes.contains(label));
                other.nodes.extend(nodes.collect::<Vec<_>>());
            }
            None => merged.push(finding),
        }
    }
    merged
}

pub(super) fn finding(
    severity: Severity,
    nodes: &[&String],
    problem: impl Into<String>,
    consequence: impl Into<String>,
    fix: impl Into<String>,
) -> Finding {
    let nodes = nodes.iter().map(|label| (*label).clone()).collect();
    Finding { severity, nodes, problem: problem.into(), consequence: consequence.into(), fix: fix.into() }
}

/// Returns what to do about a server that could not be queried.
fn fix(reason: &str) -> &'static str {
    match reason {
        // The reason of a server that sentinels or masters name begins with its address.
        _ if reason.contains("NOAUTH") => {
            "set a password: in the address, by Options::credentials, or by --password-file of the command redlock"
        }
        _ if reason.contains("WRONGPASS") => "check user and password",
        _ if reason.contains("sentinels confirm a master") => "see the findings about its sentinels",
        _ => "check address, network and login",
    }
}

/// Judges the number of servers in a list. Returns whether enough for a lock could be reached. Addresses of the same
/// server have one vote together.
fn count(all: &[Facts], List { name, members }: &List, findings: &mut Vec<Finding>) -> bool {
    let reachable = members.iter().filter(|server| all[**server].state.is_ok()).count();
    let (count, quorum) = (members.len(), members.len() / 2 + 1);
    if reachable < quorum {
        let problem = format!("only {reachable} of {count} {name} reachable, {quorum} required");
        findings.push(finding(
            Severity::Error,
            &[],
            problem,
            "no lock can be acquired",
            "see the servers below",
        ));
    }
    let mut run_ids = HashSet::new();
    let replied = members.iter().map(|server| &all[*server]).filter(|server| server.state.is_ok());
    let votes = replied.filter(|server| server.run_id().is_none_or(|run_id| run_ids.insert(run_id))).count();
    if votes < quorum && reachable >= quorum {
        let problem = format!("only {votes} of {count} {name} with a separate vote, {quorum} required");
        let fix = "list each server once";
        findings.push(finding(Severity::Error, &[], problem, "no lock can be acquired", fix));
    }
    let can_fail_over = members.iter().all(|server| all[*server].can_fail_over());
    let (problem, consequence) = match count {
        1 if can_fail_over => (
            "there is a single node, whose servers fail over",
            "after a failover, no lock is acquired or extended for about the longest TTL and 15 s",
        ),
        1 => ("there is a single server", "its failure stops all locks"),
        even if even % 2 == 0 => ("the number of servers is even", "the last server adds no fault tolerance"),
        _ => return votes >= quorum,
    };
    findings.push(finding(
        Severity::Note,
        &[],
        problem,
        consequence,
        "use three or five independent servers",
    ));
    votes >= quorum
}

/// Finds servers that are listed several times.
fn twins(all: &[Facts], is_available: bool, findings: &mut Vec<Finding>) {
    let mut listed: Vec<(&str, Vec<&String>)> = Vec::new();
    for facts in all {
        let Some(run_id) = facts.run_id() else { continue };
        match listed.iter_mut().find(|(known, _)| *known == run_id) {
            Some((_, labels)) => labels.push(&facts.label),
            None => listed.push((run_id, vec![&facts.label])),
        }
    }
    for (_, labels) in listed.iter().filter(|(_, labels)| labels.len() > 1) {
        let count = if labels.len() == 2 { "two".to_owned() } else { labels.len().to_string() };
        findings.push(finding(
            Severity::Error,
            labels,
            format!("{count} addresses of the same server"),
            if is_available {
                "they have one vote together, so the locks tolerate fewer failures"
            } else {
                "they have one vote together, and too few votes are left"
            },
            "list each server once",
        ));
    }
}

/// Judges the shards of the cluster with this label.
fn cluster(
    label: &String,
    Shards { masters, unserved }: &Shards,
    settings: PreflightSettings,
    findings: &mut Vec<Finding>,
) {
    let count = masters.len();
    // A master that is down has slots without a confirmed master, and is not counted.
    if count < MASTERS && unserved.is_none() {
        findings.push(finding(
            Severity::Warning,
            &[label],
            format!("the number of its masters is {count}"),
            "if one fails, the others are no majority that promotes a replica",
            "use three masters or more",
        ));
    }
    if let Some(reason) = unserved {
        let consequence =
            "locks in these slots fail, and all others too, unless cluster-require-full-coverage is no";
        let fix = "wait if a failover or a move of slots is in progress; else see redis-cli --cluster check";
        findings.push(finding(Severity::Error, &[label], reason, consequence, fix));
    }
    for Facts { label, state, .. } in masters {
        let mut add = |severity, problem, consequence: &str, fix: &str| {
            findings.push(finding(severity, &[label], problem, consequence, fix));
        };
        match state {
            Ok(state) => one(state, Role::Shard, settings, true, &mut add),
            Err(reason) => {
                let problem = format!("not reachable: {reason}");
                add(Severity::Warning, problem, "locks on its shard fail", fix(reason));
            }
        }
    }
}

/// The place of a server in its node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It is the node.
    Single,
    /// It is the present master of a service, which sentinels have chosen.
    Chosen,
    /// It is the present master of a shard.
    Shard,
}

/// Judges one server.
fn one(
    state: &State,
    role: Role,
    settings: PreflightSettings,
    restart_admission: bool,
    add: &mut impl FnMut(Severity, String, &str, &str),
) {
    use Severity::{Error, Note, Warning};

    if state.is_sentinel() {
        // It has neither locks nor most of the facts.
        let fix = "use redis+sentinel:// for its master";
        return add(Error, "it is a Sentinel".into(), "clients reject it: a Sentinel stores no locks", fix);
    }
    if let Some(version) = state.text("redis_version") {
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        let parsed = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        if parsed < LEAST {
            add(
                Error,
                format!("version {version}"),
                "locks are not tested with it",
                "use Redis 6.2 or newer, or Valkey",
            );
        } else if parsed < (7, 0) && state.text("server_name") != Some("valkey") {
            add(
                Note,
                format!("version {version}"),
                "a denied attempt takes two commands",
                "use Redis 7.0 or newer, or Valkey",
            );
        }
    } else {
        add(Note, "INFO shows no version".into(), "most checks are skipped", "permit INFO");
    }
    replication(state, role, restart_admission, add);
    if role != Role::Shard && state.text("cluster_enabled") == Some("1") {
        add(
            Error,
            "it is a cluster node".into(),
            "clients reject it: it has only some of the keys",
            "use redis+cluster:// for the whole cluster",
        );
    }
    let policy = state.text("maxmemory_policy").unwrap_or("noeviction");
    if state.number("maxmemory").is_some_and(|max| max > 0) && policy != "noeviction" {
        add(
            Error,
            format!("maxmemory-policy is {policy}"),
            "a lock can be evicted while it is held",
            "CONFIG SET maxmemory-policy noeviction",
        );
    }
    if state.latency > settings.ttl / SLOW {
        let problem = format!("a reply took {:.0?}", state.latency);
        add(
            Warning,
            problem,
            "much of each validity is spent on requests",
            "use a longer TTL or closer servers",
        );
    }
    rights(state, settings, add);
    if let Some(rate) = state.rate {
        clock_rate(rate, settings.clock_drift_factor, restart_admission, add);
    }
}

/// Judges whether the server is a master, and its replicas.
fn replication(
    state: &State,
    role: Role,
    restart_admission: bool,
    add: &mut impl FnMut(Severity, String, &str, &str),
) {
    use Severity::{Error, Note, Warning};

    let replicas = state.number("connected_slaves");
    match state.text("role") {
        Some("slave" | "replica") => add(
            Error,
            "it is a replica".into(),
            "it rejects locks, or copies those of another server",
            "list independent masters",
        ),
        _ if role != Role::Single || replicas.is_none_or(|count| count == 0) => {}
        _ if restart_admission => add(
            Note,
            "it has replicas".into(),
            "after a failover, its votes do not count for about the longest TTL; no sentinel confirms the master",
            "see \"Managed primaries\" in docs/operating.md",
        ),
        _ => add(
            Warning,
            "it has replicas".into(),
            "after a failover the promoted replica may lack the last locks and grant them again",
            "set a longest TTL in all programs; or do not fail over, or delay it by the longest TTL",
        ),
    }
    if role != Role::Single && replicas == Some(0) {
        add(
            Warning,
            "the master has no replicas".into(),
            "if it fails, no server can be promoted, and its locks fail",
            match role {
                Role::Shard => "add a replica: redis-cli --cluster add-node with --cluster-slave",
                _ => "add a replica: REPLICAOF",
            },
        );
    }
    let too_few = state.min_replicas.zip(replicas).filter(|(required, count)| required > count);
    if let Some((required, count)) = too_few {
        add(
            Error,
            format!("min-replicas-to-write is {required}, and the number of replicas is {count}"),
            "the server rejects locks (NOREPLICAS)",
            "add replicas, or lower min-replicas-to-write",
        );
    }
}

/// Judges the rate of a clock by what is certain about it, given the error of the measurement.
fn clock_rate(
    rate: ClockRate,
    drift_factor: f64,
    restart_admission: bool,
    add: &mut impl FnMut(Severity, String, &str, &str),
) {
    #[allow(clippy::cast_precision_loss)] // rates are far below 2^52 ppm
    let (excess, error) = (rate.ppm as f64 / 1e6, rate.error_ppm as f64 / 1e6);
    // Rounded up, so that no measurement seems to be exact.
    let within = format!("± {:.2} %", (error * 10_000.0).ceil() / 100.0);
    let percent =
        |direction: &str| format!("its clock runs {:.1} % {direction} ({within})", excess.abs() * 100.0);
    // Two readings show the same time, or an earlier one. That does not depend on the error of the measurement.
    if excess <= -1.0 {
        return add(
            Severity::Error,
            format!("its clock {}", if excess < -1.0 { "goes back" } else { "stands still" }),
            "keys live too long: an abandoned lock is freed late, or never",
            "repair the clock, and restart the server",
        );
    }
    if restart_admission && rate.least_ppm() > TOLERATED {
        return add(
            Severity::Warning,
            percent("fast"),
            "its votes do not count while its clock runs fast",
            "limit how fast NTP corrects the clock (chrony: maxslewrate 500), or repair the clock",
        );
    }
    if rate.exceeds(drift_factor) {
        return add(
            Severity::Error,
            percent("fast"),
            "locks may end before their validity",
            "limit how fast NTP corrects the clock (chrony: maxslewrate 500), or raise clock_drift_factor",
        );
    }
    if excess + error < -drift_factor {
        return add(
            Severity::Warning,
            percent("slow"),
            "keys live too long: an abandoned lock is freed late",
            "limit how fast NTP corrects the clock (chrony: maxslewrate 500), or repair the clock",
        );
    }
    // A greater error could hide a finding.
    if error > drift_factor / 2.0 {
        add(
            Severity::Note,
            format!(
                "the rate of its clock could not be measured: {within}, at most {:.1} % required",
                drift_factor * 50.0
            ),
            if restart_admission {
                "a clock because of which votes do not count is not found"
            } else {
                "a clock that makes locks end early is not found"
            },
            "run the check again with a longer observation, or near the server",
        );
    }
}

/// Judges whether a restart of the server loses locks.
fn persistence(
    state: &State,
    settings: PreflightSettings,
    add: &mut impl FnMut(Severity, String, &str, &str),
) {
    if state.is_sentinel() || state.info.is_empty() {
        return;
    }
    if state.text("aof_enabled") == Some("1") {
        match state.fsync.as_deref() {
            Some("always") if state.no_fsync_on_rewrite => add(
                Severity::Note,
                "no-appendfsync-on-rewrite is yes".into(),
                "a crash during a rewrite of the log loses locks",
                "set a longest TTL in all programs, or CONFIG SET no-appendfsync-on-rewrite no",
            ),
            None => add(
                Severity::Note,
                "appendfsync could not be read".into(),
                "a restart within the TTL loses locks, unless appendfsync is always",
                "set a longest TTL in all programs, or permit CONFIG GET: +config|get",
            ),
            _ => {}
        }
        if matches!(state.fsync.as_deref(), None | Some("always")) {
            return;
        }
    }
    let uptime = state.number("uptime_in_seconds").map(Duration::from_secs);
    if uptime.is_some_and(|uptime| uptime < settings.ttl) {
        add(
            Severity::Warning,
            "it started less than one TTL ago and may have lost locks".into(),
            "a lock that is held may be granted again",
            "set a longest TTL in all programs, or start a server only one TTL after it stopped",
        );
    } else {
        add(
            Severity::Note,
            "not every write is on disk before its reply".into(),
            "a restart within the TTL loses locks",
            "set a longest TTL in all programs, or appendonly yes and appendfsync always",
        );
    }
}

fn rights(state: &State, settings: PreflightSettings, add: &mut impl FnMut(Severity, String, &str, &str)) {
    const LINE: &str = "see the line for ACL SETUSER in docs/operating.md";
    const ROW: &str = "see the line for ACL SETUSER and the row of fenced locks in docs/operating.md";

    let Some(denied) = &state.denied else { return };
    let readers = if settings.readers { READERS } else { &[] };
    let fenced = if settings.fenced { FENCED } else { &[] };
    for (rights, severity, consequence, fix) in [
        (NEEDED, Severity::Error, "locks fail", LINE),
        (readers, Severity::Error, "read locks fail", LINE),
        (fenced, Severity::Error, "fenced locks fail", ROW),
        (CLOCK, Severity::Note, "with a longest TTL, jumps of the clock are not detected", LINE),
        (ORDER, Severity::Note, "waiters of different processes have no order", LINE),
        (COUNTS, Severity::Note, "inspections and errors do not state the number of waiters", LINE),
        (USEFUL, Severity::Note, "waiters poll, or requests are longer", LINE),
    ] {
        let names = rights.iter().map(|(name, _)| *name);
        let missing: Vec<_> = names.filter(|name| denied.contains(name)).collect();
        if !missing.is_empty() {
            add(severity, format!("the user may not run {}", missing.join(", ")), consequence, fix);
        }
    }
}

/// Compares the clocks with each other, so that a wrong clock of this machine does not matter.
fn clocks(all: &[Facts], settings: PreflightSettings, findings: &mut Vec<Finding>) {
    let offset = |facts: &Facts| facts.state.as_ref().ok()?.clock.map(|(offset, _)| offset);
    let servers = all.iter().flat_map(Facts::servers);
    let known: Vec<_> = servers.filter_map(|facts| Some((offset(facts)?, &facts.label))).collect();
    let by_offset = |one: &&(f64, &String), other: &&(f64, &String)| one.0.total_cmp(&other.0);
    let (Some(first), Some(last)) = (known.iter().min_by(by_offset), known.iter().max_by(by_offset)) else {
        return;
    };
    let apart = last.0 - first.0;
    if apart > CLOCKS_APART {
        let severity = if settings.fenced { Severity::Warning } else { Severity::Note };
        let consequence =
            "fencing counters that are lost start again from the clock; plain locks do not depend on it";
        let problem = format!("the clocks differ by {apart:.0} s");
        findings.push(finding(
            severity,
            &[first.1, last.1],
            problem,
            consequence,
            "synchronize the clocks (NTP)",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentinels::{Sight, Watched};

    fn settings() -> PreflightSettings {
        PreflightSettings::new(Duration::from_secs(30))
    }

    /// The findings of programs with a longest TTL.
    fn one_list(all: &[Facts], restart_admission: bool) -> Vec<Finding> {
        judge_with(all, settings(), restart_admission).1
    }

    fn judge_with(
        all: &[Facts],
        settings: PreflightSettings,
        restart_admission: bool,
    ) -> (bool, Vec<Finding>) {
        let lists = [List { name: "servers", members: (0..all.len()).collect() }];
        super::judge(all, &lists, settings, restart_admission)
    }

    fn judge(all: &[Facts]) -> Vec<Finding> {
        one_list(all, true)
    }

    /// Three sentinels without any finding.
    fn watched() -> Watched {
        let sights = ["s0", "s1", "s2"].map(|label| (label.to_owned(), Ok(Sight::usual()))).into();
        Watched { service: "m".into(), sights }
    }

    /// A server without any finding, and the fields of `INFO` that differ.
    fn server(label: &str, changed: &[(&str, &str)]) -> Facts {
        let usual = [
            ("redis_version", "7.2.4"),
            ("run_id", label),
            ("role", "master"),
            ("connected_slaves", "0"),
            ("cluster_enabled", "0"),
            ("maxmemory", "0"),
            ("maxmemory_policy", "noeviction"),
            ("aof_enabled", "1"),
            ("uptime_in_seconds", "100000"),
        ];
        let info = usual.iter().chain(changed).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let state = State {
            info: info.collect(),
            fsync: Some("always".into()),
            no_fsync_on_rewrite: false,
            min_replicas: Some(0),
            denied: Some(Vec::new()),
            latency: Duration::from_millis(1),
            clock: Some((0.0, 0.001)),
            rate: Some(ClockRate::new(100, 1_000, Duration::from_secs(1))),
        };
        Facts { label: label.to_owned(), watched: None, shards: None, state: Ok(state) }
    }

    fn down(label: &str) -> Facts {
        Facts { label: label.into(), watched: None, shards: None, state: Err("refused".into()) }
    }

    fn three(changed: &[(&str, &str)]) -> Vec<Facts> {
        vec![server("a", changed), server("b", &[]), server("c", &[])]
    }

    fn change(mut facts: Vec<Facts>, change: impl Fn(&mut State)) -> Vec<Facts> {
        facts[0].state.as_mut().map(change).unwrap();
        facts
    }

    #[test]
    fn good_servers_have_no_findings() {
        assert_eq!(Vec::<Finding>::new(), judge(&three(&[])));
    }

    #[test]
    fn each_problem_is_found_at_its_server() {
        use Severity::{Error, Note};

        for (changed, severity, part) in [
            (&[("redis_version", "6.0.9")][..], Error, "version 6.0.9"),
            (&[("redis_version", "6.2.9")], Note, "version 6.2.9"),
            (&[("role", "slave")], Error, "replica"),
            (&[("connected_slaves", "1")], Note, "has replicas"),
            (&[("cluster_enabled", "1")], Error, "it is a cluster node"),
            (&[("redis_mode", "sentinel"), ("redis_version", "6.2.9")], Error, "it is a Sentinel"),
            (&[("maxmemory", "1000"), ("maxmemory_policy", "allkeys-lru")], Error, "allkeys-lru"),
        ] {
            let found = judge(&three(changed));
            assert_eq!(1, found.len(), "{changed:?}: {found:?}");
            assert_eq!((severity, &["a".to_owned()][..]), (found[0].severity(), found[0].nodes()));
            assert!(found[0].problem().contains(part), "{}", found[0]);
        }
        let found = judge(&three(&[("maxmemory_policy", "allkeys-lru")]));
        assert!(found.is_empty(), "no limit, no eviction: {found:?}");
    }

    #[test]
    fn a_master_that_sentinels_choose_has_replicas_and_restart_admission() {
        let mut facts = vec![server("a", &[("connected_slaves", "2"), ("aof_enabled", "0")])];
        let problems = |facts: &[Facts]| {
            let found = one_list(facts, false);
            found.iter().map(|finding| finding.problem().to_owned()).collect::<Vec<_>>().join(", ")
        };
        let are_named = |problems: &str| {
            ["no longest TTL", "has replicas", "on disk"].map(|problem| problems.contains(problem))
        };
        assert_eq!([true; 3], are_named(&problems(&facts)), "{}", problems(&facts));
        facts[0].watched = Some(watched());
        assert_eq!([false; 3], are_named(&problems(&facts)), "{}", problems(&facts));
        let text = problems(&facts);
        assert_eq!("there is a single node, whose servers fail over", text);
    }

    #[test]
    fn the_shards_of_a_cluster_are_judged() {
        let shard =
            |label| server(label, &[("run_id", label), ("cluster_enabled", "1"), ("connected_slaves", "1")]);
        let with = |masters: Vec<Facts>, unserved: Option<&str>| {
            let shards = Some(Shards { masters, unserved: unserved.map(str::to_owned) });
            let all = [Facts { shards, state: Ok(State::default()), ..server("cluster", &[]) }];
            let found = one_list(&all, false);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let found = with(["a", "b", "c"].map(shard).into(), None);
        assert!(found.len() == 1 && found[0].contains("whose servers fail over"), "{found:?}");
        let found =
            with(vec![shard("a"), server("b", &[("cluster_enabled", "1")])], Some("9 slots have no master"));
        for expected in [
            "error: cluster: 9 slots have no master; locks in these slots fail, and all others too, unless ",
            "warning: b: the master has no replicas; if it fails, no server can be promoted, and its locks fail; \
             add a replica: redis-cli --cluster add-node",
        ] {
            assert!(found.iter().any(|finding| finding.starts_with(expected)), "{expected}: {found:?}");
        }
        assert_eq!(3, found.len(), "a third master may be down: {found:?}");
        let found = with(["a", "b"].map(shard).into(), None);
        assert!(found[0].starts_with("warning: cluster: the number of its masters is 2; "), "{found:?}");
    }

    #[test]
    fn a_master_needs_the_replicas_that_its_settings_require() {
        let found = judge(&change(three(&[]), |state| state.min_replicas = Some(1)));
        let expected =
            "error: a: min-replicas-to-write is 1, and the number of replicas is 0; the server rejects locks";
        assert!(found.len() == 1 && found[0].to_string().starts_with(expected), "{found:?}");
        let mut facts = three(&[]);
        facts[0].watched = Some(watched());
        let found = judge(&facts);
        assert!(found.len() == 1 && found[0].problem() == "the master has no replicas", "{found:?}");
    }

    #[test]
    fn lost_data_matters_without_a_longest_ttl() {
        use Severity::{Note, Warning};

        let not_durable = ("aof_enabled", "0");
        for (changed, severity, part) in [
            (&[("connected_slaves", "1")][..], Warning, "it has replicas"),
            (&[], Note, "no longest TTL is set"),
            (&[not_durable], Note, "on disk"),
            (&[not_durable, ("uptime_in_seconds", "29")], Warning, "started less than one TTL ago"),
        ] {
            let found = one_list(&three(changed), false);
            let found = found.iter().find(|finding| finding.problem().contains(part));
            assert_eq!(Some(severity), found.map(Finding::severity), "{changed:?}: {part}");
            assert!(judge(&three(changed)).iter().all(|finding| finding.problem() == "it has replicas"));
        }
    }

    #[test]
    fn unknown_durability_is_not_a_loss() {
        for (fsync, no_fsync_on_rewrite, expected) in [
            (Some("always"), false, None),
            (
                Some("always"),
                true,
                Some("note: a: no-appendfsync-on-rewrite is yes; a crash during a rewrite"),
            ),
            (
                None,
                false,
                Some("note: a: appendfsync could not be read; a restart within the TTL loses locks, unless"),
            ),
            (
                Some("everysec"),
                false,
                Some("warning: a: it started less than one TTL ago and may have lost locks;"),
            ),
        ] {
            let facts = change(three(&[("uptime_in_seconds", "29")]), |state| {
                state.fsync = fsync.map(str::to_owned);
                state.no_fsync_on_rewrite = no_fsync_on_rewrite;
            });
            let found: Vec<_> = one_list(&facts, false).iter().map(ToString::to_string).collect();
            let found: Vec<_> = found.iter().filter(|finding| finding.contains(": a: ")).collect();
            assert_eq!(usize::from(expected.is_some()), found.len(), "{found:?}");
            assert!(
                expected.is_none_or(|expected| found[0].starts_with(expected)),
                "{expected:?}: {found:?}"
            );
        }
    }

    #[test]
    fn clocks_latency_and_rights_are_judged() {
        let one = |facts: Vec<Facts>| {
            let found = judge(&facts);
            assert_eq!(1, found.len(), "{found:?}");
            found[0].to_string()
        };
        assert!(one(change(three(&[]), |state| state.clock = Some((-90.0, 0.0)))).contains("differ by 90 s"));
        assert!(
            one(change(three(&[]), |state| state.latency = Duration::from_secs(2)))
                .contains("a reply took 2s")
        );
        let denied = change(three(&[]), |state| state.denied = Some(vec!["SET", "EVALSHA"]));
        assert!(one(denied).starts_with("error: a: the user may not run SET, EVALSHA; locks fail;"));
        let denied = change(three(&[]), |state| state.denied = Some(vec!["CLIENT TRACKING"]));
        assert!(one(denied).starts_with("note: a: the user may not run CLIENT TRACKING; waiters poll"));
    }

    #[test]
    fn the_rights_for_further_locks_are_judged_if_these_are_in_use() {
        let found = |denied: &[&'static str], settings: PreflightSettings| {
            let facts = change(three(&[]), |state| state.denied = Some(denied.to_vec()));
            let (_, found) = judge_with(&facts, settings, true);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let jumps =
            "note: a: the user may not run TIME; with a longest TTL, jumps of the clock are not detected;";
        let plain = found(&["TIME", "SET NAME:writer", "SET COUNTER"], settings());
        assert!(plain.len() == 1 && plain[0].starts_with(jumps), "{plain:?}");
        for (settings, denied, expected) in [
            (settings().readers(true), "TIME", "TIME; read locks fail;"),
            (settings().readers(true), "SET NAME:writer", "SET NAME:writer; read locks fail;"),
            (settings().fenced(true), "TIME", "TIME; fenced locks fail;"),
            (settings().fenced(true), "SET COUNTER", "SET COUNTER; fenced locks fail;"),
        ] {
            let found = found(&[denied], settings);
            assert!(found[0].starts_with(&format!("error: a: the user may not run {expected}")), "{found:?}");
        }
    }

    /// The finding about a clock with this rate and error, in parts per million.
    fn about_the_clock(excess: i64, error: u64, restart_admission: bool) -> String {
        let rate = ClockRate::new(excess, error, Duration::from_secs(1));
        let facts = change(three(&[]), |state| state.rate = Some(rate));
        let found = one_list(&facts, restart_admission);
        let found: Vec<_> = found.iter().filter(|finding| finding.problem().contains("its clock")).collect();
        assert!(found.len() <= 1, "{found:?}");
        found.first().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn with_a_longest_ttl_a_fast_clock_costs_votes() {
        let found = |excess, error| about_the_clock(excess, error, true);
        for (excess, error, shown) in
            [(2_700, 100, "0.3 % fast (± 0.01 %)"), (83_000, 999, "8.3 % fast (± 0.10 %)")]
        {
            let votes = format!(
                "warning: a: its clock runs {shown}; its votes do not count while its clock runs fast;"
            );
            let found = found(excess, error);
            assert!(found.starts_with(&votes) && !found.contains("clock_drift_factor"), "{found}");
        }
        assert_eq!("", found(2_600, 100));
        let rate = ClockRate::new(2_000, 100, Duration::from_secs(1));
        let facts = change(three(&[]), |state| state.rate = Some(rate));
        let (_, small_factor) = judge_with(&facts, settings().clock_drift_factor(0.001), true);
        assert_eq!("locks may end before their validity", small_factor[0].consequence());
        assert!(
            found(-20_000, 1)
                .starts_with("warning: a: its clock runs 2.0 % slow (± 0.01 %); keys live too long:")
        );
        assert!(found(0, 6_000).ends_with(
            "; a clock because of which votes do not count is not found; run the check again with a longer \
             observation, or near the server"
        ));
    }

    #[test]
    fn the_rate_of_a_clock_is_judged_by_what_is_certain() {
        let found = |excess, error| about_the_clock(excess, error, false);
        let early = "locks may end before their validity; limit how fast NTP corrects the clock (chrony: \
                     maxslewrate 500), or raise clock_drift_factor";
        assert_eq!(format!("error: a: its clock runs 8.3 % fast (± 0.10 %); {early}"), found(83_000, 999));
        assert_eq!(format!("error: a: its clock runs 2.0 % fast (± 0.90 %); {early}"), found(20_000, 8_999));
        let late = "keys live too long: an abandoned lock is freed late";
        assert!(
            found(-20_000, 1)
                .starts_with(&format!("warning: a: its clock runs 2.0 % slow (± 0.01 %); {late};"))
        );
        let still = format!("error: a: its clock stands still; {late}, or never;");
        assert!(
            found(-1_000_000, 1_000).starts_with(&still) && found(-1_000_000, 500_000).starts_with(&still)
        );
        assert!(found(-1_200_000, 1_000).starts_with("error: a: its clock goes back; "));
        for (excess, error) in
            [(0, 2_000), (0, 5_000), (11_000, 2_000), (-11_000, 2_000), (10_000, 0), (-10_000, 0)]
        {
            assert_eq!("", found(excess, error), "{excess} {error}");
        }
        for (excess, error) in
            [(20_000, 11_000), (-20_000, 11_000), (0, 6_000), (300_000, 300_000), (-900_000, 2_000_000)]
        {
            let found = found(excess, error);
            assert!(found.starts_with("note: a: the rate of its clock could not be measured: ± "), "{found}");
        }
    }

    #[test]
    fn the_same_server_twice_and_too_few_servers_are_errors() {
        let found = judge(&[server("a", &[]), server("b", &[("run_id", "a")]), server("c", &[])]);
        assert_eq!(["a".to_owned(), "b".into()], *found[0].nodes());

        let found = judge(&[server("a", &[]), down("b"), down("c")]);
        assert!(found[0].to_string().starts_with("error: only 1 of 3 servers reachable, 2 required"));
        assert_eq!(["b".to_owned(), "c".into()], *found[1].nodes(), "one finding for both");
        assert_eq!("see above: too few servers are left", found[1].consequence());
        let found = judge(&[server("a", &[]), server("b", &[]), down("c")]);
        assert_eq!("the locks tolerate one failure fewer", found[0].consequence());
        assert!(judge(&[server("a", &[]), server("b", &[])])[0].problem().contains("even"));
    }

    #[test]
    fn each_server_that_is_listed_several_times_has_one_finding_and_one_vote() {
        let judge = |run_ids: &[&str]| {
            let labels = ["a", "b", "c", "d", "e"].into_iter();
            let all: Vec<_> =
                labels.zip(run_ids).map(|(label, run_id)| server(label, &[("run_id", *run_id)])).collect();
            let (is_available, found) = judge_with(&all, settings(), true);
            (is_available, found.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let fewer =
            "they have one vote together, so the locks tolerate fewer failures; list each server once";
        let (is_available, found) = judge(&["1", "1", "2", "2", "3"]);
        let pair = |labels| format!("error: {labels}: two addresses of the same server; {fewer}");
        assert_eq!((true, vec![pair("a, b"), pair("c, d")]), (is_available, found));
        let (is_available, found) = judge(&["1", "1", "1"]);
        let expected = [
            "error: only 1 of 3 servers with a separate vote, 2 required; no lock can be acquired; \
             list each server once",
            "error: a, b, c: 3 addresses of the same server; they have one vote together, and too few votes are left; \
             list each server once",
        ];
        assert_eq!((false, expected.map(str::to_owned).to_vec()), (is_available, found));
    }

    #[test]
    fn findings_with_other_consequences_are_not_merged() {
        let shards = Some(Shards { masters: ["shard", "down"].map(down).into(), unserved: Some("x".into()) });
        let cluster = Facts { shards, state: Ok(State::default()), ..server("cluster", &[]) };
        let found = judge(&[cluster, down("b"), server("c", &[])]);
        let found = found.iter().filter(|finding| finding.problem() == "not reachable: refused");
        let found: Vec<_> =
            found.map(|finding| (finding.nodes().join(", "), finding.consequence())).collect();
        let expected =
            [("shard, down", "locks on its shard fail"), ("b", "the locks tolerate one failure fewer")];
        assert_eq!(expected.map(|(nodes, consequence)| (nodes.to_owned(), consequence)), *found);
    }

    #[test]
    fn the_fix_follows_the_reason_of_a_server_that_others_name() {
        let fix = |reason: &str| {
            let watched = Some(watched());
            let found =
                judge(&[Facts { label: "m".into(), watched, shards: None, state: Err(reason.into()) }]);
            let found = found.iter().find(|finding| finding.problem().starts_with("not reachable")).unwrap();
            found.fix().to_owned()
        };
        for (reason, expected) in [
            ("master 10.0.0.1:6379: NOAUTH HELLO must be called", "set a password: "),
            (
                "no master of the cluster replies (10.0.0.1:7000: WRONGPASS invalid)",
                "check user and password",
            ),
            ("only 0 of 3 sentinels confirm a master, 2 required", "see the findings about its sentinels"),
            ("master 10.0.0.1:6379: Connection refused", "check address, network and login"),
        ] {
            assert!(fix(reason).starts_with(expected), "{reason}: {}", fix(reason));
        }
    }

    /// From one server to three. The union of the lists has four servers.
    #[test]
    fn each_list_needs_a_quorum_while_the_servers_are_changed() {
        let up = |label| server(label, &[("run_id", label)]);
        let lists = [
            List { name: "servers", members: vec![0, 1, 2] },
            List { name: "previous servers", members: vec![3] },
        ];
        let judge = |all: &[Facts]| {
            let (is_available, findings) = super::judge(all, &lists, settings(), true);
            (is_available, findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        };
        let (is_available, found) = judge(&[up("a"), down("b"), up("c"), up("d")]);
        assert!(is_available && !found.contains("even"), "{found}");
        let (is_available, found) = judge(&[down("a"), up("b"), down("c"), up("d")]);
        assert!(!is_available && found.contains("only 1 of 3 servers reachable, 2 required"), "{found}");
        let (is_available, found) = judge(&[up("a"), down("b"), up("c"), down("d")]);
        assert!(
            !is_available && found.contains("only 0 of 1 previous servers reachable, 1 required"),
            "{found}"
        );
    }
}
