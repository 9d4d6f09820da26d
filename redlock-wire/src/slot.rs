//! The state of a node's connection, and who may change it.
//!
//! Requests read the state without a lock. Every change is made under the mutex, and by the supervisor only if its epoch
//! is the current one: a supervisor that was replaced (its runtime is not driven any more) can change nothing when it is
//! polled again. A generation stands for one connection and never comes back.

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

/// What a request finds.
pub(crate) enum State<K: Connection> {
    /// There is no supervisor: nothing was asked yet, or its runtime has ended.
    Idle,
    /// The first connect is under way.
    Connecting {
        /// When there should have been news, if the supervisor is run.
        due: Instant,
    },
    /// Connected.
    Up(Arc<Link<K>>),
    /// Not connected, and the supervisor is about to try again.
    Down {
        /// Why.
        reason: String,
        /// When there should have been news, if the supervisor is run.
        due: Instant,
    },
}

/// A connection that is ready for use. The connection closes when the last clone of its `Arc` is gone: the slot's, the
/// supervisor's, and those of the requests in flight.
pub(crate) struct Link<K: Connection> {
    pub(crate) generation: u64,
    pub(crate) connection: K,
    pub(crate) hub: Hub,
    pub(crate) server: Server,
    pub(crate) outbox: Outbox<K::Packed>,
    /// Requests that were dropped without an answer, since the last answer.
    unanswered: AtomicU32,
    /// Requests that were sent since the first of them.
    sent_in_doubt: AtomicU32,
    /// When the first of them was given up, or the supervisor has looked after it since.
    doubted_at: Mutex<Instant>,
    /// Fires at the first of them.
    doubted: Event,
    /// Whether the runtime that opened the connection has shut down.
    orphaned: AtomicBool,
}

impl<K: Connection> Link<K> {
    /// Sends a request behind all that were sent before.
    pub(crate) async fn call(&self, request: K::Packed) -> Result<Reply, Failure> {
        self.outbox.call(&self.connection, request).await
    }

