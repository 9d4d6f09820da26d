//! A running command: the signals to it, and the reasons to stop it.

use std::time::Duration;

use redlock_redis_rs::runtime::Instant;
use rustix::process::Signal;

use super::events::{Action, Output, Settings, ends};
use crate::args::Leftover;
use crate::run::tree::TREE_INTERVAL;
use crate::run::verdict::{Ended, Verdict};
use crate::run::wire::Lost;

/// The interval between two warnings about processes that do not end.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// A command that was started, until it and its descendants have ended.
pub(super) struct Work {
    started: Instant,
    ended: Option<Ended>,
    /// `true` if the command ended before it was stopped.
    by_itself: bool,
    /// `true` if the keys are gone, so that the deadline has no meaning.
    revoked: bool,
    stop: Option<Stop>,
    warn_at: Option<Instant>,
}

struct Stop {
    why: Why,
    kill_at: Instant,
    killed: bool,
}

/// The reason why the command is being stopped, the weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// A signal was forwarded, with `--kill-after`.
    Forwarded,
    /// The command has left processes behind.
    Leftover,
    MaxRuntime,
    Lost,
}

/// The present time, the end of the validity, and the settings.
#[derive(Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) now: Instant,
    pub(super) deadline: Instant,
    pub(super) settings: &'a Settings,
}

impl Work {
    pub(super) fn new(started: Instant) -> Self {
        Self { started, ended: None, by_itself: false, revoked: false, stop: None, warn_at: None }
    }

    /// Returns how the command itself ended, if it has.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Returns whether the work is over if `left` other processes are alive.
    pub(super) fn is_over(&self, left: usize, settings: &Settings) -> bool {
        let may_leave = settings.leftover == Leftover::Leave && self.stop.is_none();
        self.ended.is_some() && (left == 0 || may_leave)
    }

    /// Returns how the run ended, for a command that has ended in this way.
    pub(super) fn verdict(&self, ended: Ended, loss: Option<&str>) -> Verdict {
        match self.stop.as_ref().map(|stop| stop.why) {
            Some(Why::Lost) if !self.by_itself => {
                Verdict::Lost(loss.unwrap_or("it could not be renewed in time").to_owned())
            }
            Some(Why::MaxRuntime) if !self.by_itself => Verdict::MaxRuntime,
            _ => Verdict::Command(ended),
        }
    }

    /// Returns when to read the clock again.
    pub(super) fn wake_at(&self, at: Moment<'_>) -> Instant {
        let is_killed = self.stop.as_ref().is_some_and(|stop| stop.killed);
        let interval =
            if is_killed || self.ended.is_some() { TREE_INTERVAL } else { at.settings.times.tick() };
        let max = at.settings.max_runtime.map(|max| self.started + max);
        let due = [self.next_signal(at), max.filter(|_| self.stop.is_none())];
        let due = due.into_iter().flatten().filter(|due| *due > at.now);
        due.fold(at.now + interval, Instant::min)
    }

    /// Returns when the next signal of this supervisor is due.
    fn next_signal(&self, at: Moment<'_>) -> Option<Instant> {
        let times = &at.settings.times;
        match &self.stop {
            Some(stop) if stop.killed => None,
            Some(stop) if self.revoked => Some(stop.kill_at),
            Some(stop) => Some(stop.kill_at.min(times.kill_at(at.deadline))),
            None => Some(times.term_at(at.deadline)),
        }
    }

    /// Forwards a signal to the command, unless the terminal has also sent it there.
    pub(super) fn signal(&mut self, signal: Signal, at: Moment<'_>, out: &mut Output) {
        let settings = at.settings;
        if self.stop.as_ref().is_some_and(|stop| stop.why != Why::Forwarded) && ends(signal) {
            // A second signal: the command is being stopped already.
            return self.kill(at, out);
        }
        let is_known = match signal {
            Signal::INT | Signal::QUIT | Signal::TSTP | Signal::WINCH => !settings.own_group,
            Signal::HUP => !settings.own_group && !settings.leads_session,
            _ => false,
        };
        if !is_known {
            out.act(Action::Forward(signal));
            if signal == Signal::TSTP {
                out.act(Action::StopSelf);
            }
        }
        let kill_after = settings.kill_after.filter(|_| ends(signal) && self.stop.is_none());
        if let Some(kill_after) = kill_after {
            self.stop = Some(Stop { why: Why::Forwarded, kill_at: at.now + kill_after, killed: false });
        }
    }

