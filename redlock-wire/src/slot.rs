//! The state of a node's connection, and the rules for changing it.
//!
//! Requests read the state without a lock. Every change is made under the mutex. A supervisor may change the state only
//! if its epoch is the current one. So a replaced supervisor, whose runtime is not driven any more, can change nothing
//! when it is polled again. A generation identifies one connection and is never reused.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use event_listener::{Event, EventListener};
use redlock_core::{ConnectionId, Instant, ServerId};

use crate::connection::{Connection, Failure, Reply};
use crate::handshake::Server;
use crate::outbox::Outbox;
use crate::push::Hub;
use crate::socket::{Observation, SocketHandle};

/// The state of the connection.
pub(crate) enum State<K: Connection> {
    /// There is no supervisor: the node is unused, or the supervisor's runtime has ended.
    Idle,
    /// The first connection attempt is in progress.
    Connecting {
        /// The time by which the state should have changed, if the supervisor runs.
        due: Instant,
    },
    /// Connected.
    Up(Arc<Active<K>>),
    /// Not connected; the supervisor will try again.
    Down {
        /// The reason.
        reason: String,
        /// The time by which the state should have changed, if the supervisor runs.
        due: Instant,
    },
}

/// A connection that is ready for use. It closes when the last clone of its `Arc` is dropped: those of the slot, the
/// supervisor and the requests in flight.
pub(crate) struct Active<K: Connection> {
    pub(crate) generation: u64,
    pub(crate) connection: K,
    pub(crate) hub: Hub,
    pub(crate) server: Server,
    pub(crate) outbox: Outbox<K::Packed>,
    /// The number of requests that were dropped without a reply, since the last reply.
    unanswered: AtomicU32,
    /// The number of requests that were sent since the first of them.
    sent_in_doubt: AtomicU32,
    /// The time when the first of them was given up, or of the last probe since.
    doubted_at: Mutex<Instant>,
    /// Notified at the first of them.
    doubted: Event,
    /// `true` if the runtime that opened the connection has shut down.
    orphaned: AtomicBool,
}

impl<K: Connection> Active<K> {
    /// Sends a request behind all that were sent before.
    pub(crate) async fn call(&self, request: K::Packed) -> Result<Reply, Failure> {
        self.outbox.call(&self.connection, request).await
    }

    /// Records a reply: the connection works.
    pub(crate) fn answered(&self) {
        // Checked before writing: every write invalidates the cache line in other threads.
        if self.is_doubted() {
            self.unanswered.store(0, Ordering::Relaxed);
            self.sent_in_doubt.store(0, Ordering::Relaxed);
        }
    }

