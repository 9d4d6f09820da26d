//! The slots of the requests of a connection, which their callers share with the [driver](super::driver).

use std::collections::VecDeque;
use std::mem;
use std::task::{Poll, Waker};

use event_listener::{Event, EventListener};
use smallvec::SmallVec;

use crate::message::{Failure, Reply};
use crate::sync::{Mutex, MutexGuard, locked};

/// The number of free slots that are kept. The memory of a larger burst is freed at its end.
pub(super) const SPARE: usize = 1024;

/// The requests of a connection.
#[derive(Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    /// Notified when the connection is lost.
    lost: Event,
}

/// Code that may run foreign code, by waking a task or dropping a waker, runs after the mutex is released.
#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    /// The free slots.
    free: Vec<usize>,
    /// The slots that the driver has not taken yet, in their order.
    waiting: VecDeque<usize>,
    /// The waker of the driver, to be woken when there is something to take.
    driver: Option<Waker>,
    /// The reason of the loss.
    lost: Option<String>,
}

/// The replies to one request. Most requests are a single command, with or without a reading of the clock.
pub(super) type Replies = SmallVec<[Reply; 2]>;

/// A request in its wire format.
pub(super) struct Packed {
    pub(super) bytes: Vec<u8>,
    /// The number of its commands.
    pub(super) commands: usize,
    /// True if a reading of the clock follows, which is its last reply.
    pub(super) timed: bool,
}

/// The next replies of the server.
pub(super) enum Expected {
    /// The replies to one request.
    Replies {
        slot: usize,
        /// The number of replies that are missing, at least one.
        missing: usize,
        /// True if a reading of the clock follows.
        timed: bool,
    },
    /// A reading of the clock, for these slots.
    Time(Vec<usize>),
}

/// The command that reads the clock, behind all requests of a write that need it.
const TIME: &[u8] = b"*1\r\n$4\r\nTIME\r\n";

/// A request and what is known about it.
enum Slot {
    Free,
    /// The driver has not taken it yet.
    Waiting {
        request: Packed,
        waker: Waker,
    },
    Sent {
        replies: Replies,
        waker: Waker,
    },
    Done(Result<Replies, Failure>),
    /// The caller is gone, and the driver still refers to the slot.
    Abandoned,
}

impl Outbox {
    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Returns whether the connection is lost.
    pub(super) fn is_lost(&self) -> bool {
        self.state().lost.is_some()
    }

    /// Listens for the loss of the connection. Listen first, then look.
    pub(super) fn listen_for_loss(&self) -> EventListener {
        self.lost.listen()
    }

    /// Returns the numbers of all slots and of free ones.
    #[cfg(test)]
    pub(super) fn slots(&self) -> (usize, usize) {
        let state = self.state();
        (state.slots.len(), state.free.len())
    }

    /// Puts a request behind all others. Returns its slot.
    pub(super) fn put(&self, request: Packed, waker: &Waker) -> Result<usize, Failure> {
        let mut state = self.state();
        if let Some(reason) = &state.lost {
            return Err(Failure::not_sent(reason));
        }
        let slot = state.occupy(Slot::Waiting { request, waker: waker.clone() });
        state.waiting.push_back(slot);
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(slot)
    }

    /// Takes the outcome of a request. If there is none yet, it registers the task to be woken.
    pub(super) fn poll(&self, slot: usize, waker: &Waker) -> Poll<Result<Replies, Failure>> {
        let mut state = self.state();
        match &mut state.slots[slot] {
            Slot::Waiting { waker: registered, .. } | Slot::Sent { waker: registered, .. } => {
                if !registered.will_wake(waker) {
                    let before = mem::replace(registered, waker.clone());
                    drop(state);
                    drop(before);
                }
                Poll::Pending
            }
            _ => match state.vacate(slot) {
                Slot::Done(outcome) => Poll::Ready(outcome),
                _ => unreachable!("the slot of a caller"),
            },
        }
    }

    /// Gives up a request.
    pub(super) fn abandon(&self, slot: usize) {
        let mut state = self.state();
        let before = match state.slots[slot] {
            Slot::Done(_) => state.vacate(slot),
            _ => mem::replace(&mut state.slots[slot], Slot::Abandoned),
        };
        drop(state);
        drop(before);
    }

