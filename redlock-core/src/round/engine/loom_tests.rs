//! A round that its caller abandons, in every interleaving with the end of its client.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use event_listener::Event;
use loom::future::block_on;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use tracing::Span;

use super::run;
use crate::client::redlock::Redlock;
use crate::loom_fixtures::{StoppedClock, client_of};
use crate::node::{Begun, LockNode, Reply, Request};
use crate::round::{Heard, Io, Round};
use crate::types::instant::Instant;

/// A node that replies when it is told to.
struct Replying(Arc<Event>);

impl LockNode for Replying {
    fn label(&self) -> &'static str {
        "replying"
    }

    fn begin(&self, _: &Request) -> Begun {
        let replied = self.0.listen();
        Begun::sent(async {
            replied.await;
            Ok(Reply::Granted)
        })
    }
}

/// A round that records that its request has ended.
struct Recording(Arc<AtomicBool>);

impl Round for Recording {
    type Tag = ();
    type Output = ();

    fn start(&mut self, io: &mut Io<()>) {
        io.send(0, ());
    }

    fn request(&self, _: usize, (): ()) -> Option<Request> {
        Some(Request::Vouch)
    }

    fn heard(&mut self, _: Heard<()>, _: &mut Io<()>) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn result(&mut self, _: Instant, _: &mut Io<()>) -> Option<()> {
        self.0.load(Ordering::Relaxed).then_some(())
    }
}

#[test]
fn an_abandoned_round_has_ended_when_close_returns() {
    loom::model(|| {
        let runtime = StoppedClock::with_threads();
        let (reply, has_ended) = (Arc::new(Event::new()), Arc::new(AtomicBool::new(false)));
        let handle = client_of(Arc::new(Replying(Arc::clone(&reply))), Arc::clone(&runtime));
        let round = Recording(Arc::clone(&has_ended));
        let mut work = run(&handle, round, Instant::ORIGIN, Duration::from_secs(1), Span::none());
        assert!(Pin::new(&mut work).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let node = {
            let reply = Arc::clone(&reply);
            thread::spawn(move || reply.notify(1))
        };
        drop(work);
        let redlock = Redlock::new(handle);
        block_on(redlock.close());
        assert!(has_ended.load(Ordering::Relaxed));
        node.join().unwrap();
        runtime.join();
        drop(redlock);
    });
}
