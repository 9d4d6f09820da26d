//! The processes of the command: itself, its group, and all its descendants.
//!
//! On Linux the supervisor adopts orphans of the command, so a process that forks twice or begins a new session is
//! still found. On other systems only the group can be signaled, or only the command if it has no separate group.

use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use super::procfs::{self, Process};

/// The process name of keepers, including those of nested runs.
///
/// Keepers end by themselves, after they have released their locks.
pub(crate) const KEEPER_NAME: &str = "redlock-keeper";

/// The interval between two checks of processes that must end.
pub(crate) const TREE_INTERVAL: Duration = Duration::from_millis(10);

/// The processes of the command, for the supervisor.
pub(crate) struct Tree {
    /// The supervisor.
    root: i32,
    command: Pid,
    own_group: bool,
    /// The children that the supervisor had at its start, which a process after `exec` may have.
    initial_children: Vec<i32>,
}

impl Tree {
    pub(crate) fn new(command: Pid, own_group: bool, initial_children: Vec<i32>) -> Self {
        let root = rustix::process::getpid().as_raw_nonzero().get();
        Self { root, command, own_group, initial_children }
    }

    /// Forwards a signal to the command's group, or only to the command if it has no separate group.
    ///
    /// The command has not been reaped, so the number is not that of another process.
    pub(crate) fn forward(&self, signal: Signal) -> Result<(), Errno> {
        if self.own_group {
            kill_process_group(self.command, signal)
        } else {
            kill_process(self.command, signal)
        }
    }

    /// Signals the command and its descendants. Returns a process that could not be signaled, with the reason.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), (i32, Errno)> {
        let command = self.command.as_raw_nonzero().get();
        let mut result = match self.forward(signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err((command, error)),
        };
        for process in self.living() {
            let is_reached = process.pid == command || (self.own_group && process.group == command);
            let sent = if is_reached { Ok(()) } else { send(&process, signal) };
            result = sent.map_err(|error| (process.pid, error)).and(result);
        }
        result
    }

    /// Returns the number of processes that are alive, without the command itself.
    pub(crate) fn left(&self) -> usize {
        if self.has_ended() {
            return 0;
        }
        let command = self.command.as_raw_nonzero().get();
        self.living().iter().filter(|process| process.pid != command).count()
    }

    /// Returns whether no child is alive. Then no descendant is either, because orphans become children.
    ///
    /// It checks only the children, not all processes of the machine.
    fn has_ended(&self) -> bool {
        loop {
            let children = procfs::children();
            let processes = children.iter().filter_map(|pid| Process::get(*pid));
            if processes.into_iter().any(|process| process.is_alive() && !self.is_foreign(&process)) {
                return false;
            }
            // A child that ended after the first list has left its own children to the second one.
            if procfs::children() == children {
                return true;
            }
        }
    }

    /// Removes adopted processes that have ended. The command stays until this process ends.
    pub(crate) fn reap(&self) {
        let command = self.command.as_raw_nonzero().get();
        let adopted = |pid: &i32| *pid != command && !self.initial_children.contains(pid);
        for pid in procfs::children().into_iter().filter(adopted) {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
        }
    }

    fn living(&self) -> Vec<Process> {
        let mut all = procfs::descendants(&procfs::all(), self.root, |process| self.is_foreign(process));
        all.retain(Process::is_alive);
        all
    }

    fn is_foreign(&self, process: &Process) -> bool {
        self.initial_children.contains(&process.pid) || is_keeper(process.pid)
    }
}

/// The supervisor, for its keeper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Supervisor {
    pub(crate) pid: i32,
}

impl Supervisor {
    /// Returns its process if it is still the parent of this one.
    ///
    /// The parent of an orphan is the first process of the system, and all others are among its descendants.
    fn living(self) -> Option<i32> {
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        Some(self.pid).filter(|pid| Some(*pid) == parent)
    }
}

/// Returns the processes of a command whose supervisor is stopped or dead.
///
/// They are those of its own group, the descendants of the supervisor, and those that have the holder in their
/// environment.
pub(crate) fn of_holder(holder: &str, group: Option<i32>, supervisor: Option<Supervisor>) -> Vec<Process> {
    let all = procfs::all();
    let supervisor = supervisor.and_then(Supervisor::living);
    let below = supervisor.map(|pid| procfs::descendants(&all, pid, |process| is_keeper(process.pid)));
    let is_below = |pid| below.iter().flatten().any(|process| process.pid == pid);
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let belongs = |process: &Process| {
        Some(process.group) == group
            || is_below(process.pid)
            || procfs::environment_has(process.pid, super::environment::HOLDERS, holder)
    };
    let is_excluded = |process: &Process| [1, own].contains(&process.pid) || is_keeper(process.pid);
    all.into_iter()
        .filter(|process| process.is_alive() && !is_excluded(process) && belongs(process))
        .collect()
}

/// Signals a process, unless its number has been reused.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn send(process: &Process, signal: Signal) -> Result<(), Errno> {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    let Some(pid) = Pid::from_raw(process.pid) else { return Ok(()) };
    let sent = pidfd_open(pid, PidfdFlags::empty()).and_then(|handle| {
        let is_same = Process::get(process.pid).is_some_and(|now| now.started == process.started);
        if is_same { pidfd_send_signal(handle, signal) } else { Ok(()) }
    });
    sent.or_else(|error| if error == Errno::SRCH { Ok(()) } else { Err(error) })
}

/// Never called: there is no list of processes.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn send(process: &Process, signal: Signal) -> Result<(), Errno> {
    Pid::from_raw(process.pid).map_or(Ok(()), |pid| kill_process(pid, signal))
}

fn is_keeper(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == KEEPER_NAME)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// A keeper whose supervisor has ended has the first process of the system as its parent.
    #[test]
    fn processes_of_another_parent_are_never_signaled() {
        let own = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        for other in [1, own + 1, i32::MAX] {
            if other != own {
                assert!(of_holder("no-such-holder", None, Some(Supervisor { pid: other })).is_empty());
            }
        }
    }
}
