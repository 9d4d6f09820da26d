//! The decisions of the supervisor, without any I/O.
//!
//! Events go in (messages of the keeper, signals, changes of the command, the clock), and [actions](Action) come out.
//! The [supervisor](super::supervisor) carries them out in order.
//!
//! ```text
//! Asking --held--> Starting --started--> Working --tree is dead--> Releasing --> over
//!   |                                     TERM and KILL at their times
//!   +--signal--> Canceling --> over
//! ```

use std::mem;
use std::time::Duration;

use redlock_redis_rs::runtime::Instant;
use rustix::process::Signal;

use super::keep::Keep;
use super::timing::Times;
use super::verdict::{Ended, Verdict};
use super::wire::{FromKeeper, Held, Lost, Refusal, RefusalKind, ToKeeper};
use crate::duration::shown;

/// How long a canceled request may take to be cleaned up before the supervisor ends.
const CANCEL_LIMIT: Duration = Duration::from_secs(1);

/// How long the supervisor waits for a quorum to confirm the release.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// The interval between two looks at the processes that are to end.
const TREE_INTERVAL: Duration = Duration::from_millis(10);

/// The interval between two warnings about processes that do not end.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The options that matter here.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) times: Times,
    /// `true` if the command leads its own process group.
    pub(crate) own_group: bool,
    /// The first signal when the command is to be stopped.
    pub(crate) signal: Signal,
    pub(crate) stolen_grace: Duration,
    pub(crate) max_runtime: Option<Duration>,
    pub(crate) kill_after: Option<Duration>,
    pub(crate) leftover: Leftover,
    pub(crate) keep: Option<Keep>,
}

/// The treatment of processes that the command leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Leftover {
    /// Stop them, then release the lock.
    Kill,
    /// Keep the lock until they end.
    Wait,
    /// Release the lock and let them run.
    Leave,
}

/// Something that happened.
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
    /// This many processes of the command are left, apart from itself.
    Left(usize),
}

/// Something to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Spawn(Held),
    /// Passes a signal on: to the group if it is the command's own, otherwise to the command.
    Forward(Signal),
    /// Signals the command and all its descendants.
    SignalTree(Signal),
    Tell(ToKeeper),
    StopSelf,
    /// Shown unless `-q`.
    Warn(String),
    /// Shown with `-v`.
    Note(String),
    Exit(Verdict),
}

/// When things happened, on the boot clock.
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

/// The supervisor's state.
pub(crate) struct Machine {
    settings: Settings,
    phase: Phase,
    deadline: Instant,
    /// `true` if the keys are gone, so the deadline means nothing.
    revoked: bool,
    keeper_gone: bool,
    actions: Vec<Action>,
    record: Record,
}

enum Phase {
    Asking,
    Canceling { signal: Signal, until: Instant },
    Starting,
    Working(Work),
    Releasing { verdict: Verdict, until: Instant },
    Over,
}

struct Work {
    started: Instant,
    ended: Option<Ended>,
    /// `true` if the command ended before it was stopped.
    by_itself: bool,
    stop: Option<Stop>,
    warn_at: Option<Instant>,
}

struct Stop {
    why: Why,
    kill_at: Instant,
    killed: bool,
}

/// Why the command is being stopped, the weakest reason first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// A signal was forwarded, with `--kill-after`.
    Forwarded,
    /// The command has left processes behind.
    Leftover,
    MaxRuntime,
    Lost,
}

