//! Servers to test against: real `redis-server` processes, and a scripted one that misbehaves.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub)] // each test binary uses a part; here a panic is a report

pub mod scripted;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A `redis-server` on a free port of the loopback, without persistence. Killed on drop.
pub struct Server {
    pub port: u16,
    args: Vec<String>,
    process: Child,
    /// Kept, because a server whose output nobody can take would die of it.
    output: BufReader<ChildStdout>,
}

impl Server {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts with more arguments, such as `["--requirepass", "secret"]`, and waits until it accepts connections.
    pub fn with(args: &[&str]) -> Self {
        let port = free_port();
        let args: Vec<_> = args.iter().map(ToString::to_string).collect();
        let (process, output) = launch(port, &args);
        Self { port, args, process, output }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Runs `redis-cli` with these arguments and returns what it prints.
    pub fn cli(&self, args: &[&str]) -> String {
        let port = self.port.to_string();
        let run = Command::new("redis-cli").args(["-p", &port]).args(args).output();
        String::from_utf8(run.expect("redis-cli is installed along with redis-server").stdout).unwrap()
    }

    /// How many clients the server has, `redis-cli` not counted.
    pub fn clients(&self) -> usize {
        self.cli(&["CLIENT", "LIST"]).lines().filter(|line| !line.contains("cmd=client|list")).count()
    }

    /// Kills it on the spot, as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again, empty, on the same port, after [`kill`](Self::kill).
    pub fn restart(&mut self) {
        let (process, output) = launch(self.port, &self.args);
        (self.process, self.output) = (process, output);
    }

    /// Hangs it: the kernel still takes connections and bytes, and nothing answers.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Undoes [`pause`](Self::pause).
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn launch(port: u16, args: &[String]) -> (Child, BufReader<ChildStdout>) {
    let port = port.to_string();
    let plain = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let mut process = Command::new("redis-server")
        .args(plain)
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .expect("these tests need redis-server in the PATH");
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("Ready to accept connections") {
        line.clear();
        assert_ne!(0, output.read_line(&mut line).unwrap(), "redis-server did not start");
    }
    (process, output)
}
