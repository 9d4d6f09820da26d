//! The supervisor: carries out what the [machine](super::machine) decides.
//!
//! One thread waits for signals, the keeper, and the clock, in one `poll`. It must not block anywhere else. The command
//! is started by this thread too: its death signal depends on the thread that has started it.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use redlock_redis_rs::runtime::{Instant, suspend_aware_now};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use super::board::Board;
use super::environment::{Environment, HOLDERS};
use super::exec::{self, EXEC};
use super::keeper::KEEPER;
use super::machine::{Action, Event, Machine, Settings};
use super::procfs;
use super::report::Report;
use super::signals::Signals;
use super::tree::Tree;
use super::verdict::{Ended, Exit, Verdict};
use super::wire::{self, FromKeeper, Held, Lines, Task, ToKeeper};
use crate::exit::{Code, Failure};
use crate::messages::Messages;
use crate::request::Kind;
use crate::settings::SECRET_VARIABLES;

/// Everything that a run needs.
pub(crate) struct Plan {
    pub(crate) task: Task,
    pub(crate) settings: Settings,
    pub(crate) command: Vec<OsString>,
    pub(crate) holders: Option<String>,
    pub(crate) pass_credentials: bool,
    pub(crate) conflict_code: u8,
}

/// The end of a run.
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) exit: Exit,
    pub(crate) report: Report,
}

/// Runs the command under its lock.
pub(crate) fn supervise(plan: Plan, messages: &Messages) -> Result<Outcome, Failure> {
    let fail = |error: io::Error| Failure::internal("cannot start", error);
    let signals = Signals::new().map_err(fail)?;
    // This precedes the start of the keeper.
    let mut initial_children = procfs::children();
    adopt_orphans();
    let board = Board::new().map_err(fail)?;
    let (socket, other) = UnixStream::pair().map_err(fail)?;
    initial_children.push(start_keeper(other, &board).map_err(fail)?);
    socket.set_nonblocking(true).map_err(fail)?;
    let Plan { task, settings, command, holders, pass_credentials, conflict_code } = plan;
    let own_group = settings.own_group;
    let mut supervisor = Supervisor {
        keeper: Some(socket),
        unsent: Vec::new(),
        received: Lines::default(),
        kind: task.kind,
        resources: task.resources.clone(),
        owner: task.owner.clone(),
        ttl: task.ttl,
        machine: Machine::new(settings),
        signals,
        board,
        initial_children,
        command,
        own_group,
        holders,
        pass_credentials,
        child: None,
        ended: None,
        warned: false,
        messages,
    };
    supervisor.send(&ToKeeper::Task(Box::new(task)));
    let verdict = supervisor.run();
    let exit = verdict.exit(conflict_code);
    let Supervisor { machine, board, ended, .. } = supervisor;
    let report = Report::new(&verdict, exit, ended, machine.record(), board.get());
    Ok(Outcome { verdict, exit, report })
}

/// Becomes the parent of processes whose own parent has ended.
fn adopt_orphans() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    // Otherwise, processes that fork twice would not be found.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

fn start_keeper(socket: UnixStream, board: &Board) -> io::Result<i32> {
    let mut keeper = own_program()?;
    keeper.arg(KEEPER).stdin(OwnedFd::from(socket)).stdout(board.share()?).stderr(Stdio::null());
    for name in SECRET_VARIABLES {
        keeper.env_remove(name);
    }
    // Thus a keeper does not kill the keepers of nested runs.
    keeper.env_remove(HOLDERS);
    let child = keeper.spawn()?;
    Ok(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

/// Returns a command that runs this very program, even if its file was replaced.
fn own_program() -> io::Result<Command> {
    let path = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe()? };
    let mut command = Command::new(path);
    command.arg0("redlock");
    Ok(command)
}

struct Supervisor<'a> {
    machine: Machine,
    signals: Signals,
    /// `None` when it has ended.
    keeper: Option<UnixStream>,
    unsent: Vec<u8>,
    received: Lines,
    board: Board,
    initial_children: Vec<i32>,
    command: Vec<OsString>,
    own_group: bool,
    kind: Kind,
    resources: Vec<Vec<u8>>,
    owner: String,
    ttl: Duration,
    holders: Option<String>,
    pass_credentials: bool,
    child: Option<(Pid, Tree)>,
    ended: Option<Ended>,
    warned: bool,
    messages: &'a Messages,
}

