//! A client process on a host.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::host::Host;

/// The time limit for the end of a process that is not disturbed. Its requests and leases end within 15 s, and its
/// cleanup within 30 s.
const END_LIMIT: Duration = Duration::from_secs(60);

/// The arguments of all client processes.
pub(crate) struct Arguments {
    pub(crate) adapter: String,
    pub(crate) admission: &'static str,
    pub(crate) nodes: String,
    pub(crate) seed: u64,
}

pub(crate) struct Client {
    pub(crate) host: Host,
    number: usize,
    /// How many processes this host has had.
    started: u64,
    process: Option<Child>,
}

impl Client {
    pub(crate) fn new(number: usize) -> Self {
        let host = Host::new(&format!("c{}", number + 1), number + 101);
        Self { host, number, started: 0, process: None }
    }

    /// Returns the name of the current process.
    pub(crate) fn process_name(&self) -> String {
        format!("{}.{}", self.host.name, self.started)
    }

    pub(crate) fn start(&mut self, arguments: &Arguments, directory: &Path) -> Result<(), Box<dyn Error>> {
        self.started += 1;
        let name = self.process_name();
        let Arguments { adapter, admission, nodes, seed } = arguments;
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(self.number as u64 * 1_000 + self.started);
        let file = |extension: &str| File::create_new(directory.join(format!("{name}.{extension}")));
        let mut command = Command::new(std::env::current_exe()?.with_file_name("history-client"));
        command
            .args([name.as_str(), adapter, admission, &seed.to_string(), nodes])
            .stdin(Stdio::piped())
            .stdout(file("jsonl")?)
            .stderr(file("log")?);
        self.process = Some(self.host.within(|| command.spawn())?);
        Ok(())
    }

    /// Kills the process.
    ///
    /// # Errors
    ///
    /// If it had ended before.
    pub(crate) fn kill(&mut self) -> Result<(), Box<dyn Error>> {
        let name = self.process_name();
        let mut process = self.process.take().ok_or("no process")?;
        if let Some(status) = process.try_wait()? {
            return Err(format!("the process {name} ended with {status}").into());
        }
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    /// Stops the process. When this returns, it does nothing any more.
    pub(crate) fn pause(&self) -> Result<(), Box<dyn Error>> {
        kill_process(self.pid()?, Signal::STOP)?;
        waitid(
            WaitId::Pid(self.pid()?),
            WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )?;
        Ok(())
    }

    pub(crate) fn resume(&self) -> Result<(), Box<dyn Error>> {
        Ok(kill_process(self.pid()?, Signal::CONT)?)
    }

    /// Requests the end of the process.
    pub(crate) fn request_end(&mut self) {
        drop(self.process.as_mut().and_then(|process| process.stdin.take()));
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    ///
    /// If it failed, or does not end.
    pub(crate) fn wait(&mut self) -> Result<(), Box<dyn Error>> {
        let name = self.process_name();
        let process = self.process.as_mut().ok_or("no process")?;
        let start = Instant::now();
        while start.elapsed() < END_LIMIT {
            match process.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("the process {name} ended with {status}").into()),
                None => thread::sleep(Duration::from_millis(10)),
            }
        }
        Err(format!("the process {name} did not end within {END_LIMIT:?}").into())
    }

    fn pid(&self) -> Result<Pid, Box<dyn Error>> {
        Ok(Pid::from_child(self.process.as_ref().ok_or("no process")?))
    }
}

/// Kills the process, if the run ends early.
impl Drop for Client {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // Both fail only if the process has ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
