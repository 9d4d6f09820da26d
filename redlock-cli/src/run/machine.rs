//! The decisions of the supervisor, without any I/O.
//!
//! The input is [events](Event): messages of the keeper, signals, changes of the command. The output is
//! [actions](Action), which the [supervisor](super::supervisor) carries out in order. This module has the phases of a
//! run; [`Work`] has the signals to a running command.
//!
//! ```text
//! Asking --held--> Starting --started--> Working --tree is dead--> Releasing --> over
//!   |                |                    TERM and KILL at their times
//!   +----signal------+--> Canceling --> over
//! ```

mod events;
mod work;

use std::mem;
use std::time::Duration;

use redlock_redis_rs::runtime::Instant;
use rustix::process::Signal;

pub(crate) use self::events::{Action, Event, Record, Settings};
use self::events::{Output, ends};
use self::work::{Moment, Work};
use super::keep::Keep;
use super::verdict::Verdict;
use super::wire::{FromKeeper, Held, ToKeeper};
use crate::duration::shown;
use crate::request::{NotAcquired, NotAcquiredKind};

/// The time limit for the cleanup of a canceled request, and for a release after a further signal.
const CANCEL_LIMIT: Duration = Duration::from_secs(1);

/// The supervisor's state.
pub(crate) struct Machine {
    settings: Settings,
    phase: Phase,
    deadline: Instant,
    keeper_gone: bool,
    out: Output,
}

enum Phase {
    Asking,
    Canceling {
        signal: Signal,
        until: Instant,
    },
    /// The order to start the command has not been carried out yet.
    Starting,
    Working(Work),
    Releasing {
        verdict: Verdict,
        since: Instant,
        until: Instant,
    },
    Over,
}