impl Supervisor<'_> {
    fn run(&mut self) -> Verdict {
        loop {
            self.read_keeper();
            self.take_signals();
            self.look_at_command();
            self.machine.tick(suspend_aware_now());
            loop {
                let actions = self.machine.actions();
                if actions.is_empty() {
                    break;
                }
                for action in actions {
                    if let Some(verdict) = self.perform(action) {
                        return verdict;
                    }
                }
            }
            self.wait();
        }
    }

    fn handle(&mut self, event: Event) {
        self.machine.handle(event, suspend_aware_now());
    }

    fn read_keeper(&mut self) {
        self.flush();
        let mut bytes = [0; 4096];
        while let Some(keeper) = &mut self.keeper {
            match keeper.read(&mut bytes) {
                Ok(0) => self.keeper = None,
                Ok(count) => self.received.push(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.keeper = None,
            }
        }
        // The keeper writes to the board before it sends.
        if let Some(deadline) = self.board.get() {
            self.machine.learn(deadline);
        }
        while let Some(message) = self.received.next::<FromKeeper>() {
            self.handle(Event::Keeper(message));
        }
        if self.keeper.is_none() {
            self.handle(Event::KeeperGone);
        }
    }

    fn take_signals(&mut self) {
        for signal in self.signals.take() {
            if signal != Signal::CHILD {
                self.handle(Event::Signal(signal));
            } else if let Some((_, tree)) = &self.child {
                tree.reap();
            }
        }
    }

    /// Checks the command without reaping it: its pid stays in use until this process ends.
    fn look_at_command(&mut self) {
        let Some((pid, _)) = self.child else { return };
        if self.ended.is_none() {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            if let Ok(Some(status)) = waitid(WaitId::Pid(pid), options) {
                let code = status.exit_status().and_then(|code| u8::try_from(code & 0xff).ok());
                let signal = status.terminating_signal().unwrap_or(Signal::KILL.as_raw());
                let ended = code.map_or(Ended::Killed(signal), Ended::Exited);
                self.ended = Some(ended);
                // A keeper that kills sends a message first. The message may have arrived after the last read of the
                // socket.
                self.read_keeper();
                self.handle(Event::Ended(ended));
            } else if let Ok(Some(_)) =
                waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG)
            {
                self.handle(Event::Stopped);
            }
        }
        if self.machine.watches_tree() {
            let left = self.child.as_ref().map_or(0, |(_, tree)| tree.left());
            self.handle(Event::Left(left));
        }
    }

    fn perform(&mut self, action: Action) -> Option<Verdict> {
        match action {
            Action::Spawn(held) => self.start_command(&held),
            Action::Forward(signal) => {
                let sent = self.child.as_ref().map(|(pid, tree)| (*pid, tree.forward(signal)));
                if let Some((pid, Err(error))) = sent {
                    self.cannot_signal(pid.as_raw_nonzero().get(), error);
                }
            }
            Action::SignalTree(signal) => {
                let sent = self.child.as_ref().map(|(_, tree)| tree.signal(signal));
                if let Some(Err((pid, error))) = sent {
                    self.cannot_signal(pid, error);
                }
            }
            Action::Send(message) => self.send(&message),
            Action::StopSelf => {
                let _ = signal_hook::low_level::emulate_default_handler(Signal::TSTP.as_raw());
            }
            Action::Warn(text) => self.messages.warn(&text),
            Action::Note(text) => self.messages.note(&text),
            Action::Exit(verdict) => return Some(verdict),
        }
        None
    }

    fn start_command(&mut self, held: &Held) {
        let event = match self.spawn(held) {
            Ok(pid) => {
                let own_group = self.own_group;
                self.child = Some((pid, Tree::new(pid, own_group, self.initial_children.clone())));
                self.send(&ToKeeper::Started { pid: pid.as_raw_nonzero().get(), own_group });
                Event::Started
            }
            Err(error) => Event::NotStarted(Verdict::NotExecuted(
                Code::Internal,
                format!("cannot start a process: {error}"),
            )),
        };
        self.handle(event);
    }

    fn spawn(&self, held: &Held) -> io::Result<Pid> {
        let mut command = own_program()?;
        let own = rustix::process::getpid().as_raw_nonzero();
        command.arg(EXEC).arg(own.to_string()).arg(exec::format(&self.signals.blocked)).args(&self.command);
        let environment = Environment {
            kind: self.kind,
            resources: &self.resources,
            held,
            owner: &self.owner,
            ttl: self.ttl,
            holders: self.holders.as_deref(),
            pass_credentials: self.pass_credentials,
        };
        for (name, value) in environment.variables() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if self.own_group {
            command.process_group(0);
        }
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        pid.ok_or_else(|| io::Error::other("the process id is out of range"))
    }

    /// Warns once that a process cannot be signaled. Usually the process belongs to another user.
    fn cannot_signal(&mut self, pid: i32, error: Errno) {
        if error != Errno::SRCH && !std::mem::replace(&mut self.warned, true) {
            self.messages
                .warn(&format!("cannot signal process {pid}: {error}; the lock may end before it does"));
        }
    }

    fn send(&mut self, message: &ToKeeper) {
        self.unsent.extend(wire::line(message));
        self.flush();
    }

    /// Writes as much as the socket accepts, and never waits.
    fn flush(&mut self) {
        while let Some(keeper) = self.keeper.as_mut().filter(|_| !self.unsent.is_empty()) {
            match keeper.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The keeper has ended, which the next read detects.
                Err(_) => self.unsent.clear(),
            }
        }
    }

    /// Waits for a signal, the keeper, or the next time.
    fn wait(&self) {
        let now = suspend_aware_now();
        let timeout = self.machine.wake_at(now).map(|wake| timespec(wake, now));
        let mut fds = vec![PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN)];
        if let Some(keeper) = &self.keeper {
            let out = if self.unsent.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            fds.push(PollFd::from_borrowed_fd(keeper.as_fd(), PollFlags::IN | out));
        }
        // An interruption is a signal. After any other failure, all sources are checked again.
        let _ = poll(&mut fds, timeout.as_ref());
    }
}

/// Returns the time until `wake`, at least a tenth of a millisecond.
fn timespec(wake: Instant, now: Instant) -> Timespec {
    let wait = wake.saturating_duration_since(now).max(Duration::from_micros(100));
    let seconds = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: wait.subsec_nanos().into() }
}
