//! The outbox in every interleaving of its requests and its driver.

use std::future::{Future, pending, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use event_listener::Event;
use loom::future::block_on;
use loom::thread;

use super::{ALONE, Outbox};
use crate::connection::{Command, Connection, Failure, Reply, Sent};
use crate::first::{First, first};
use crate::sync::{Mutex, locked};

/// A client that records its requests, and an outbox in front of it that sends no further request alone.
struct World {
    outbox: Outbox<i64>,
    sent: Mutex<Vec<i64>>,
    /// If `false`, pipelines have no reply.
    replies: bool,
    /// Notified when the driver is to be dropped.
    stop: Event,
}

impl World {
    fn new(replies: bool) -> Arc<Self> {
        let (outbox, sent) = (Outbox::default(), Mutex::new(Vec::new()));
        outbox.state().alone = ALONE;
        Arc::new(Self { outbox, sent, replies, stop: Event::new() })
    }

    async fn call(self: Arc<Self>, number: i64) -> Result<Reply, Sent> {
        self.outbox.call(&*self, number).await.map_err(|failure| failure.sent)
    }

    /// Starts a request, which waits for the driver.
    fn start(self: &Arc<Self>, number: i64) -> Pin<Box<impl Future<Output = Result<Reply, Sent>> + use<>>> {
        let mut call = Box::pin(Arc::clone(self).call(number));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        call
    }

    /// Drives the outbox until `end` completes.
    fn drive_until(&self, end: impl Future<Output = ()>) {
        block_on(async {
            match first(self.outbox.drive(self), end).await {
                First::Left(()) => unreachable!("the driver never completes"),
                First::Right(()) => {}
            }
        });
    }

    fn sent(&self) -> Vec<i64> {
        mem::take(&mut locked(&self.sent))
    }
}

impl Connection for World {
    type Packed = i64;

    const BATCHES: bool = true;

    fn pack(_: Command<'_>) -> i64 {
        unreachable!("requests are numbers")
    }

    async fn call(&self, request: i64) -> Result<Reply, Failure> {
        locked(&self.sent).push(request);
        Ok(Reply::Int(request))
    }

    async fn pipeline(&self, requests: Vec<i64>) -> Result<Vec<Reply>, Failure> {
        locked(&self.sent).extend(&requests);
        if !self.replies {
            pending::<()>().await;
        }
        yield_now().await;
        Ok(requests.into_iter().map(Reply::Int).collect())
    }

    fn pushes(&self) -> bool {
        false
    }

    async fn lost(&self) {}
}

/// Returns `Pending` once.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn every_request_has_its_reply() {
    loom::model(|| {
        let world = World::new(true);
        let stop = world.stop.listen();
        let request = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                assert_eq!(Ok(Reply::Int(1)), block_on(Arc::clone(&world).call(1)));
                world.stop.notify(1);
            })
        };
        world.drive_until(stop);
        request.join().unwrap();
        assert_eq!(vec![1], world.sent());
    });
}

#[test]
fn a_request_that_another_task_continues_has_its_reply() {
    loom::model(|| {
        let world = World::new(true);
        let (stop, call) = (world.stop.listen(), world.start(1));
        let request = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                assert_eq!(Ok(Reply::Int(1)), block_on(call));
                world.stop.notify(1);
            })
        };
        world.drive_until(stop);
        request.join().unwrap();
    });
}

#[test]
fn no_request_overtakes_another() {
    loom::model(|| {
        let world = World::new(true);
        let (stop, first) = (world.stop.listen(), world.start(1));
        // From now on, a request may be sent alone.
        world.outbox.state().alone = 0;
        let requests = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                assert_eq!(Ok(Reply::Int(2)), block_on(Arc::clone(&world).call(2)));
                assert_eq!(Ok(Reply::Int(1)), block_on(first));
                world.stop.notify(1);
            })
        };
        world.drive_until(stop);
        requests.join().unwrap();
        assert_eq!(vec![1, 2], world.sent());
    });
}

#[test]
fn no_request_waits_for_a_driver_that_is_gone() {
    loom::model(|| {
        let world = World::new(false);
        let call = Arc::clone(&world).call(1);
        let request = thread::spawn(move || block_on(call));
        world.drive_until(yield_now());
        let outcome = request.join().unwrap();
        let expected = if outcome == Err(Sent::No) { vec![] } else { vec![1] };
        assert_eq!(expected, world.sent(), "{outcome:?}");
    });
}

#[test]
fn a_pipeline_ends_with_the_last_of_its_requests() {
    loom::model(|| {
        let world = World::new(false);
        let call = world.start(1);
        let request = thread::spawn(move || drop(call));
        // Only the drop of the request can wake the driver.
        let ended =
            poll_fn(|_| if world.outbox.state().batched == 0 { Poll::Ready(()) } else { Poll::Pending });
        world.drive_until(ended);
        request.join().unwrap();
    });
}