    /// Handles a loss that the keeper reports.
    pub(super) fn lost(&mut self, lost: Lost, at: Moment<'_>, out: &mut Output) {
        out.record.loss = Some(lost.reason);
        if lost.revoked {
            self.revoked = true;
            self.stop(Why::Lost, at.now + at.settings.stolen_grace, at, out);
        }
        if lost.killing {
            self.stop(Why::Lost, at.now, at, out);
        }
    }

    /// Handles the end of the command itself.
    pub(super) fn end(&mut self, ended: Ended, at: Moment<'_>, out: &mut Output) {
        if self.ended.is_none() {
            out.record.ended = Some(at.now);
            self.by_itself = self.stop.as_ref().is_none_or(|stop| stop.why < Why::MaxRuntime);
            self.ended = Some(ended);
        }
    }

    /// Stops the processes that the command has left behind, unless they may go on.
    pub(super) fn stop_leftovers(&mut self, at: Moment<'_>, out: &mut Output) {
        if self.ended.is_some() && at.settings.leftover == Leftover::Kill && self.stop.is_none() {
            self.stop(Why::Leftover, at.now + at.settings.times.grace(), at, out);
        }
    }

    /// Sends the signals that are due.
    pub(super) fn tick(&mut self, at: Moment<'_>, out: &mut Output) {
        let Moment { now, deadline, settings } = at;
        let times = settings.times;
        if !self.revoked {
            if now >= times.kill_at(deadline) {
                self.stop(Why::Lost, now, at, out);
            } else if now >= times.term_at(deadline) {
                self.stop(Why::Lost, times.kill_after(now, deadline), at, out);
            }
        }
        let too_long = settings.max_runtime.is_some_and(|max| now >= self.started + max);
        if too_long && self.ended.is_none() {
            let patience = settings.kill_after.unwrap_or(times.grace());
            self.stop(Why::MaxRuntime, now + patience, at, out);
        }
        if self.stop.as_ref().is_some_and(|stop| stop.killed || now >= stop.kill_at) {
            self.kill(at, out);
        }
    }

    /// Begins to stop the command, or brings its end forward. A loss is never replaced by another reason.
    fn stop(&mut self, why: Why, kill_at: Instant, at: Moment<'_>, out: &mut Output) {
        let is_first = self.stop.as_ref().is_none_or(|stop| stop.why == Why::Forwarded);
        let stop = self.stop.get_or_insert(Stop { why, kill_at, killed: false });
        if is_first || (stop.why == Why::Leftover && why == Why::Lost) {
            stop.why = why;
        }
        stop.kill_at = stop.kill_at.min(kill_at);
        if is_first && at.now < stop.kill_at {
            out.record.term.get_or_insert(at.now);
            out.act(Action::SignalTree(at.settings.signal));
            out.act(Action::SignalTree(Signal::CONT));
        }
        if at.now >= kill_at {
            self.kill(at, out);
        }
    }

    fn kill(&mut self, at: Moment<'_>, out: &mut Output) {
        let Some(stop) = &mut self.stop else { return };
        stop.killed = true;
        out.record.kill.get_or_insert(at.now);
        if out.actions.last() != Some(&Action::SignalTree(Signal::KILL)) {
            // The signal is repeated at each tick, because new processes may have started in between.
            out.act(Action::SignalTree(Signal::KILL));
        }
        let warn_at = *self.warn_at.get_or_insert(at.now + WARNING_INTERVAL);
        if at.now >= warn_at {
            self.warn_at = Some(at.now + WARNING_INTERVAL);
            out.warn("the command does not end after SIGKILL");
        }
    }
}
