//! The keeper: the process that holds the lock, `redlock __keeper`.
//!
//! Its standard input is the socket to the supervisor, and its standard output is the [board](Board). It has a separate
//! session, so no signal of a terminal reaches it. It holds no pipe open, because another process may wait for the end
//! of the pipe.

mod acquire;
mod line;
mod log;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use redlock_redis_rs::runtime::{Instant, suspend_aware_now};
use redlock_redis_rs::{Guard, LeaseState, Loss, Redlock, ReleaseOutcome};
use rustix::process::Signal;

use self::line::Line;
use super::board::Board;
use super::signals;
use super::timing::Times;
use super::tree::{self, Supervisor, TREE_INTERVAL};
use super::wire::{FromKeeper, Held, Lost, Task, ToKeeper};
use crate::duration::shown;
use crate::exit::Failure;
use crate::request::{Acquired, HeldLock, NotAcquired, NotAcquiredKind, Slot};

/// The hidden first argument.
pub(crate) const KEEPER: &str = "__keeper";

/// The longest time for pending cleanup after the supervisor has ended.
const CLEANUP_LIMIT: Duration = Duration::from_secs(10);

/// Runs the keeper.
pub(crate) fn main() -> Result<(), Failure> {
    let fail = |error: io::Error| Failure::internal("cannot start the keeper", error);
    // This fails if the process leads a group already. A supervisor never starts it like that.
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = rustix::thread::set_name(&std::ffi::CString::new(tree::KEEPER_NAME).unwrap_or_default());
    signals::shrug_off().map_err(fail)?;
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(fail)?;
    let board = Board::from(io::stdout().as_fd().try_clone_to_owned().map_err(fail)?);
    detach_stdio().map_err(fail)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
    runtime.block_on(async {
        let mut line = Line::new(socket).map_err(fail)?;
        let Some(ToKeeper::Task(task)) = line.next().await else { return Ok(()) };
        keep(line, board, *task).await;
        Ok(())
    })
}

/// Replaces the standard streams, so that nothing is written to the board or the socket by mistake.
fn detach_stdio() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}

/// Acquires the lock, keeps it, and releases it.
async fn keep(mut line: Line, board: Board, task: Task) {
    if task.debug {
        log::start(line.writer());
    }
    let redlock = match task.servers.redlock() {
        Ok(redlock) => redlock,
        Err(error) => {
            let not_acquired = NotAcquired { kind: NotAcquiredKind::Config, message: error.to_string() };
            return line.send(&FromKeeper::NotAcquired(not_acquired));
        }
    };
    let writer = line.writer();
    let outcome = tokio::select! {
        outcome = acquire::acquire(&redlock, &task, |message| writer.send(&FromKeeper::Waiting { message })) => outcome,
        // The supervisor has canceled or ended. The request is dropped, and the library cleans up.
        _ = line.next() => Err(NotAcquired { kind: NotAcquiredKind::Canceled, message: "canceled".into() }),
    };
    match outcome {
        Ok((Acquired { lock, slot }, waited)) => {
            Keeper::new(line, board, lock, &task).run(slot, waited).await;
        }
        Err(not_acquired) if not_acquired.kind == NotAcquiredKind::Canceled => {
            close(&redlock, task.ttl).await;
            return line.send(&FromKeeper::NotAcquired(not_acquired));
        }
        Err(not_acquired) => line.send(&FromKeeper::NotAcquired(not_acquired)),
    }
    close(&redlock, task.ttl).await;
}

/// Waits for pending cleanup. After the limit, remaining keys expire with their TTL.
async fn close(redlock: &Redlock, ttl: Duration) {
    let _ = tokio::time::timeout(CLEANUP_LIMIT.min(ttl), redlock.close()).await;
}

/// The command, according to the supervisor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    NotStarted,
    /// The command is in the group of the supervisor.
    Shared,
    /// The command leads this group.
    Own(i32),
}

impl Command {
    fn group(self) -> Option<i32> {
        match self {
            Self::Own(group) => Some(group),
            Self::NotStarted | Self::Shared => None,
        }
    }
}

/// A held lock.
struct Keeper {
    line: Line,
    board: Board,
    lock: HeldLock,
    times: Times,
    stolen_grace: Duration,
    holder: String,
    supervisor: Supervisor,
    granted: Instant,
    /// The last published end of the validity.
    deadline: Instant,
    /// The time at which the command is killed because the keys are gone.
    revoked_kill: Option<Instant>,
    loss_reported: bool,
    kill_reported: bool,
    command: Command,
}

impl Keeper {
    fn new(line: Line, board: Board, lock: HeldLock, task: &Task) -> Self {
        let holder = lock.fingerprint().to_string();
        // The supervisor has validated the times.
        let times = Times::new(task.ttl, task.grace).unwrap_or_else(|_| Times::smallest());
        let granted = suspend_aware_now();
        let mut keeper = Self {
            line,
            board,
            lock,
            times,
            stolen_grace: task.stolen_grace,
            holder,
            supervisor: Supervisor { pid: task.supervisor },
            granted,
            deadline: granted,
            revoked_kill: None,
            loss_reported: false,
            kill_reported: false,
            command: Command::NotStarted,
        };
        keeper.publish();
        keeper
    }

