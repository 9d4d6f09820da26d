//! Work that its caller abandons, in every interleaving with the end of its client.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use event_listener::Event;
use loom::future::block_on;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::{Responder, drive};
use crate::client::redlock::Redlock;
use crate::inner::Handle;
use crate::loom_fixtures::{Granting, StoppedClock, client};

#[test]
fn abandoned_work_has_ended_when_close_returns() {
    loom::model(|| {
        let runtime = StoppedClock::with_threads();
        let inner = client(&Arc::new(Granting::default()), Arc::clone(&runtime));
        let (reply, has_ended) = (Arc::new(Event::new()), Arc::new(AtomicBool::new(false)));
        let mut work = {
            let (replied, has_ended) = (reply.listen(), Arc::clone(&has_ended));
            drive(&inner, |responder: Responder<()>| async move {
                replied.await;
                assert!(responder.is_canceled());
                responder.send(());
                has_ended.store(true, Ordering::Relaxed);
            })
        };
        assert!(Pin::new(&mut work).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let node = {
            let reply = Arc::clone(&reply);
            thread::spawn(move || reply.notify(1))
        };
        drop(work);
        block_on(Redlock::new(Handle(Arc::clone(&inner))).close());
        assert!(has_ended.load(Ordering::Relaxed));
        node.join().unwrap();
        runtime.join();
    });
}
