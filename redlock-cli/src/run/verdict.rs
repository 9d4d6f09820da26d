//! The end of a run, and its exit code.

use crate::exit::Code;
use crate::request::{NotAcquired, NotAcquiredKind};

/// The end of the command itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(u8),
    Killed(i32),
}

impl Ended {
    pub(crate) fn is_success(self) -> bool {
        self == Self::Exited(0)
    }
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The command ended by itself.
    Command(Ended),
    /// A signal ended the wait for the lock.
    Canceled(rustix::process::Signal),
    /// The lock was not acquired.
    NotAcquired(NotAcquired),
    /// The lock was lost, and the command was stopped.
    Lost(String),
    /// The command ended after the first signal of `--max-runtime`.
    MaxRuntime,
    /// The command could not be started.
    NotExecuted(Code, String),
    /// A failure of this program.
    Internal(String),
}

/// The end of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(u8),
    Signal(i32),
}

impl Verdict {
    pub(crate) fn exit(&self, conflict_code: u8) -> Exit {
        let code = match self {
            Self::Command(Ended::Exited(code)) => return Exit::Code(*code),
            Self::Command(Ended::Killed(signal)) => return Exit::Signal(*signal),
            Self::Canceled(signal) => return Exit::Signal(signal.as_raw()),
            Self::NotAcquired(not_acquired) => match not_acquired.kind {
                NotAcquiredKind::Conflict => return Exit::Code(conflict_code),
                NotAcquiredKind::Unavailable => Code::Unavailable,
                NotAcquiredKind::Config => Code::Config,
                NotAcquiredKind::Nested | NotAcquiredKind::Usage => Code::Usage,
                NotAcquiredKind::Canceled => Code::Internal,
            },
            Self::Lost(_) => Code::Lost,
            Self::MaxRuntime => Code::TimedOut,
            Self::NotExecuted(code, _) => *code,
            Self::Internal(_) => Code::Internal,
        };
        Exit::Code(code as u8)
    }

    /// Returns the name in a report.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Command(Ended::Exited(_)) => "exited",
            Self::Command(Ended::Killed(_)) => "signaled",
            Self::Canceled(_) => "canceled",
            Self::NotAcquired(not_acquired) => match not_acquired.kind {
                NotAcquiredKind::Conflict => "conflict",
                NotAcquiredKind::Unavailable => "unavailable",
                NotAcquiredKind::Config => "misconfigured",
                NotAcquiredKind::Nested => "nested",
                NotAcquiredKind::Usage => "usage",
                NotAcquiredKind::Canceled => "canceled",
            },
            Self::Lost(_) => "lost",
            Self::MaxRuntime => "max-runtime",
            Self::NotExecuted(..) => "not-executed",
            Self::Internal(_) => "internal",
        }
    }

    /// Returns the reason for which the lock was lost, if that ended the run.
    pub(crate) fn loss(&self) -> Option<&str> {
        if let Self::Lost(reason) = self { Some(reason) } else { None }
    }

    /// Returns the message for stderr, unless the command ended by itself.
    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Self::Command(_) | Self::Canceled(_) => None,
            Self::NotAcquired(not_acquired) => Some(not_acquired.message.clone()),
            Self::Lost(reason) => Some(format!("lock lost, command stopped: {reason}")),
            Self::MaxRuntime => Some("command ended after --max-runtime".into()),
            Self::NotExecuted(_, message) | Self::Internal(message) => Some(message.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::Signal;

    use super::*;

    #[test]
    fn every_outcome_has_its_code() {
        let not_acquired = |kind| Verdict::NotAcquired(NotAcquired { kind, message: String::new() });
        for (verdict, expected) in [
            (Verdict::Command(Ended::Exited(3)), Exit::Code(3)),
            (Verdict::Command(Ended::Killed(9)), Exit::Signal(9)),
            (Verdict::Canceled(Signal::INT), Exit::Signal(2)),
            (not_acquired(NotAcquiredKind::Conflict), Exit::Code(7)),
            (not_acquired(NotAcquiredKind::Unavailable), Exit::Code(69)),
            (not_acquired(NotAcquiredKind::Config), Exit::Code(78)),
            (not_acquired(NotAcquiredKind::Nested), Exit::Code(64)),
            (Verdict::Lost(String::new()), Exit::Code(79)),
            (Verdict::MaxRuntime, Exit::Code(124)),
            (Verdict::NotExecuted(Code::NotFound, String::new()), Exit::Code(127)),
            (Verdict::Internal(String::new()), Exit::Code(70)),
        ] {
            assert_eq!(expected, verdict.exit(7), "{verdict:?}");
        }
    }
}