    /// Returns whether requests were given up since the last reply.
    pub(crate) fn is_doubted(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed) > 0
    }

    /// Returns the number of requests in a row that were given up.
    pub(crate) fn unanswered(&self) -> u32 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Records at `now` that a request was given up while there was no doubt. Any number of concurrent ones counts as
    /// one.
    pub(crate) fn doubt(&self, now: Instant) {
        let mut doubted_at = self.doubted_at();
        if self.unanswered.fetch_max(1, Ordering::Relaxed) == 0 {
            *doubted_at = now;
        }
        drop(doubted_at);
        self.doubted.notify(usize::MAX);
    }

    /// Listens for the first request that is given up. Listen first, then look.
    pub(crate) fn listen_for_doubt(&self) -> EventListener {
        self.doubted.listen()
    }

    /// Records that the supervisor is still probing at `now`.
    pub(crate) fn probed(&self, now: Instant) {
        *self.doubted_at() = now;
    }

    /// Records that a request was given up at `now`. Returns how many in a row that makes, and the time since the last
    /// supervision.
    pub(crate) fn given_up(&self, now: Instant) -> (u32, Duration) {
        let silent = now.saturating_duration_since(*self.doubted_at());
        (self.unanswered.fetch_add(1, Ordering::Relaxed) + 1, silent)
    }

    /// Records that a request is to be sent despite the doubt. Returns how many were sent before.
    pub(crate) fn sent_in_doubt(&self) -> u32 {
        self.sent_in_doubt.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns whether the runtime that opened the connection has shut down.
    pub(crate) fn is_orphaned(&self) -> bool {
        self.orphaned.load(Ordering::Acquire)
    }

    /// Returns the activity on the socket, or `None` if the adapter does not own the socket.
    pub(crate) fn observe(&self) -> Option<Observation> {
        self.connection.socket().map(SocketHandle::observe)
    }

    fn doubted_at(&self) -> MutexGuard<'_, Instant> {
        self.doubted_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A closed connection receives nothing, so its watches must complete.
impl<K: Connection> Drop for Active<K> {
    fn drop(&mut self) {
        self.hub.close();
    }
}

pub(crate) struct ConnState<K: Connection> {
    state: ArcSwap<State<K>>,
    /// The generation of the connection in use, if it keeps the order; otherwise zero. Every vote reads it, and nothing
    /// else.
    ordered: AtomicU64,
    /// The last server that was reached; zero if unknown.
    server: AtomicU64,
    turn: Mutex<Turn>,
    changed: Event,
}

#[derive(Default)]
struct Turn {
    /// The epoch of the current supervisor.
    epoch: u64,
    /// The generation of the last connection.
    generation: u64,
}

impl<K: Connection> ConnState<K> {
    pub(crate) fn new() -> Self {
        Self {
            state: ArcSwap::from_pointee(State::Idle),
            ordered: AtomicU64::new(0),
            server: AtomicU64::new(0),
            turn: Mutex::default(),
            changed: Event::new(),
        }
    }

    /// Calls `look` with the state.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&State<K>) -> T) -> T {
        look(&self.state.load())
    }

    /// Returns the connection in use, if it keeps the order.
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        NonZeroU64::new(self.ordered.load(Ordering::Acquire)).map(|generation| ConnectionId(generation.get()))
    }

    /// Returns the last server that was reached.
    pub(crate) fn server(&self) -> Option<ServerId> {
        NonZeroU64::new(self.server.load(Ordering::Acquire)).map(ServerId::from)
    }

    /// Listens for the next change, or for the drop of the node.
    pub(crate) fn listen(&self) -> EventListener {
        self.changed.listen()
    }

    /// Wakes all listeners.
    pub(crate) fn notify(&self) {
        self.changed.notify(usize::MAX);
    }

    /// Replaces the supervisor, if `next` finds that the state needs one. Returns the epoch of the new one.
    pub(crate) fn take_over(&self, next: impl FnOnce(&State<K>) -> Option<State<K>>) -> Option<u64> {
        let mut turn = self.turn();
        let next = next(&self.state.load())?;
        turn.epoch += 1;
        let epoch = turn.epoch;
        self.change(turn, next);
        Some(epoch)
    }

    /// Returns whether the supervisor of this epoch is the current one.
    pub(crate) fn is_current(&self, epoch: u64) -> bool {
        self.turn().epoch == epoch
    }

    /// Publishes the connection of a supervisor. Returns `None` if that supervisor was replaced.
    pub(crate) fn up(&self, epoch: u64, connection: K, hub: Hub, server: Server) -> Option<Arc<Active<K>>> {
        let mut turn = self.turn();
        if turn.epoch != epoch {
            return None;
        }
        turn.generation += 1;
        if let Some(id) = server.id {
            self.server.store(id.get().get(), Ordering::Release);
        }
        let link = Arc::new(Active {
            generation: turn.generation,
            connection,
            hub,
            server,
            outbox: Outbox::default(),
            unanswered: AtomicU32::new(0),
            sent_in_doubt: AtomicU32::new(0),
            doubted_at: Mutex::new(Instant::ORIGIN),
            doubted: Event::new(),
            orphaned: AtomicBool::new(false),
        });
        self.change(turn, State::Up(Arc::clone(&link)));
        Some(link)
    }

    /// Publishes that the supervisor has no connection. Returns whether it is still the current one.
    pub(crate) fn down(&self, epoch: u64, reason: String, due: Instant) -> bool {
        let turn = self.turn();
        let current = turn.epoch == epoch;
        if current {
            self.change(turn, State::Down { reason, due });
        }
        current
    }

    /// Publishes that a request found the connection broken. This wakes the supervisor, which then reconnects.
    pub(crate) fn broken(&self, generation: u64, reason: &str, due: Instant) {
        let turn = self.turn();
        if self.look(|state| state.is_up(generation)) {
            self.change(turn, State::Down { reason: reason.to_owned(), due });
        }
    }

    /// Publishes that the supervisor's runtime has ended.
    pub(crate) fn ended(&self, epoch: u64) {
        let turn = self.turn();
        if turn.epoch == epoch {
            if let State::Up(link) = &**self.state.load() {
                link.orphaned.store(true, Ordering::Release);
            }
            self.change(turn, State::Idle);
        }
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the state; no other code does. The old state is dropped after the lock is released, and its connection
    /// closes with it. Requests in flight may keep it open, but its replies do not count any more.
    ///
    /// During the change, [`connection`](Self::connection) returns `None`. A caller that reads the same connection
    /// twice therefore knows that it did not change in between.
    fn change(&self, turn: MutexGuard<'_, Turn>, next: State<K>) {
        let ordered = match &next {
            State::Up(link) if link.connection.keeps_order() => link.generation,
            _ => 0,
        };
        self.ordered.store(0, Ordering::Release);
        let old = self.state.swap(Arc::new(next));
        // Closed under the lock: no later connection is in use yet.
        let reader = match &*old {
            State::Up(link) => link.connection.socket().and_then(SocketHandle::close),
            _ => None,
        };
        self.ordered.store(ordered, Ordering::Release);
        drop(turn);
        if let Some(reader) = reader {
            reader.wake();
        }
        if let State::Up(link) = &*old {
            link.hub.close();
        }
        drop(old);
        self.notify();
    }
}

impl<K: Connection> State<K> {
    /// Returns whether the connection of this generation is in use.
    pub(crate) fn is_up(&self, generation: u64) -> bool {
        matches!(self, Self::Up(link) if link.generation == generation)
    }
}
