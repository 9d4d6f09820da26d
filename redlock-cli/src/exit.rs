//! Exit codes: those of sysexits.h and of `timeout`, because commands often exit with 1 or 2.

/// An exit code of this program, not of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// Success.
    Ok = 0,
    /// A check has findings.
    Findings = 1,
    /// The command line is wrong, or a run is nested in a run under the same lock.
    Usage = 64,
    /// Too few servers replied.
    Unavailable = 69,
    /// A failure of this program or of the system.
    Internal = 70,
    /// Another client holds the lock.
    Conflict = 75,
    /// A configuration file, the environment, or a name that is used for something other than a lock.
    Config = 78,
    /// The lock was lost.
    Lost = 79,
    /// The command exceeded its maximum runtime.
    TimedOut = 124,
    /// The command is not executable.
    NotExecutable = 126,
    /// The command was not found.
    NotFound = 127,
}

/// A failure with its exit code and the line that describes it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(Code::Config, message)
    }

    pub(crate) fn internal(what: &str, error: impl std::fmt::Display) -> Self {
        Self::new(Code::Internal, format!("{what}: {error}"))
    }
}
