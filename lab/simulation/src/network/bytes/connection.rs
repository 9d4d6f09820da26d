//! One connection of a client to a server, like TCP: bytes in order and once, until it breaks.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redlock_core::runtime::{Instant, Runtime};
use redlock_server::ClientId;

use super::super::traffic::Traffic;
use super::super::{Direction, Network};
use crate::history::{EventKind, FaultKind, Place};
use crate::server::Server;

/// The longest time until a client notices that its connection is broken, if it does.
const NOTICED_WITHIN: Duration = Duration::from_millis(500);

/// The longest time until a client learns that the server does not know its connection.
const RESET_WITHIN: Duration = Duration::from_millis(20);

/// A connection. The server and the socket of the client share it.
pub(crate) struct Connection {
    network: Network,
    client: usize,
    server: Server,
    state: Mutex<State>,
}

#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // the facts are independent
struct State {
    /// The number of the connection at the server.
    accepted: Option<ClientId>,
    /// The arrival times of the last bytes.
    last_request: Instant,
    last_reply: Instant,
    /// The bytes that have arrived at the client.
    arrived: Vec<u8>,
    /// The end of the connection, as the client knows it.
    ended: Option<io::ErrorKind>,
    reader: Option<Waker>,
    /// True if nothing that is sent from now on arrives.
    is_broken: bool,
    /// True if requests that were sent before do not arrive, either.
    is_emptied: bool,
    /// True if no server resets it when more is sent.
    is_silent: bool,
    /// True if the client has closed it.
    is_closed: bool,
}

impl Connection {
    /// Connects to a server. It never completes if no reply arrives.
    pub(super) async fn open(network: Network, client: usize, server: Server) -> io::Result<Arc<Self>> {
        let me = Arc::new(Self { network, client, server, state: Mutex::default() });
        me.travel(Direction::Requests).await;
        let accepted = me.server.accept(&me);
        if accepted.is_none() && me.network.coin() {
            // The machine of the server is down, not only its process.
            std::future::pending::<()>().await;
        }
        me.travel(Direction::Replies).await;
        accepted.ok_or(io::Error::from(io::ErrorKind::ConnectionRefused))?;
        me.state().accepted = accepted;
        Ok(me)
    }

    /// Returns the client.
    pub(crate) fn client(&self) -> usize {
        self.client
    }

    /// Waits while a message of the connection attempt travels. It never completes if the message is lost.
    async fn travel(&self, direction: Direction) {
        let world = &self.network.0.world;
        match self.delay(direction) {
            Some(delay) => world.sleep(delay).await,
            None => std::future::pending().await,
        }
        if self.is_cut(direction) {
            std::future::pending::<()>().await;
        }
    }

    /// Returns how many of some bytes the socket takes at once: sometimes only a part, as with a full buffer.
    pub(super) fn accepts(&self, count: usize) -> usize {
        let mut state = self.network.state();
        if state.chance.u32(..32) == 0 { state.chance.usize(1..=count.max(1)) } else { count }
    }

    /// Sends bytes to the server.
    pub(super) fn send(self: &Arc<Self>, bytes: &[u8]) -> io::Result<()> {
        let state = self.state();
        if let Some(ended) = state.ended {
            return Err(ended.into());
        }
        let (is_broken, is_silent) = (state.is_broken, state.is_silent);
        drop(state);
        if is_broken {
            let is_cut = [Direction::Requests, Direction::Replies].into_iter().any(|way| self.is_cut(way));
            // A server that does not know the connection resets it.
            if self.server.is_up() && !is_cut && !is_silent {
                self.notice_within(RESET_WITHIN);
            }
            return Ok(());
        }
        let Some(delay) = self.delay(Direction::Requests) else {
            self.lose();
            return Ok(());
        };
        let (now, mut state) = (self.network.now(), self.state());
        let at = (now + delay).max(state.last_request + Duration::from_nanos(1));
        state.last_request = at;
        drop(state);
        let (me, bytes) = (Arc::clone(self), bytes.to_vec());
        let timer = self.network.0.world.sleep(at.saturating_duration_since(now));
        self.network.0.world.spawn(Box::pin(async move {
            timer.await;
            me.arrive(bytes, now);
        }));
        Ok(())
    }

    /// Delivers bytes to the server.
    fn arrive(self: &Arc<Self>, bytes: Vec<u8>, sent: Instant) {
        let accepted = {
            let state = self.state();
            if state.is_emptied {
                return;
            }
            state.accepted
        };
        if self.is_cut(Direction::Requests) {
            self.state().is_emptied = true;
            return self.lose();
        }
        let travelled = self.network.now().saturating_duration_since(sent);
        let is_there = accepted.is_some_and(|client| self.server.receive_bytes(client, bytes, travelled));
        if !is_there {
            self.lose();
        }
    }