impl Machine {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            phase: Phase::Asking,
            deadline: Instant::ORIGIN,
            revoked: false,
            keeper_gone: false,
            actions: Vec::new(),
            record: Record::default(),
        }
    }

    /// Returns what is to be done, in this order.
    pub(crate) fn actions(&mut self) -> Vec<Action> {
        mem::take(&mut self.actions)
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// Returns whether [`Event::Left`] is needed.
    pub(crate) fn watches_tree(&self) -> bool {
        match &self.phase {
            Phase::Working(work) => work.ended.is_some(),
            _ => false,
        }
    }

    /// Returns when the clock is to be looked at again. Timers do not count suspension, so none is trusted for long.
    pub(crate) fn wake_at(&self, now: Instant) -> Option<Instant> {
        match &self.phase {
            Phase::Asking | Phase::Starting | Phase::Over => None,
            Phase::Canceling { until, .. } | Phase::Releasing { until, .. } => Some(*until),
            Phase::Working(work) => {
                let is_killed = work.stop.as_ref().is_some_and(|stop| stop.killed);
                let interval = if is_killed || work.ended.is_some() {
                    TREE_INTERVAL
                } else {
                    self.settings.times.tick()
                };
                let mut wake = now + interval;
                let max = self.settings.max_runtime.map(|max| work.started + max);
                let due = [self.next_signal(work), max.filter(|_| work.stop.is_none())];
                for due in due.into_iter().flatten().filter(|due| *due > now) {
                    wake = wake.min(due);
                }
                Some(wake)
            }
        }
    }

    /// Handles an event.
    pub(crate) fn handle(&mut self, event: Event, now: Instant) {
        match (&mut self.phase, event) {
            (Phase::Over, _) => {}
            (_, Event::Keeper(FromKeeper::Log(line))) => self.actions.push(Action::Note(line)),
            (_, Event::KeeperGone) => self.keeper_gone(),
            (Phase::Asking, event) => self.while_asking(event, now),
            (Phase::Canceling { signal, .. }, Event::Signal(other)) if ends(other) => {
                let signal = *signal;
                self.exit(Verdict::Canceled(signal));
            }
            (
                Phase::Canceling { signal, .. },
                Event::Keeper(FromKeeper::Refused(_) | FromKeeper::Released { .. }),
            ) => {
                let signal = *signal;
                self.exit(Verdict::Canceled(signal));
            }
            (Phase::Starting, Event::Started) => {
                self.record.started = Some(now);
                self.phase = Phase::Working(Work {
                    started: now,
                    ended: None,
                    by_itself: false,
                    stop: None,
                    warn_at: None,
                });
            }
            (Phase::Starting, Event::NotStarted(verdict)) => self.release(verdict, None, now),
            (Phase::Working(_), event) => self.while_working(event, now),
            (
                Phase::Releasing { verdict: Verdict::Lost(reason), .. },
                Event::Keeper(FromKeeper::Lost(lost)),
            ) => {
                reason.clone_from(&lost.reason);
                self.record.loss = Some(lost.reason);
            }
            (Phase::Releasing { .. }, Event::Keeper(FromKeeper::Released { warning, kept })) => {
                self.record.kept = kept;
                // After a loss, the loss is what matters.
                let warning = warning.filter(|_| !self.is_lost());
                self.actions.extend(warning.map(Action::Warn));
                self.actions.push(Action::Note(match kept {
                    Some(kept) => format!("lock kept for another {}", shown(kept)),
                    None => "lock released".into(),
                }));
                self.finish();
            }
            _ => {}
        }
    }

    /// Takes the end of the validity, which never moves back.
    pub(crate) fn learn(&mut self, deadline: Instant) {
        self.deadline = self.deadline.max(deadline);
    }

    /// Compares the clock with all times.
    pub(crate) fn tick(&mut self, now: Instant) {
        match &self.phase {
            Phase::Canceling { signal, until } if now >= *until => {
                let signal = *signal;
                self.exit(Verdict::Canceled(signal));
            }
            Phase::Working(_) => self.work(now),
            Phase::Releasing { until, .. } if now >= *until => {
                let limit = shown(RELEASE_LIMIT);
                if !self.is_lost() {
                    self.warn(format!("the servers have not confirmed the release within {limit}"));
                }
                self.finish();
            }
            _ => {}
        }
    }

    fn while_asking(&mut self, event: Event, now: Instant) {
        match event {
            Event::Signal(signal) if ends(signal) => {
                self.actions.push(Action::Tell(ToKeeper::Cancel));
                self.phase = Phase::Canceling { signal, until: now + CANCEL_LIMIT };
            }
            Event::Signal(Signal::TSTP) => self.actions.push(Action::StopSelf),
            Event::Keeper(FromKeeper::Waiting { message }) => self.actions.push(Action::Note(message)),
            Event::Keeper(FromKeeper::Refused(refusal)) => self.exit(Verdict::Refused(refusal)),
            Event::Keeper(FromKeeper::Held(held)) => self.held(held, now),
            _ => {}
        }
    }

    fn held(&mut self, held: Held, now: Instant) {
        self.record.held = Some(held.clone());
        let waited = shown(held.waited);
        self.actions.push(Action::Note(format!("lock acquired as {} (waited {waited})", held.holder)));
        if now >= self.settings.times.term_at(self.deadline) {
            let message = "too little validity was left when the lock was acquired".into();
            let refusal = Refusal { kind: RefusalKind::Unavailable, message };
            self.release(Verdict::Refused(refusal), None, now);
        } else {
            self.phase = Phase::Starting;
            self.actions.push(Action::Spawn(held));
        }
    }

    fn keeper_gone(&mut self) {
        if mem::replace(&mut self.keeper_gone, true) {
            return;
        }
        match &self.phase {
            Phase::Asking => self.exit(Verdict::Internal("the keeper process ended".into())),
            Phase::Canceling { signal, .. } => {
                let signal = *signal;
                self.exit(Verdict::Canceled(signal));
            }
            Phase::Starting | Phase::Working(_) => {
                self.record.loss = Some("the keeper process ended".into());
                self.warn("the keeper process ended; the lock ends with its TTL".into());
            }
            Phase::Releasing { .. } => self.finish(),
            Phase::Over => {}
        }
    }

    fn while_working(&mut self, event: Event, now: Instant) {
        match event {
            Event::Keeper(FromKeeper::Lost(lost)) => self.lost(lost, now),
            Event::Signal(signal) => self.forward(signal, now),
            Event::Stopped if !self.settings.own_group => self.actions.push(Action::StopSelf),
            Event::Ended(ended) => self.ended(ended, now),
            Event::Left(left) => self.left(left, now),
            _ => {}
        }
    }

    fn lost(&mut self, lost: Lost, now: Instant) {
        self.record.loss = Some(lost.reason);
        if lost.revoked {
            self.revoked = true;
            let kill_at = now + self.settings.stolen_grace;
            self.stop(Why::Lost, kill_at, now);
        }
        if lost.killing {
            self.stop(Why::Lost, now, now);
        }
    }

    /// Passes a signal on, as far as the command does not get it from the terminal.
    fn forward(&mut self, signal: Signal, now: Instant) {
        let Phase::Working(work) = &mut self.phase else { return };
        if work.stop.as_ref().is_some_and(|stop| stop.why != Why::Forwarded) && ends(signal) {
            // Impatience: it is being stopped anyway.
            return self.kill(now);
        }
        let from_terminal =
            matches!(signal, Signal::INT | Signal::QUIT | Signal::TSTP | Signal::HUP | Signal::WINCH);
        if self.settings.own_group || !from_terminal {
            self.actions.push(Action::Forward(signal));
            if signal == Signal::TSTP {
                self.actions.push(Action::StopSelf);
            }
        }
        let kill_after = self.settings.kill_after.filter(|_| ends(signal) && work.stop.is_none());
        if let Some(kill_after) = kill_after {
            work.stop = Some(Stop { why: Why::Forwarded, kill_at: now + kill_after, killed: false });
        }
    }

    fn ended(&mut self, ended: Ended, now: Instant) {
        let Phase::Working(work) = &mut self.phase else { return };
        if work.ended.is_none() {
            self.record.ended = Some(now);
            work.by_itself = work.stop.as_ref().is_none_or(|stop| stop.why < Why::MaxRuntime);
            work.ended = Some(ended);
        }
    }

    fn left(&mut self, left: usize, now: Instant) {
        let Phase::Working(work) = &mut self.phase else { return };
        let Some(ended) = work.ended else { return };
        let is_over = left == 0 || (self.settings.leftover == Leftover::Leave && work.stop.is_none());
        if is_over {
            self.record.empty = Some(now);
            let verdict = match work.stop.as_ref().map(|stop| stop.why) {
                Some(Why::Lost) if !work.by_itself => self.verdict_lost(),
                Some(Why::MaxRuntime) if !work.by_itself => Verdict::MaxRuntime,
                _ => Verdict::Command(ended),
            };
            let keep = self.settings.keep.filter(|_| !matches!(verdict, Verdict::Lost(_)));
            let granted = self.record.held.as_ref().map(|held| Instant::from(held.granted));
            let keep =
                keep.zip(granted).and_then(|(keep, granted)| keep.rest(granted, now, ended.is_success()));
            return self.release(verdict, keep, now);
        }
        if self.settings.leftover == Leftover::Kill && work.stop.is_none() {
            let kill_at = now + self.settings.times.grace();
            self.stop(Why::Leftover, kill_at, now);
        }
    }

    fn is_lost(&self) -> bool {
        matches!(self.phase, Phase::Releasing { verdict: Verdict::Lost(_), .. })
    }

    fn verdict_lost(&self) -> Verdict {
        Verdict::Lost(self.record.loss.clone().unwrap_or_else(|| "it could not be renewed in time".into()))
    }

    /// Sends the signals that are due.
    fn work(&mut self, now: Instant) {
        let (times, deadline) = (self.settings.times, self.deadline);
        if !self.revoked {
            if now >= times.kill_at(deadline) {
                self.stop(Why::Lost, now, now);
            } else if now >= times.term_at(deadline) {
                self.stop(Why::Lost, times.kill_after(now, deadline), now);
            }
        }
        let Phase::Working(work) = &mut self.phase else { return };
        let too_long = self.settings.max_runtime.is_some_and(|max| now >= work.started + max);
        if too_long && work.ended.is_none() {
            let patience = self.settings.kill_after.unwrap_or(times.grace());
            self.stop(Why::MaxRuntime, now + patience, now);
        }
        let Phase::Working(work) = &mut self.phase else { return };
        if work.stop.as_ref().is_some_and(|stop| stop.killed || now >= stop.kill_at) {
            self.kill(now);
        }
    }

    /// Begins to stop the command, or brings its end forward. A loss is never replaced by another reason.
    fn stop(&mut self, why: Why, kill_at: Instant, now: Instant) {
        let Phase::Working(work) = &mut self.phase else { return };
        let is_first = work.stop.as_ref().is_none_or(|stop| stop.why == Why::Forwarded);
        let stop = work.stop.get_or_insert(Stop { why, kill_at, killed: false });
        if is_first || (stop.why == Why::Leftover && why == Why::Lost) {
            stop.why = why;
        }
        stop.kill_at = stop.kill_at.min(kill_at);
        if is_first && now < stop.kill_at {
            self.record.term.get_or_insert(now);
            let signals = [self.settings.signal, Signal::CONT];
            self.actions.extend(signals.map(Action::SignalTree));
        }
        if now >= kill_at {
            self.kill(now);
        }
    }

    fn kill(&mut self, now: Instant) {
        let Phase::Working(work) = &mut self.phase else { return };
        let Some(stop) = &mut work.stop else { return };
        stop.killed = true;
        self.record.kill.get_or_insert(now);
        if self.actions.last() != Some(&Action::SignalTree(Signal::KILL)) {
            // Again at each tick: processes may have been born in between.
            self.actions.push(Action::SignalTree(Signal::KILL));
        }
        let warn_at = *work.warn_at.get_or_insert(now + WARNING_INTERVAL);
        if now >= warn_at {
            work.warn_at = Some(now + WARNING_INTERVAL);
            self.warn("the command does not end after SIGKILL".into());
        }
    }

    /// Returns when the next signal of this supervisor is due.
    fn next_signal(&self, work: &Work) -> Option<Instant> {
        let times = &self.settings.times;
        match &work.stop {
            Some(stop) if stop.killed => None,
            Some(stop) if self.revoked => Some(stop.kill_at),
            Some(stop) => Some(stop.kill_at.min(times.kill_at(self.deadline))),
            None => Some(times.term_at(self.deadline)),
        }
    }

    fn release(&mut self, verdict: Verdict, keep: Option<Duration>, now: Instant) {
        self.phase = Phase::Releasing { verdict, until: now + RELEASE_LIMIT };
        if self.keeper_gone {
            self.finish();
        } else {
            self.actions.push(Action::Tell(ToKeeper::Ended { keep }));
        }
    }

    fn finish(&mut self) {
        if let Phase::Releasing { verdict, .. } = mem::replace(&mut self.phase, Phase::Over) {
            self.actions.push(Action::Exit(verdict));
        }
    }

    fn exit(&mut self, verdict: Verdict) {
        self.phase = Phase::Over;
        self.actions.push(Action::Exit(verdict));
    }

    fn warn(&mut self, message: String) {
        self.actions.push(Action::Warn(message));
    }
}

/// Returns whether a signal asks a program to end.
fn ends(signal: Signal) -> bool {
    matches!(signal, Signal::INT | Signal::TERM | Signal::HUP | Signal::QUIT)
}

#[cfg(test)]
mod tests;
