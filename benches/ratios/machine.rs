//! A description of the machine, without its names or paths.

use std::fs;
use std::process::Command;

/// Returns one line per fact.
pub(crate) fn describe() -> String {
    let facts = [
        ("CPU", cpu()),
        ("system", output("uname", &["-sm"])),
        ("server", output("redis-server", &["--version"])),
        ("compiler", output("rustc", &["--version"])),
        ("clients", clients()),
        ("load before the run", load()),
    ];
    facts.map(|(name, fact)| format!("- {name}: {fact}\n")).concat()
}

fn cpu() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {cores} cores", model.map_or("unknown", |(_, model)| model))
}

/// Returns the load average of the last minute, which shows other work of the machine.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown").to_owned()
}

/// Returns the versions in the lock file.
fn clients() -> String {
    let lock = include_str!("../../Cargo.lock");
    let version = |name: &str| {
        let entry = format!("name = \"{name}\"\nversion = \"");
        let rest = lock.split_once(&entry).map_or("?", |(_, rest)| rest);
        format!("{name} {}", rest.split('"').next().unwrap_or("?"))
    };
    ["redis", "fred", "rslock", "tokio"].map(version).join(", ")
}

/// Returns the version that a program prints, without build details.
fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let text = text.split(" sha=").next().unwrap_or_default().trim();
    if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
}
