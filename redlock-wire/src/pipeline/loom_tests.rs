//! The pipeline in every interleaving of its requests and its driver.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use event_listener::Event;
use loom::future::block_on;
use loom::thread;

use super::{Pipeline, Socket};
use crate::first::{First, first};
use crate::message::{Failure, Reply, Sent};
use crate::push::Hub;
use crate::sync::{Mutex, locked};

/// A server that replies to each request, which is one digit, with that number. Only the driver uses the socket.
struct Server {
    /// All bytes that were sent.
    sent: Mutex<Vec<u8>>,
    /// If `false`, there are no replies.
    replies: bool,
}

struct FakeSocket {
    server: Arc<Server>,
    replies: Vec<u8>,
}

impl Socket for FakeSocket {
    fn poll_read(&mut self, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.replies.is_empty() {
            return Poll::Pending;
        }
        let replies = std::mem::take(&mut self.replies);
        buffer[..replies.len()].copy_from_slice(&replies);
        Poll::Ready(Ok(replies.len()))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        locked(&self.server.sent).extend_from_slice(bytes);
        if self.server.replies {
            for digit in bytes {
                self.replies.extend_from_slice(&[b':', *digit, b'\r', b'\n']);
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A pipeline and its driver, and what the driver has sent.
struct World {
    pipeline: Arc<Pipeline>,
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
    server: Arc<Server>,
}

fn world(replies: bool) -> World {
    let server = Arc::new(Server { sent: Mutex::new(Vec::new()), replies });
    let socket = FakeSocket { server: Arc::clone(&server), replies: Vec::new() };
    let (pipeline, driver) = Pipeline::new(socket, &Hub::default());
    World { pipeline: Arc::new(pipeline), driver: Box::pin(driver), server }
}

impl World {
    /// Starts a request.
    fn start(&self, digit: u8) -> Call {
        let mut call = call(&self.pipeline, digit);
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        call
    }

    /// Drives the connection until `end` completes, and drops the driver.
    fn drive_until(&mut self, end: impl Future<Output = ()>) {
        let driver = std::mem::replace(&mut self.driver, Box::pin(async {}));
        block_on(async {
            match first(driver, end).await {
                First::Left(()) => unreachable!("the connection is not lost"),
                First::Right(()) => {}
            }
        });
    }

    fn sent(&self) -> Vec<u8> {
        locked(&self.server.sent).clone()
    }
}

type Call = Pin<Box<dyn Future<Output = Result<Reply, Failure>> + Send>>;

fn call(pipeline: &Arc<Pipeline>, digit: u8) -> Call {
    let pipeline = Arc::clone(pipeline);
    Box::pin(async move { pipeline.call(vec![digit]).await })
}

fn number(outcome: Result<Reply, Failure>) -> i64 {
    match outcome {
        Ok(Reply::Int(number)) => number,
        other => panic!("{other:?}"),
    }
}

/// Returns `Pending` once.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
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
        let (mut world, stop) = (world(true), Arc::new(Event::new()));
        let stopped = stop.listen();
        let pipeline = Arc::clone(&world.pipeline);
        let requests = thread::spawn(move || {
            assert_eq!(1, number(block_on(call(&pipeline, b'1'))));
            assert_eq!(2, number(block_on(call(&pipeline, b'2'))));
            stop.notify(1);
        });
        world.drive_until(stopped);
        requests.join().unwrap();
        assert_eq!(b"12", &*world.sent());
    });
}

#[test]
fn requests_of_two_tasks_have_their_replies() {
    loom::model(|| {
        let (mut world, stop) = (world(true), Arc::new(Event::new()));
        let stopped = stop.listen();
        let waits = world.start(b'1');
        let pipeline = Arc::clone(&world.pipeline);
        let requests = thread::spawn(move || {
            let mut second = call(&pipeline, b'2');
            let started = second.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            // Another task continues both.
            assert_eq!(1, number(block_on(waits)));
            assert!(started.is_pending());
            assert_eq!(2, number(block_on(second)));
            stop.notify(1);
        });
        world.drive_until(stopped);
        requests.join().unwrap();
        assert_eq!(b"12", &*world.sent(), "no request overtakes another");
    });
}

#[test]
fn a_dropped_request_is_sent_once_or_never_and_its_reply_is_discarded() {
    loom::model(|| {
        let (mut world, stop) = (world(true), Arc::new(Event::new()));
        let stopped = stop.listen();
        let dropped = world.start(b'1');
        let pipeline = Arc::clone(&world.pipeline);
        let requests = thread::spawn(move || {
            drop(dropped);
            assert_eq!(2, number(block_on(call(&pipeline, b'2'))));
            stop.notify(1);
        });
        world.drive_until(stopped);
        requests.join().unwrap();
        assert!(matches!(&*world.sent(), b"2" | b"12"));
        let (all, free) = world.pipeline.0.slots();
        assert_eq!(all, free);
    });
}

#[test]
fn no_request_waits_for_a_driver_that_is_gone() {
    loom::model(|| {
        let mut world = world(false);
        let call = call(&world.pipeline, b'1');
        let request = thread::spawn(move || block_on(call).unwrap_err().sent);
        world.drive_until(yield_now());
        let outcome = request.join().unwrap();
        let expected: &[u8] = if outcome == Sent::No { b"" } else { b"1" };
        assert_eq!(expected, &*world.sent(), "{outcome:?}");
    });
}

#[test]
fn a_loss_is_noticed_however_late_it_is_waited_for() {
    loom::model(|| {
        let world = world(false);
        let driver = world.driver;
        let end = thread::spawn(move || drop(driver));
        block_on(async { pin!(world.pipeline.lost()).await });
        end.join().unwrap();
        assert!(world.pipeline.is_lost());
    });
}
