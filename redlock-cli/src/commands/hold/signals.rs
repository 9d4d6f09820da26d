//! The signals that end `redlock hold`.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

use crate::run::is_ignored;

/// The signals that may arrive.
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Handles signals from now on, except those that are ignored.
    ///
    /// A signal that is ignored on entry stays ignored: `nohup` and `&` depend on it.
    pub(super) fn new() -> io::Result<Self> {
        let all = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].into_iter();
        let handle = |kind: Signal| Ok((kind, signal(SignalKind::from_raw(kind.as_raw()))?));
        all.filter(|kind| !is_ignored(*kind)).map(handle).collect::<io::Result<_>>().map(Self)
    }

    /// Waits for a signal, and returns it. A signal that has arrived before is returned at once.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            let mut each = self.0.iter_mut();
            let arrived =
                each.find_map(|(kind, stream)| stream.poll_recv(context).is_ready().then_some(*kind));
            arrived.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