impl Machine {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            phase: Phase::Asking,
            deadline: Instant::ORIGIN,
            keeper_gone: false,
            out: Output::default(),
        }
    }

    /// Returns the actions to perform, in this order.
    pub(crate) fn actions(&mut self) -> Vec<Action> {
        mem::take(&mut self.out.actions)
    }

    pub(crate) fn record(&self) -> &Record {
        &self.out.record
    }

    /// Returns whether [`Event::Left`] is needed.
    pub(crate) fn watches_tree(&self) -> bool {
        matches!(&self.phase, Phase::Working(work) if work.ended().is_some())
    }

    /// Returns when to read the clock again. Timers do not count suspension, so none is trusted for long.
    pub(crate) fn wake_at(&self, now: Instant) -> Option<Instant> {
        match &self.phase {
            Phase::Asking | Phase::Starting | Phase::Over => None,
            Phase::Canceling { until, .. } | Phase::Releasing { until, .. } => Some(*until),
            Phase::Working(work) => {
                Some(work.wake_at(Moment { now, deadline: self.deadline, settings: &self.settings }))
            }
        }
    }

    /// Takes the end of the validity, which never moves back.
    pub(crate) fn learn(&mut self, deadline: Instant) {
        self.deadline = self.deadline.max(deadline);
    }

    /// Compares the clock with all due times.
    pub(crate) fn tick(&mut self, now: Instant) {
        match &mut self.phase {
            Phase::Canceling { signal, until } if now >= *until => {
                let signal = *signal;
                self.exit(Verdict::Canceled(signal));
            }
            Phase::Working(work) => {
                let at = Moment { now, deadline: self.deadline, settings: &self.settings };
                work.tick(at, &mut self.out);
            }
            Phase::Releasing { since, until, .. } if now >= *until => {
                let limit = shown(until.saturating_duration_since(*since));
                if !self.is_lost() {
                    self.out.warn(format!("the servers have not confirmed the release within {limit}"));
                }
                self.finish();
            }
            _ => {}
        }
    }

    /// Handles an event.
    pub(crate) fn handle(&mut self, event: Event, now: Instant) {
        match (&mut self.phase, event) {
            (Phase::Over, _) => {}
            (_, Event::Keeper(FromKeeper::Log(line))) => self.out.note(line),
            (_, Event::KeeperGone) => self.keeper_gone(),
            (Phase::Asking, event) => self.while_asking(event, now),
            (Phase::Canceling { signal, .. }, event) => {
                let signal = *signal;
                self.while_canceling(signal, &event);
            }
            (Phase::Starting, event) => self.while_starting(event, now),
            (Phase::Working(_), event) => self.while_working(event, now),
            (Phase::Releasing { .. }, Event::Keeper(message)) => self.while_releasing(message),
            (Phase::Releasing { until, .. }, Event::Signal(signal)) if ends(signal) => {
                *until = (*until).min(now + CANCEL_LIMIT);
            }
            (Phase::Releasing { .. }, _) => {}
        }
    }

    fn while_asking(&mut self, event: Event, now: Instant) {
        match event {
            Event::Signal(signal) if ends(signal) => self.cancel(signal, now),
            Event::Signal(Signal::TSTP) => self.out.act(Action::StopSelf),
            Event::Keeper(FromKeeper::Waiting { message }) => {
                let is_shown = self.settings.shows_waits;
                self.out.act(if is_shown { Action::Warn(message) } else { Action::Note(message) });
            }
            Event::Keeper(FromKeeper::NotAcquired(not_acquired)) => {
                self.exit(Verdict::NotAcquired(not_acquired));
            }
            Event::Keeper(FromKeeper::Held(held)) => self.held(held, now),
            _ => {}
        }
    }

    fn held(&mut self, held: Held, now: Instant) {
        self.out.record.held = Some(held.clone());
        let waited = shown(held.waited);
        self.out.note(format!("lock acquired as {} (waited {waited})", held.holder));
        if now >= self.settings.times.term_at(self.deadline) {
            let message = "too little validity was left when the lock was acquired".into();
            let not_acquired = NotAcquired { kind: NotAcquiredKind::Unavailable, message };
            self.release(Verdict::NotAcquired(not_acquired), None, now);
        } else {
            self.phase = Phase::Starting;
            self.out.act(Action::Spawn(held));
        }
    }

    fn while_canceling(&mut self, signal: Signal, event: &Event) {
        let is_over = match event {
            Event::Signal(other) => ends(*other),
            Event::Keeper(message) => {
                matches!(message, FromKeeper::NotAcquired(_) | FromKeeper::Released { .. })
            }
            _ => false,
        };
        if is_over {
            self.exit(Verdict::Canceled(signal));
        }
    }

    fn while_starting(&mut self, event: Event, now: Instant) {
        match event {
            // The signal arrived together with the grant.
            Event::Signal(signal) if ends(signal) => {
                self.out.withdraw_spawn();
                self.cancel(signal, now);
            }
            Event::Started => {
                self.out.record.started = Some(now);
                self.phase = Phase::Working(Work::new(now));
            }
            Event::NotStarted(verdict) => self.release(verdict, None, now),
            _ => {}
        }
    }

    fn while_working(&mut self, event: Event, now: Instant) {
        let Phase::Working(work) = &mut self.phase else { return };
        let at = Moment { now, deadline: self.deadline, settings: &self.settings };
        let out = &mut self.out;
        match event {
            Event::Keeper(FromKeeper::Lost(lost)) => work.lost(lost, at, out),
            Event::Signal(signal) => work.signal(signal, at, out),
            Event::Stopped if !self.settings.own_group => out.act(Action::StopSelf),
            Event::Ended(ended) => work.end(ended, at, out),
            Event::Left(left) if work.is_over(left, &self.settings) => self.work_is_over(now),
            Event::Left(_) => work.stop_leftovers(at, out),
            _ => {}
        }
    }

    /// Releases the lock after the command, or keeps it for a while.
    fn work_is_over(&mut self, now: Instant) {
        let Phase::Working(work) = &self.phase else { return };
        let Some(ended) = work.ended() else { return };
        let record = &mut self.out.record;
        record.empty = Some(now);
        let verdict = work.verdict(ended, record.loss.as_deref());
        let keep = self.settings.keep.filter(|_| !matches!(verdict, Verdict::Lost(_)));
        let rest = |(keep, held): (Keep, &Held)| {
            keep.rest(held.granted.into(), held.waited, now, ended.is_success())
        };
        let keep = keep.zip(record.held.as_ref()).and_then(rest);
        self.release(verdict, keep, now);
    }

    fn while_releasing(&mut self, message: FromKeeper) {
        match (&mut self.phase, message) {
            (Phase::Releasing { verdict: Verdict::Lost(reason), .. }, FromKeeper::Lost(lost)) => {
                reason.clone_from(&lost.reason);
                self.out.record.loss = Some(lost.reason);
            }
            (_, FromKeeper::Released { warning, kept }) => {
                self.out.record.kept = kept;
                // After a loss, only the loss is reported.
                let warning = warning.filter(|_| !self.is_lost());
                self.out.actions.extend(warning.map(Action::Warn));
                match kept {
                    Some(kept) => self.out.note(format!("lock kept for another {}", shown(kept))),
                    None if self.is_lost() => {}
                    None => self.out.note("lock released"),
                }
                self.finish();
            }
            _ => {}
        }
    }

    fn keeper_gone(&mut self) {
        const ENDED: &str = "the keeper process ended";

        if mem::replace(&mut self.keeper_gone, true) {
            return;
        }
        match &self.phase {
            Phase::Asking | Phase::Starting => {
                self.out.withdraw_spawn();
                self.exit(Verdict::Internal(ENDED.into()));
            }
            Phase::Canceling { signal, .. } => {
                let signal = *signal;
                self.exit(Verdict::Canceled(signal));
            }
            Phase::Working(_) => {
                self.out.record.loss = Some(ENDED.into());
                self.out.warn(format!("{ENDED}; the lock ends with its TTL"));
            }
            Phase::Releasing { .. } => self.finish(),
            Phase::Over => {}
        }
    }

    fn is_lost(&self) -> bool {
        matches!(self.phase, Phase::Releasing { verdict: Verdict::Lost(_), .. })
    }

    /// Withdraws the request because of a signal.
    fn cancel(&mut self, signal: Signal, now: Instant) {
        self.out.act(Action::Send(ToKeeper::Cancel));
        self.phase = Phase::Canceling { signal, until: now + CANCEL_LIMIT };
    }

    fn release(&mut self, verdict: Verdict, keep: Option<Duration>, now: Instant) {
        self.phase = Phase::Releasing { verdict, since: now, until: now + self.settings.release_limit };
        if self.keeper_gone {
            self.finish();
        } else {
            self.out.act(Action::Send(ToKeeper::Ended { keep }));
        }
    }

    fn finish(&mut self) {
        if let Phase::Releasing { verdict, .. } = mem::replace(&mut self.phase, Phase::Over) {
            self.out.act(Action::Exit(verdict));
        }
    }

    fn exit(&mut self, verdict: Verdict) {
        self.phase = Phase::Over;
        self.out.act(Action::Exit(verdict));
    }
}

#[cfg(test)]
mod tests;