    /// The connection works.
    pub(crate) fn answered(&self) {
        // Looked at first: what is written is fetched anew by every other thread.
        if self.is_doubted() {
            self.unanswered.store(0, Ordering::Relaxed);
            self.sent_in_doubt.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the last request that came to something was given up.
    pub(crate) fn is_doubted(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed) > 0
    }

    /// Requests in a row that were given up.
    pub(crate) fn unanswered(&self) -> u32 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// A request was given up, `now`, while there was no doubt: however many they are, they make one.
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

    /// The supervisor looks after the doubt, and is not through with it `now`.
    pub(crate) fn probed(&self, now: Instant) {
        *self.doubted_at() = now;
    }

    /// A request was given up, `now`. How many in a row that makes, and for how long nobody has looked after it.
    pub(crate) fn given_up(&self, now: Instant) -> (u32, Duration) {
        let silent = now.saturating_duration_since(*self.doubted_at());
        (self.unanswered.fetch_add(1, Ordering::Relaxed) + 1, silent)
    }

    /// A request is to be sent although there is doubt. Returns how many have been.
    pub(crate) fn sent_in_doubt(&self) -> u32 {
        self.sent_in_doubt.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the runtime that opened the connection has shut down.
    pub(crate) fn is_orphaned(&self) -> bool {
        self.orphaned.load(Ordering::Acquire)
    }

    fn doubted_at(&self) -> MutexGuard<'_, Instant> {
        self.doubted_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of a connection that is closed nothing is heard: whoever watches must know.
impl<K: Connection> Drop for Link<K> {
    fn drop(&mut self) {
        self.hub.close();
    }
}

pub(crate) struct Slot<K: Connection> {
    state: ArcSwap<State<K>>,
    /// The generation of the connection that is in use, if that keeps the order; zero otherwise. Whoever reads it looks at
    /// nothing else, at every vote.
    ordered: AtomicU64,
    /// The last server that was reached; zero if it is not known.
    server: AtomicU64,
    turn: Mutex<Turn>,
    changed: Event,
}

#[derive(Default)]
struct Turn {
    /// Of the current supervisor.
    epoch: u64,
    /// Of the last connection.
    generation: u64,
}

impl<K: Connection> Slot<K> {
    pub(crate) fn new() -> Self {
        Self {
            state: ArcSwap::from_pointee(State::Idle),
            ordered: AtomicU64::new(0),
            server: AtomicU64::new(0),
            turn: Mutex::default(),
            changed: Event::new(),
        }
    }

    /// Looks at the state.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&State<K>) -> T) -> T {
        look(&self.state.load())
    }

    /// The connection that is in use, if it keeps the order.
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        NonZeroU64::new(self.ordered.load(Ordering::Acquire)).map(|generation| ConnectionId(generation.get()))
    }

    /// The last server that was reached.
    pub(crate) fn server(&self) -> Option<ServerId> {
        NonZeroU64::new(self.server.load(Ordering::Acquire)).map(ServerId::from)
    }

    /// Fires at the next change, and when the node is dropped.
    pub(crate) fn listen(&self) -> EventListener {
        self.changed.listen()
    }

    /// Wakes everybody who listens.
    pub(crate) fn notify(&self) {
        self.changed.notify(usize::MAX);
    }

    /// Replaces the supervisor, if `next` finds the state to be such that one is needed. Answers the new one's epoch.
    pub(crate) fn take_over(&self, next: impl FnOnce(&State<K>) -> Option<State<K>>) -> Option<u64> {
        let mut turn = self.turn();
        let next = next(&self.state.load())?;
        turn.epoch += 1;
        let epoch = turn.epoch;
        self.change(turn, next);
        Some(epoch)
    }

    /// Whether the supervisor of this epoch still has a say.
    pub(crate) fn is_current(&self, epoch: u64) -> bool {
        self.turn().epoch == epoch
    }

    /// The supervisor has connected. `None` when it was replaced.
    pub(crate) fn up(&self, epoch: u64, connection: K, hub: Hub, server: Server) -> Option<Arc<Link<K>>> {
        let mut turn = self.turn();
        if turn.epoch != epoch {
            return None;
        }
        turn.generation += 1;
        if let Some(id) = server.id {
            self.server.store(id.get().get(), Ordering::Release);
        }
        let link = Arc::new(Link {
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

    /// The supervisor has no connection. Answers whether it still has a say.
    pub(crate) fn down(&self, epoch: u64, reason: String, due: Instant) -> bool {
        let turn = self.turn();
        let current = turn.epoch == epoch;
        if current {
            self.change(turn, State::Down { reason, due });
        }
        current
    }

    /// A request has found the connection broken. Its supervisor is woken and goes on from there.
    pub(crate) fn broken(&self, generation: u64, reason: &str, due: Instant) {
        let turn = self.turn();
        if self.look(|state| state.is_up(generation)) {
            self.change(turn, State::Down { reason: reason.to_owned(), due });
        }
    }

    /// The supervisor's runtime has ended.
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

    /// The one place that writes the state. The old one is dropped after the lock: a connection closes with it. Requests
    /// in flight may keep it open, but what it hears does not count any more.
    ///
    /// While the state changes, no connection is told of: whoever reads the same one twice knows that it stood in between.
    fn change(&self, turn: MutexGuard<'_, Turn>, next: State<K>) {
        let ordered = match &next {
            State::Up(link) if link.connection.keeps_order() => link.generation,
            _ => 0,
        };
        self.ordered.store(0, Ordering::Release);
        let old = self.state.swap(Arc::new(next));
        self.ordered.store(ordered, Ordering::Release);
        drop(turn);
        if let State::Up(link) = &*old {
            link.hub.close();
        }
        drop(old);
        self.notify();
    }
}

impl<K: Connection> State<K> {
    /// Whether the connection of this generation is in use.
    pub(crate) fn is_up(&self, generation: u64) -> bool {
        matches!(self, Self::Up(link) if link.generation == generation)
    }
}
