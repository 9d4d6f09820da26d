//! A connection whose server is checked, and the commands that check it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redlock_core::node::ClockReading;
use redlock_core::runtime::{Instant, Runtime};

use super::Behind;
use super::comparison::Comparison;
use crate::clock;
use crate::connection::Connection;
use crate::gate::Gate;
use crate::message::{Failure, Reply};
use crate::stamp::StampKey;

/// The clock of a server behind requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// The server did not permit reading it before.
    NotRead,
    /// The server does not permit reading it any more.
    Denied,
    /// The time since the Unix epoch.
    Shows(Duration),
}

/// A connection whose admission is kept.
pub(crate) struct Checked<'a, K> {
    pub(crate) connection: &'a K,
    pub(crate) gate: &'a Gate,
    /// The check that follows each vote.
    pub(crate) behind: Behind,
    /// True if the clock of the server is read.
    pub(crate) clock: &'a AtomicBool,
    /// True if the server reports changes of the stamp.
    pub(crate) is_tracked: bool,
}

impl<K: Connection> Checked<'_, K> {
    /// Sends requests in one pipeline, and reads the clock behind them if that is permitted.
    ///
    /// A clock that must not be read any more is not read again over this connection.
    pub(crate) async fn send(&self, requests: Vec<K::Packed>) -> Result<(Vec<Reply>, Clock), Failure> {
        if !self.clock.load(Ordering::Relaxed) {
            return Ok((self.connection.pipeline(requests).await?, Clock::NotRead));
        }
        let (replies, time) = self.connection.timed(requests).await?;
        Ok((replies, self.shown(time)))
    }

    /// Sends one request as [`send`](Self::send) does.
    pub(crate) async fn send_one(&self, request: K::Packed) -> Result<(Reply, Clock), Failure> {
        if !self.clock.load(Ordering::Relaxed) {
            return Ok((self.connection.call(request).await?, Clock::NotRead));
        }
        let (reply, time) = self.connection.timed_call(request).await?;
        Ok((reply, self.shown(time)))
    }

    /// Returns the clock that a reading shows. Without a time, the clock is not read again over this connection.
    fn shown(&self, time: Option<Duration>) -> Clock {
        if time.is_none() {
            self.clock.store(false, Ordering::Relaxed);
        }
        time.map_or(Clock::Denied, Clock::Shows)
    }

    /// Sends requests as [`send`](Self::send) does. The reading bounds later ones.
    pub(crate) async fn timed(
        &self,
        requests: Vec<K::Packed>,
        runtime: &dyn Runtime,
    ) -> Result<(Vec<Reply>, Option<ClockReading>), Failure> {
        let sent = runtime.now();
        let (replies, clock) = self.send(requests).await?;
        Ok((replies, reading(clock, sent, runtime)))
    }

    /// Sends requests and a comparison behind them. Returns the replies to the requests, and the one to the comparison.
    pub(crate) async fn compare(
        &self,
        mut requests: Vec<K::Packed>,
        stamp: StampKey,
    ) -> Result<(Vec<Reply>, Reply), Failure> {
        let count = requests.len();
        let comparison = Comparison { stamp, reads_clock: self.clock.load(Ordering::Relaxed) };
        requests.push(comparison.short::<K>());
        let replies = self.connection.pipeline(requests).await?;
        self.with_script(replies, count, || comparison.full::<K>()).await
    }

    /// Returns the clock that the reply to a comparison shows.
    ///
    /// A comparison that has failed does not show that the clock must not be read. It ends the admission in any case.
    pub(crate) fn clock_in(&self, compared: &Reply) -> Clock {
        match compared {
            Reply::Array(parts) if self.clock.load(Ordering::Relaxed) => {
                self.shown(parts.get(3).and_then(clock::time))
            }
            _ => Clock::NotRead,
        }
    }

    /// Separates the reply to a script from those to the requests before it. Sends the script in full after an error: the
    /// server may not know the script, or deny `EVALSHA`. To be used only if the last look was permitted.
    ///
    /// The script is then behind the requests, too, even over another socket: a server that has lost them has another
    /// identity or another stamp.
    pub(crate) async fn with_script(
        &self,
        mut replies: Vec<Reply>,
        requests: usize,
        full: impl FnOnce() -> K::Packed,
    ) -> Result<(Vec<Reply>, Reply), Failure> {
        let unexpected = || Failure::maybe_sent("unexpected number of replies");
        let reply = replies.pop().filter(|_| replies.len() == requests).ok_or_else(unexpected)?;
        if !matches!(reply, Reply::Error(_)) {
            return Ok((replies, reply));
        }
        let reply = self.connection.call(full()).await.map_err(Failure::of_another_command)?;
        Ok((replies, reply))
    }
}

/// Returns a reading that was received just now, if the clock was read.
pub(crate) fn reading(clock: Clock, sent: Instant, runtime: &dyn Runtime) -> Option<ClockReading> {
    match clock {
        Clock::Shows(server) => Some(ClockReading { sent: Some(sent), server, received: runtime.now() }),
        Clock::NotRead | Clock::Denied => None,
    }
}
