//! The commands that a server has carried out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use redlock_testkit::RedisServer;

/// The calls of a command, and the microseconds of the server for them.
#[derive(Clone, Copy, Default)]
pub(super) struct Usage {
    calls: f64,
    micros: f64,
}

/// Returns the usage of a server, by command. Calls within scripts count as well.
pub(super) fn usage(server: &RedisServer) -> BTreeMap<String, Usage> {
    let stats = server.command(&["INFO", "commandstats"]);
    let line = |line: &str| {
        let (command, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let field = |name: &str| {
            let mut fields = fields.split(',').filter_map(|field| field.split_once('='));
            fields.find(|(other, _)| *other == name)?.1.parse().ok()
        };
        Some((command.to_uppercase(), Usage { calls: field("calls")?, micros: field("usec")? }))
    };
    stats.lines().filter_map(line).collect()
}

/// Formats the difference of two usages for each of this many seconds or cycles, without the command that reads it.
pub(super) fn each(before: &BTreeMap<String, Usage>, after: &BTreeMap<String, Usage>, count: f64) -> String {
    let (mut text, mut micros) = (String::new(), 0.0);
    for (command, usage) in after.iter().filter(|(command, _)| *command != "INFO") {
        let earlier = before.get(command).copied().unwrap_or_default();
        let calls = (usage.calls - earlier.calls) / count;
        if calls > 0.0 {
            write!(text, "{calls:.1} {command}, ").expect("writing to a String succeeds");
            micros += (usage.micros - earlier.micros) / count;
        }
    }
    text + &format!("{micros:.1} us of the server")
}
