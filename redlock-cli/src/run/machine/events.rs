//! The events and actions of a run, and its settings.

use std::time::Duration;

use redlock_redis_rs::runtime::Instant;
use rustix::process::Signal;

use crate::args::Leftover;
use crate::run::keep::Keep;
use crate::run::timing::Times;
use crate::run::verdict::{Ended, Verdict};
use crate::run::wire::{FromKeeper, Held, ToKeeper};

/// The options that the decisions depend on.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) times: Times,
    /// `true` if the command leads its own process group.
    pub(crate) own_group: bool,
    /// `true` if this process leads its session: the system reports a closed terminal to it alone.
    pub(crate) leads_session: bool,
    /// The first signal that stops the command.
    pub(crate) signal: Signal,
    pub(crate) stolen_grace: Duration,
    pub(crate) max_runtime: Option<Duration>,
    pub(crate) kill_after: Option<Duration>,
    /// The treatment of processes that the command leaves behind.
    pub(crate) leftover: Leftover,
    /// The time limit for a quorum to confirm the release, or that it keeps the lock.
    pub(crate) release_limit: Duration,
    /// `true` if stderr is a terminal, so that waiting must be explained.
    pub(crate) shows_waits: bool,
    pub(crate) keep: Option<Keep>,
}

/// An event of a run.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Keeper(FromKeeper),
    /// The keeper has ended.
    KeeperGone,
    Signal(Signal),
    Started,
    NotStarted(Verdict),
    /// The command itself has ended.
    Ended(Ended),
    /// The command was stopped, for example with Ctrl-Z.
    Stopped,
    /// The number of processes of the command that are left, without the command itself.
    Left(usize),
}

/// An action of the supervisor.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    Spawn(Held),
    /// Forwards a signal to the command's group, or only to the command if it has no separate group.
    Forward(Signal),
    /// Signals the command and all its descendants.
    SignalTree(Signal),
    Send(ToKeeper),
    StopSelf,
    /// Prints a line unless `-q` is set.
    Warn(String),
    /// Prints a line with `-v`.
    Note(String),
    Exit(Verdict),
}

/// The record of a run, with times on the boot clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) held: Option<Held>,
    pub(crate) started: Option<Instant>,
    pub(crate) term: Option<Instant>,
    pub(crate) kill: Option<Instant>,
    pub(crate) ended: Option<Instant>,
    pub(crate) empty: Option<Instant>,
    pub(crate) loss: Option<String>,
    pub(crate) kept: Option<Duration>,
}

/// The results of events: actions that are to be carried out, and the record of the run.
#[derive(Default)]
pub(super) struct Output {
    pub(super) actions: Vec<Action>,
    pub(super) record: Record,
}

impl Output {
    pub(super) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    pub(super) fn warn(&mut self, message: impl Into<String>) {
        self.act(Action::Warn(message.into()));
    }

    pub(super) fn note(&mut self, message: impl Into<String>) {
        self.act(Action::Note(message.into()));
    }

    /// Takes back the order to start the command.
    pub(super) fn withdraw_spawn(&mut self) {
        self.actions.retain(|action| !matches!(action, Action::Spawn(_)));
    }
}

/// Returns whether a signal requests the end of a program.
pub(super) fn ends(signal: Signal) -> bool {
    matches!(signal, Signal::INT | Signal::TERM | Signal::HUP | Signal::QUIT)
}
