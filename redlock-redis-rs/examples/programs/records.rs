//! Records of processes: one file each, with timestamps of the clock of this machine.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use redlock_redis_rs::runtime::suspend_aware_now;
use redlock_testkit::RedisServer;

/// A file to which one process appends lines of numbers. Each line is one system call, so a killed process tears none.
pub(crate) struct Recorder(File);

impl Recorder {
    pub(crate) fn new(file: &str) -> Self {
        Self(File::options().create(true).append(true).open(file).unwrap())
    }

    pub(crate) fn write(&mut self, numbers: &[u64]) {
        let line: Vec<_> = numbers.iter().map(u64::to_string).collect();
        self.0.write_all(format!("{}\n", line.join(" ")).as_bytes()).unwrap();
    }
}

/// Returns the lines of all files in a directory, with the number of the file.
pub(crate) fn read<const N: usize>(directory: &Path) -> Vec<(usize, [u64; N])> {
    let files =
        fs::read_dir(directory).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let line = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    };
    let lines =
        files.enumerate().map(|(file, text)| text.lines().map(|text| (file, line(text))).collect::<Vec<_>>());
    lines.flatten().collect()
}

/// Returns the time in nanoseconds. All processes of the machine have the same clock.
pub(crate) fn now() -> u64 {
    nanos(suspend_aware_now().elapsed_since_origin())
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

pub(crate) fn millis(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64() * 1000.0
}

/// Returns the addresses of servers.
pub(crate) fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

/// Starts this program again, as a process with its own record.
pub(crate) fn start(program: &str, urls: &[String], file: &Path, more: &[String]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([program, &urls.join(",")]).arg(file).args(more).spawn().unwrap()
}