    /// Takes requests that wait, up to about `limit` bytes in `out`. Adds the replies to come to `sent`.
    ///
    /// Returns whether others still wait. If not, it registers the driver to be woken by the next request.
    pub(super) fn take(
        &self,
        out: &mut Vec<u8>,
        limit: usize,
        sent: &mut VecDeque<Expected>,
        waker: &Waker,
    ) -> bool {
        let mut state = self.state();
        let mut timed_slots = Vec::new();
        while out.len() < limit {
            let Some(slot) = state.waiting.pop_front() else { break };
            if let Slot::Waiting { request, waker } = mem::replace(&mut state.slots[slot], Slot::Abandoned) {
                let Packed { bytes, commands, timed } = request;
                out.extend_from_slice(&bytes);
                // Without commands, the reading of the clock is the only reply.
                if commands > 0 {
                    sent.push_back(Expected::Replies { slot, missing: commands, timed });
                }
                if timed {
                    timed_slots.push(slot);
                }
                state.slots[slot] = Slot::Sent { replies: Replies::new(), waker };
            } else {
                state.vacate(slot);
            }
        }
        if !timed_slots.is_empty() {
            out.extend_from_slice(TIME);
            sent.push_back(Expected::Time(timed_slots));
        }
        let has_more = !state.waiting.is_empty();
        let is_registered = state.driver.as_ref().is_some_and(|driver| driver.will_wake(waker));
        let before = if is_registered { None } else { state.driver.replace(waker.clone()) };
        drop(state);
        drop(before);
        has_more
    }

    /// Delivers replies in their order. Adds the wakers of the requests that are now complete to `woken`.
    pub(super) fn deliver(&self, replies: impl Iterator<Item = Arrived>, woken: &mut Vec<Waker>) {
        let mut state = self.state();
        for Arrived { slot, reply, is_last } in replies {
            match &mut state.slots[slot] {
                Slot::Sent { replies, .. } => {
                    replies.push(reply);
                    if !is_last {
                        continue;
                    }
                    let replies = Slot::Done(Ok(mem::take(replies)));
                    if let Slot::Sent { waker, .. } = mem::replace(&mut state.slots[slot], replies) {
                        woken.push(waker);
                    }
                }
                _ if is_last => {
                    state.vacate(slot);
                }
                _ => {}
            }
        }
    }

    /// Records the loss and completes all requests.
    pub(super) fn close(&self, reason: String) {
        let mut state = self.state();
        state.waiting.clear();
        let mut wakers = Vec::new();
        for slot in 0..state.slots.len() {
            let failure = match &state.slots[slot] {
                Slot::Waiting { .. } => Failure::not_sent(&reason),
                Slot::Sent { .. } => Failure::maybe_sent(&reason),
                Slot::Abandoned => {
                    state.slots[slot] = Slot::Free;
                    state.free.push(slot);
                    continue;
                }
                Slot::Free | Slot::Done(_) => continue,
            };
            match mem::replace(&mut state.slots[slot], Slot::Done(Err(failure))) {
                Slot::Waiting { waker, .. } | Slot::Sent { waker, .. } => wakers.push(waker),
                _ => {}
            }
        }
        let driver = state.driver.take();
        state.lost = Some(reason);
        drop(state);
        drop(driver);
        wakers.into_iter().for_each(Waker::wake);
        self.lost.notify(usize::MAX);
    }
}

impl State {
    fn occupy(&mut self, content: Slot) -> usize {
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = content;
            return slot;
        }
        self.slots.push(content);
        self.slots.len() - 1
    }

    /// Frees a slot. Returns its content.
    fn vacate(&mut self, slot: usize) -> Slot {
        let content = mem::replace(&mut self.slots[slot], Slot::Free);
        self.free.push(slot);
        if self.free.len() == self.slots.len() && self.slots.len() > SPARE {
            (self.slots, self.free) = (Vec::new(), Vec::new());
        }
        content
    }
}

/// A reply, and the slot of its request.
pub(super) struct Arrived {
    pub(super) slot: usize,
    pub(super) reply: Reply,
    /// `true` if it is the last reply to the request.
    pub(super) is_last: bool,
}
