//! The step between the supervisor and the command: `redlock __exec PARENT BLOCKED COMMAND ARGS...`.
//!
//! The process prepares itself and then becomes the command. A process that prepares its child between fork and exec
//! would need unsafe code.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getppid};

use super::signals;
use crate::exit::{Code, Failure};

/// The hidden first argument.
pub(crate) const EXEC: &str = "__exec";

/// Becomes the command.
pub(crate) fn main(mut args: impl Iterator<Item = OsString>) -> Result<Infallible, Failure> {
    let mut number = || args.next().and_then(|arg| arg.into_string().ok());
    let parent = number().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    let blocked = number().unwrap_or_default();
    let (Some(parent), Some(program)) = (parent, args.next()) else {
        return Err(Failure::usage(format!("{EXEC} is not for users")));
    };
    end_with_parent(parent)?;
    signals::block(&parse(&blocked)).map_err(|error| Failure::internal("cannot block signals", error))?;
    let error = Command::new(&program).args(args).exec();
    Err(Failure::new(code(&error), format!("cannot execute {}: {error}", program.to_string_lossy())))
}

/// The kernel kills this process when its parent, the supervisor, ends.
fn end_with_parent(parent: Pid) -> Result<(), Failure> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::process::set_parent_process_death_signal;

        let signal = Some(rustix::process::Signal::KILL);
        set_parent_process_death_signal(signal).map_err(|error| Failure::internal("prctl", error))?;
    }
    // The supervisor may have ended before that.
    if getppid() == Some(parent) { Ok(()) } else { Err(Failure::new(Code::Internal, "the supervisor ended")) }
}

fn code(error: &io::Error) -> Code {
    if error.kind() == ErrorKind::NotFound { Code::NotFound } else { Code::NotExecutable }
}

/// Formats signals as an argument.
pub(super) fn format(signals: &SigSet) -> String {
    signals.iter().map(|signal| (signal as i32).to_string()).collect::<Vec<_>>().join(",")
}

fn parse(argument: &str) -> SigSet {
    argument.split(',').filter_map(|number| Signal::try_from(number.parse::<i32>().ok()?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_parsed_as_formatted() {
        for signals in [SigSet::empty(), SigSet::from(Signal::SIGALRM), SigSet::all()] {
            assert_eq!(signals, parse(&format(&signals)));
        }
    }
}
