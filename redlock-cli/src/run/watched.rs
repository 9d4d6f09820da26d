//! A process that another program has started.

use rustix::process::{Pid, Signal};

use crate::exit::Failure;

/// A process that is watched, and recognized even if its number is reused.
pub(crate) struct Watched {
    #[cfg(target_os = "linux")]
    handle: std::os::fd::OwnedFd,
    #[cfg(not(target_os = "linux"))]
    pid: Pid,
}

impl Watched {
    pub(crate) fn new(pid: i32) -> Result<Self, Failure> {
        let missing = || Failure::usage(format!("no process {pid}"));
        let pid = Some(pid).filter(|pid| *pid > 1).and_then(Pid::from_raw).ok_or_else(missing)?;
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{PidfdFlags, pidfd_open};

            Ok(Self { handle: pidfd_open(pid, PidfdFlags::empty()).map_err(|_| missing())? })
        }
        #[cfg(not(target_os = "linux"))]
        {
            rustix::process::test_kill_process(pid).map_err(|_| missing())?;
            Ok(Self { pid })
        }
    }

    /// Returns whether it has not ended.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_alive(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready == 0)
    }

    /// Returns whether it has not ended.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn is_alive(&self) -> bool {
        rustix::process::test_kill_process(self.pid).is_ok()
    }

    /// Sends a signal. A process that may not be signaled is left alone.
    pub(crate) fn send(&self, signal: Signal) {
        #[cfg(target_os = "linux")]
        let _ = rustix::process::pidfd_send_signal(&self.handle, signal);
        #[cfg(not(target_os = "linux"))]
        let _ = rustix::process::kill_process(self.pid, signal);
    }
}
