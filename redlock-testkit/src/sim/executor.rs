//! The executor: tasks, timers, and the order of tasks.
//!
//! Everything that could make two runs differ is drawn from one seeded generator. This happens under one mutex, in an
//! order that depends on no thread, address, hash or real time.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use redlock_core::runtime::{BoxFuture, Instant};

use super::process::Machine;

/// The state that the simulation, processes, tasks and timers share.
pub(super) struct World(Mutex<State>);

pub(super) struct State {
    /// True time: the time on the clock of an outside observer.
    pub(super) now: Instant,
    pub(super) chance: fastrand::Rng,
    pub(super) machines: Vec<Machine>,
    tasks: BTreeMap<u64, Task>,
    ready: BTreeSet<u64>,
    timers: BTreeMap<u64, Timer>,
    /// The running timers by the time at which they fire.
    due: BTreeSet<(Instant, u64)>,
    /// The last number of a task or timer.
    next: u64,
}

struct Task {
    process: usize,
    /// `None` while it is polled.
    future: Option<BoxFuture<()>>,
}

struct Timer {
    process: usize,
    waker: Option<Waker>,
    state: TimerState,
}

enum TimerState {
    Fires(Instant),
    /// The machine of the timer is suspended. The value is the remaining time.
    Stopped(Duration),
}

/// The result of one step of the executor.
pub(super) enum Step {
    /// A task was polled.
    Polled,
    /// No task could run; time moved to the next timer.
    Slept,
    /// No task can run, and no timer is pending.
    Stuck,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self(Mutex::new(State {
            now: Instant::ORIGIN,
            chance: fastrand::Rng::with_seed(seed),
            machines: Vec::new(),
            tasks: BTreeMap::new(),
            ready: BTreeSet::new(),
            timers: BTreeMap::new(),
            due: BTreeSet::new(),
            next: 0,
        }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn spawn(self: &Arc<Self>, process: usize, future: BoxFuture<()>) {
        let mut state = self.state();
        if state.machines[process].dead {
            drop(state);
            return;
        }
        let task = state.number();
        state.tasks.insert(task, Task { process, future: Some(future) });
        state.ready.insert(task);
    }

    /// Polls one random ready task, or moves time to the next timer up to `until`.
    pub(super) fn step(self: &Arc<Self>, until: Instant) -> Step {
        let mut state = self.state();
        let runnable: Vec<_> = state.ready.iter().copied().filter(|task| state.runs(*task)).collect();
        let Some(task) = state.chance.choice(runnable) else {
            let Some(&(at, _)) = state.due.first().filter(|(at, _)| *at <= until) else {
                return Step::Stuck;
            };
            state.now = state.now.max(at);
            let wakers = state.fire();
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
            return Step::Slept;
        };
        state.ready.remove(&task);
        let future = state.tasks.get_mut(&task).and_then(|task| task.future.take());
        drop(state);
        if let Some(mut future) = future {
            let waker = Waker::from(Arc::new(WakeTask { world: Arc::clone(self), task }));
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(()) => drop(self.state().tasks.remove(&task)),
                Poll::Pending => self.put_back(task, future),
            }
        }
        Step::Polled
    }

    /// Puts a polled task back.
    ///
    /// A task that killed its own process is dropped instead, after the lock is released: drops may spawn.
    fn put_back(&self, task: u64, future: BoxFuture<()>) {
        let mut state = self.state();
        match state.tasks.get_mut(&task) {
            Some(slot) => slot.future = Some(future),
            None => {
                drop(state);
                drop(future);
            }
        }
    }

    /// Moves true time to `until` if nothing happens before.
    pub(super) fn idle_until(&self, until: Instant) {
        let mut state = self.state();
        state.now = state.now.max(until);
    }

    /// Drops all tasks of a process, without polling them again.
    pub(super) fn kill(&self, process: usize) {
        let mut state = self.state();
        state.machines[process].dead = true;
        let of_process: Vec<_> =
            state.tasks.iter().filter(|(_, task)| task.process == process).map(|(id, _)| *id).collect();
        let dropped: Vec<_> = of_process.into_iter().filter_map(|task| state.tasks.remove(&task)).collect();
        drop(state);
        drop(dropped);
    }

    pub(super) fn kill_all(&self) {
        let processes = self.state().machines.len();
        (0..processes).for_each(|process| self.kill(process));
    }

    /// Creates a timer of a process that fires after `duration` of true time.
    pub(super) fn sleep(self: &Arc<Self>, process: usize, duration: Duration) -> BoxFuture<()> {
        let mut state = self.state();
        let timer = state.number();
        let fires = if state.machines[process].suspended {
            TimerState::Stopped(duration)
        } else {
            let at = state.now + duration;
            state.due.insert((at, timer));
            TimerState::Fires(at)
        };
        state.timers.insert(timer, Timer { process, waker: None, state: fires });
        Box::pin(Sleep { world: Arc::clone(self), timer })
    }

    /// Stops the timers of a process, or continues them with their remaining time.
    pub(super) fn suspend(&self, process: usize, suspended: bool) {
        let mut guard = self.state();
        let state = &mut *guard;
        state.machines[process].suspended = suspended;
        for (number, timer) in state.timers.iter_mut().filter(|(_, timer)| timer.process == process) {
            match timer.state {
                TimerState::Fires(at) if suspended => {
                    state.due.remove(&(at, *number));
                    timer.state = TimerState::Stopped(at.saturating_duration_since(state.now));
                }
                TimerState::Stopped(left) if !suspended => {
                    state.due.insert((state.now + left, *number));
                    timer.state = TimerState::Fires(state.now + left);
                }
                _ => {}
            }
        }
    }

    pub(super) fn tasks_of(&self, process: usize) -> usize {
        self.state().tasks.values().filter(|task| task.process == process).count()
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn runs(&self, task: u64) -> bool {
        self.tasks.get(&task).is_some_and(|task| self.machines[task.process].runs())
    }

    /// Takes the due timers, and returns their wakers.
    fn fire(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(&(at, number)) = self.due.first() {
            if at > self.now {
                break;
            }
            self.due.pop_first();
            wakers.extend(self.timers.remove(&number).and_then(|timer| timer.waker));
        }
        wakers
    }
}

struct WakeTask {
    world: Arc<World>,
    task: u64,
}

impl Wake for WakeTask {
    fn wake(self: Arc<Self>) {
        let mut state = self.world.state();
        if state.tasks.contains_key(&self.task) {
            state.ready.insert(self.task);
        }
    }
}

struct Sleep {
    world: Arc<World>,
    timer: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.world.state().timers.get_mut(&self.timer) {
            Some(timer) => {
                timer.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let mut state = self.world.state();
        if let Some(Timer { state: TimerState::Fires(at), .. }) = state.timers.remove(&self.timer) {
            state.due.remove(&(at, self.timer));
        }
    }
}