    /// Sends bytes to the client.
    pub(crate) fn send_to_client(self: &Arc<Self>, bytes: Vec<u8>) {
        if self.state().is_broken {
            return;
        }
        let Some(delay) = self.delay(Direction::Replies) else { return self.lose() };
        let (now, mut state) = (self.network.now(), self.state());
        let at = (now + delay).max(state.last_reply + Duration::from_nanos(1));
        state.last_reply = at;
        drop(state);
        let me = Arc::clone(self);
        let timer = self.network.0.world.sleep(at.saturating_duration_since(now));
        self.network.0.world.spawn(Box::pin(async move {
            timer.await;
            if me.is_cut(Direction::Replies) {
                return me.lose();
            }
            let mut state = me.state();
            if state.is_broken {
                return;
            }
            state.arrived.extend_from_slice(&bytes);
            wake(state);
        }));
    }

    /// Reads what has arrived at the client.
    pub(super) fn read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        if !state.arrived.is_empty() {
            let count = buffer.len().min(state.arrived.len());
            buffer[..count].copy_from_slice(&state.arrived[..count]);
            state.arrived.drain(..count);
            return Poll::Ready(Ok(count));
        }
        if let Some(ended) = state.ended {
            return Poll::Ready(Err(ended.into()));
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Closes the connection at the client. What was sent before may still arrive.
    pub(super) fn close(self: &Arc<Self>) {
        let (now, mut state) = (self.network.now(), self.state());
        state.is_closed = true;
        if state.is_broken {
            return;
        }
        let Some(accepted) = state.accepted else { return };
        let last = state.last_request;
        drop(state);
        let Some(delay) = self.delay(Direction::Requests) else { return };
        let at = (now + delay).max(last + Duration::from_nanos(1));
        let timer = self.network.0.world.sleep(at.saturating_duration_since(now));
        let (me, discards) = (Arc::clone(self), self.network.coin());
        self.network.0.world.spawn(Box::pin(async move {
            timer.await;
            if !me.is_cut(Direction::Requests) {
                me.server.close(accepted, discards);
            }
        }));
    }

    /// Loses bytes, which ends the connection.
    fn lose(self: &Arc<Self>) {
        let mut state = self.state();
        let is_closed = state.is_closed;
        // Something in between may also forget the connection, so that nothing ever arrives.
        state.is_silent |= !state.is_broken && self.network.coin();
        drop(state);
        if !is_closed {
            self.begin_fault(FaultKind::Loss);
        }
        self.sever();
    }

    /// Breaks the connection. The client notices that soon, or when it sends more, or never.
    pub(crate) fn sever(self: &Arc<Self>) {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_broken, true) {
            return;
        }
        // Bytes may already have been in the buffer of the server.
        state.is_emptied |= self.network.coin();
        let is_closed = state.is_closed;
        drop(state);
        if is_closed {
            return;
        }
        self.begin_fault(FaultKind::Disconnect);
        let is_noticed = self.network.state().breaks_are_noticed;
        if !is_noticed && self.network.coin() && self.network.coin() {
            return;
        }
        self.notice_within(NOTICED_WITHIN);
    }

    /// Lets the client notice that the connection is broken.
    fn notice_within(self: &Arc<Self>, longest: Duration) {
        let noticed = self.network.draw(longest);
        let (me, timer) = (Arc::clone(self), self.network.0.world.sleep(noticed));
        self.network.0.world.spawn(Box::pin(async move {
            timer.await;
            let mut state = me.state();
            state.ended = Some(io::ErrorKind::ConnectionReset);
            wake(state);
        }));
    }

    /// Draws the delay of a message; `None` if it is lost.
    fn delay(&self, direction: Direction) -> Option<Duration> {
        let fate = {
            let mut state = self.network.state();
            let traffic: Traffic =
                if direction == Direction::Requests { state.requests } else { state.replies };
            traffic.fate(&mut state.chance, false)
        };
        if fate.late {
            self.begin_fault(FaultKind::Straggler);
        }
        fate.copies.first().copied()
    }

    fn is_cut(&self, direction: Direction) -> bool {
        self.network.is_cut(self.client, self.server.number(), direction)
    }

    fn begin_fault(&self, fault: FaultKind) {
        let place = Place::Between(self.client, self.server.number());
        self.network.recorder().record(EventKind::FaultBegins(place, fault));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the reader behind the mutex.
fn wake(mut state: MutexGuard<'_, State>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection(c{} to n{})", self.client, self.server.number())
    }
}