    async fn run(mut self, slot: Option<Slot>, waited: Duration) {
        self.line.send(&FromKeeper::Held(Held {
            granted: self.granted.into(),
            holder: self.holder.clone(),
            fencing_token: self.lock.fencing_token().map(redlock_redis_rs::FencingToken::as_u64),
            slot,
            waited,
        }));
        loop {
            let interval = self.interval();
            let message = tokio::select! {
                message = self.line.next() => Some(message),
                () = tokio::time::sleep(interval) => None,
            };
            match message {
                None | Some(Some(ToKeeper::Task(_))) => {}
                Some(Some(ToKeeper::Started { pid, own_group })) => {
                    self.command = if own_group { Command::Own(pid) } else { Command::Shared };
                }

                Some(Some(ToKeeper::Ended { keep })) => {
                    // The supervisor may have noticed a loss before the library. It still reports the reason.
                    self.report_loss(suspend_aware_now());
                    return self.end(keep).await;
                }
                Some(Some(ToKeeper::Cancel)) => return self.end(None).await,
                // The supervisor has died.
                Some(None) => {
                    self.kill_all().await;
                    return self.end(None).await;
                }
            }
            self.publish();
            self.watch();
            self.line.flush();
        }
    }

    fn interval(&self) -> Duration {
        if self.kill_reported { TREE_INTERVAL } else { self.times.tick() }
    }

    /// Writes the present deadline to the board.
    fn publish(&mut self) {
        // The clock is read first, so the result is early rather than late.
        let now = suspend_aware_now();
        let remaining = self.lock.remaining();
        if !remaining.is_zero() {
            self.deadline = self.deadline.max(now + remaining);
        }
        // If this fails, the board has an old deadline, and the command is stopped early.
        let _ = self.board.set(self.deadline);
    }

    /// Reports a loss, and kills the command if the supervisor cannot have done so.
    fn watch(&mut self) {
        let now = suspend_aware_now();
        self.report_loss(now);
        if self.command == Command::NotStarted {
            return;
        }
        if now < self.revoked_kill.unwrap_or(self.times.kill_at(self.deadline)) {
            return;
        }
        if !std::mem::replace(&mut self.kill_reported, true) {
            let loss = match self.lock.state() {
                LeaseState::Lost(loss) => loss,
                _ => Loss::Unreachable,
            };
            self.send_loss(&loss, self.revoked_kill.is_some(), true);
        }
        kill(&self.holder, self.command.group(), Some(self.supervisor));
    }

    /// Reports a loss once.
    fn report_loss(&mut self, now: Instant) {
        let LeaseState::Lost(loss) = self.lock.state() else { return };
        let revoked = matches!(loss, Loss::Revoked { .. });
        if revoked && self.revoked_kill.is_none() {
            self.revoked_kill = Some(now + self.stolen_grace);
        }
        if !std::mem::replace(&mut self.loss_reported, true) {
            self.send_loss(&loss, revoked, false);
        }
    }

    fn send_loss(&mut self, loss: &Loss, revoked: bool, killing: bool) {
        self.line.send(&FromKeeper::Lost(Lost { reason: loss.to_string(), revoked, killing }));
    }

    /// Kills the processes of a dead supervisor, and returns when none is alive.
    async fn kill_all(&mut self) {
        while kill(&self.holder, self.command.group(), None) {
            self.publish();
            tokio::time::sleep(TREE_INTERVAL).await;
        }
    }

    /// Releases the lock, or keeps it for the rest of a period.
    async fn end(self, keep: Option<Duration>) {
        let Self { mut line, lock, .. } = self;
        let (warning, kept) = match (lock, keep) {
            (HeldLock::Exclusive(guard), Some(rest)) => keep_for(guard, rest).await,
            // Servers cannot keep a read lock, so no option requests it.
            (lock, _) => (release(lock).await, None),
        };
        line.send(&FromKeeper::Released { warning, kept });
    }
}

async fn release(lock: HeldLock) -> Option<String> {
    match lock.release().await {
        Ok(ReleaseOutcome::AlreadyLost) => Some("the lock was lost before its release".into()),
        Ok(_) => None,
        Err(error) => Some(format!("{error}; the lock may stay until its TTL ends")),
    }
}

async fn keep_for(guard: Guard, rest: Duration) -> (Option<String>, Option<Duration>) {
    match guard.keep_for(rest).await {
        Ok(()) => (None, Some(rest)),
        Err(error) => (Some(format!("cannot keep the lock for {}: {error}", shown(rest))), None),
    }
}

/// Kills the processes of a holder. Returns whether there were any.
fn kill(holder: &str, group: Option<i32>, supervisor: Option<Supervisor>) -> bool {
    let processes = tree::of_holder(holder, group, supervisor);
    for process in &processes {
        // A process that may not be signaled stays, and the next check signals it again.
        let _ = tree::send(process, Signal::KILL);
    }
    !processes.is_empty()
}
