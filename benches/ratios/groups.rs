//! The measurements: one file for each section of the table.

pub(crate) mod admission;
pub(crate) mod core;
pub(crate) mod faults;
pub(crate) mod fenced;
pub(crate) mod healthy;
pub(crate) mod keepalive;
pub(crate) mod lists;
pub(crate) mod memory;
pub(crate) mod native;
pub(crate) mod network;
pub(crate) mod resources;
mod usage;

use redlock_testkit::RedisServer;

/// Starts the servers of a group, and returns them with their addresses.
pub(crate) fn servers(count: usize) -> (Vec<RedisServer>, Vec<String>) {
    let servers = RedisServer::start_many(count);
    let urls = servers.iter().map(RedisServer::url).collect();
    (servers, urls)
}

fn micros(time: f64) -> String {
    format!("{time:.1} us")
}

/// Returns the CPU time of all servers, in microseconds.
fn server_cpu(servers: &[RedisServer]) -> f64 {
    let used = |server: &RedisServer| {
        let info = server.command(&["INFO", "cpu"]);
        let seconds = |name: &str| {
            let text = info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
            text.expect("a server reports its CPU time")
        };
        seconds("used_cpu_user:") + seconds("used_cpu_sys:")
    };
    servers.iter().map(used).sum::<f64>() * 1e6
}
