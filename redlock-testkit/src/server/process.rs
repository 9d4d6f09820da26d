//! One run of a server: its start, its signals, and its end.
//!
//! The process that replies on a port may not be the one that was started: another process may have taken the port
//! first. The server therefore counts as ready only when it reports the process id of this child.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::builder::RedisServerBuilder;
use super::console::{Console, Reply};

/// The time limit of a start with loading of data, even on a very busy machine.
const START_LIMIT: Duration = Duration::from_secs(20);

/// The time limit of a check. It is short, since another process may listen there and never reply.
const CHECK_LIMIT: Duration = Duration::from_millis(200);

const ENDED: &str = "the server has ended; restart it first";

/// A running server. Dropping it kills it, even if it is stopped, and waits for its end.
pub(super) struct Process {
    child: Child,
    paused: bool,
}

/// The reason why a server did not start.
pub(super) enum Failed {
    /// Another process uses the port.
    PortTaken,
    /// Any other reason, human-readable.
    Otherwise(String),
}

impl Process {
    pub(super) fn start(builder: &RedisServerBuilder, port: u16, directory: &Path) -> Result<Self, Failed> {
        let program = program(builder);
        let otherwise = |error: std::io::Error| Failed::Otherwise(format!("cannot start {program}: {error}"));
        let configuration = directory.join("server.conf");
        fs::write(&configuration, builder.configuration(port, directory)).map_err(otherwise)?;
        let output = File::create(directory.join("server.out")).map_err(otherwise)?;
        // The log must contain only this run.
        let _ = fs::remove_file(directory.join("server.log"));
        let child = Command::new(&program)
            .arg(configuration)
            .args(&builder.args)
            .envs(builder.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(otherwise)?)
            .stderr(output)
            .spawn()
            .map_err(|error| {
                Failed::Otherwise(format!(
                    "cannot start {program}: {error}. This test needs a real server: install redis-server (Debian, \
                     Ubuntu: apt-get install redis-server; macOS: brew install redis), or name the program in the \
                     environment variable REDLOCK_SERVER"
                ))
            })?;
        // From here on an early return kills the child.
        let mut process = Self { child, paused: false };
        process.wait_until_ready(builder, port, directory, &program)?;
        Ok(process)
    }

    /// Stops the process. When this returns, it does nothing any more.
    #[track_caller]
    pub(super) fn pause(&mut self) {
        if !self.paused {
            self.signal(Signal::STOP);
            // Waits only for the stop, and fails if the child has ended. Its end is not reaped here.
            let stopped = waitid(WaitId::Pid(self.pid()), WaitIdOptions::STOPPED);
            assert!(stopped.is_ok(), "{ENDED}");
            self.paused = true;
        }
    }

    #[track_caller]
    pub(super) fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.paused = false;
    }

    fn wait_until_ready(
        &mut self,
        builder: &RedisServerBuilder,
        port: u16,
        directory: &Path,
        program: &str,
    ) -> Result<(), Failed> {
        let console = Console { port, password: builder.password.clone() };
        let deadline = Instant::now() + START_LIMIT;
        let output = || {
            let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap_or_default();
            read("server.log") + &read("server.out")
        };
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                let output = output();
                return Err(if output.contains("Address already in use") {
                    Failed::PortTaken
                } else {
                    Failed::Otherwise(format!(
                        "{program} exited at startup with {status}. Its output:\n{output}"
                    ))
                });
            }
            if self.serves_port(&console) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let output = output();
                return Err(Failed::Otherwise(format!(
                    "{program} not ready on port {port} after {START_LIMIT:?}. Its output:\n{output}"
                )));
            }
            thread::sleep(Duration::from_millis(2)); // the server has no other way to signal that it is ready
        }
    }

    /// Returns whether this child is the process that serves the port.
    fn serves_port(&self, console: &Console) -> bool {
        let ready =
            matches!(console.try_reply(&[b"PING"], CHECK_LIMIT), Ok(Reply::Bytes(pong)) if pong == b"PONG");
        let own_id = format!("process_id:{}\r\n", self.child.id());
        ready
            && console
                .try_reply(&[b"INFO", b"server"], CHECK_LIMIT)
                .is_ok_and(|info| info.text().contains(&own_id))
    }

    /// Sends a signal to the server, which must run: the system may have given its process id to another process.
    #[track_caller]
    fn signal(&mut self, signal: Signal) {
        assert!(matches!(self.child.try_wait(), Ok(None)), "{ENDED}");
        kill_process(self.pid(), signal).expect("a child that was not reaped can be signaled");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

/// Kills the server and waits for its end, even if it is stopped: `SIGKILL` also ends stopped processes.
impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the child no longer exists.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(builder: &RedisServerBuilder) -> String {
    let named = builder.program.clone().or_else(|| std::env::var("REDLOCK_SERVER").ok());
    named.unwrap_or_else(|| "redis-server".into())
}
