//! The signals of the supervisor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::sys::signal::SigSet;
use rustix::process::Signal;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

/// The signals that are handled, apart from `SIGCHLD`.
const HANDLED: [Signal; 9] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::CONT,
    Signal::TSTP,
];

/// The signals that have arrived.
pub(crate) struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    /// The signals that were blocked on entry, for the command.
    pub(crate) blocked: SigSet,
}

impl Signals {
    /// Handles signals from now on, except those that are ignored.
    ///
    /// A signal that is ignored on entry stays ignored, here and in the command: `nohup` and `&` depend on it.
    pub(crate) fn new() -> io::Result<Self> {
        let blocked = SigSet::thread_get_mask()?;
        let ignored = ignored();
        let handled = HANDLED.into_iter().filter(|signal| ignored & bit(*signal) == 0);
        let handled = handled.chain([Signal::CHILD]).map(Signal::as_raw);
        let (read, write) = UnixStream::pair()?;
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, handled)?;
        SigSet::all().thread_unblock()?;
        Ok(Self { delivery, blocked })
    }

    /// Returns the signals that have arrived since the last call.
    pub(crate) fn take(&mut self) -> Vec<Signal> {
        self.delivery.pending().filter_map(Signal::from_named_raw).collect()
    }
}

/// Readable when a signal has arrived.
impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }
}

/// Blocks exactly these signals.
pub(crate) fn block(signals: &SigSet) -> io::Result<()> {
    Ok(signals.thread_set_mask()?)
}

/// Installs empty handlers for signals that request the end of a program.
///
/// The signals are not set to be ignored, because a child would inherit that.
pub(crate) fn shrug_off() -> io::Result<()> {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    let nothing = Arc::new(AtomicBool::new(false));
    for signal in
        [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::ALARM]
    {
        signal_hook::flag::register(signal.as_raw(), Arc::clone(&nothing))?;
    }
    Ok(())
}

/// Returns whether a signal is ignored.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    ignored() & bit(signal) != 0
}

fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// Returns the ignored signals as bits. They are unknown on systems other than Linux, so none is returned.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or_default()
}

/// Parses a signal's name, with or without `SIG`, or its number.
pub(crate) fn parse(name: &str) -> Option<Signal> {
    if let Ok(number) = name.parse() {
        return Signal::from_named_raw(number);
    }
    let name = name.to_ascii_uppercase();
    let name = if name.starts_with("SIG") { name } else { format!("SIG{name}") };
    name.parse::<nix::sys::signal::Signal>().ok().and_then(|signal| Signal::from_named_raw(signal as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for name in ["TERM", "SIGTERM", "sigterm", "15"] {
            assert_eq!(Some(Signal::TERM), parse(name), "{name}");
        }
        for wrong in ["", "0", "-1", "999", "SIGNAL"] {
            assert_eq!(None, parse(wrong), "{wrong}");
        }
    }
}
