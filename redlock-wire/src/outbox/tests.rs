//! Tests of the outbox, over a client that records its requests.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use event_listener::Event;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::{JoinHandle, yield_now};

use super::batch::FULL;
use super::{ALONE, Outbox};
use crate::connection::{Command, Connection, Failure, Reply, Sent};

/// A client and an outbox in front of it. Clones share the state.
#[derive(Clone, Default)]
struct World(Arc<Inner>);

#[derive(Default)]
struct Inner {
    outbox: Outbox<i64>,
    /// The numbers of the sent requests. A pipeline contains several.
    sent: Mutex<Vec<Vec<i64>>>,
    outcome: Mutex<Outcome>,
    changed: Event,
    /// The number of pipelines that the client holds.
    pipelines: Mutex<usize>,
    /// If `true`, another request is made and dropped while a pipeline is handed over.
    meddles: Mutex<bool>,
}

#[derive(Clone, Copy, Default)]
enum Outcome {
    #[default]
    None,
    /// Each request returns its own number.
    Replies,
    /// One reply is missing.
    TooFew,
    Lost,
    /// There is no reply, and the client requests a poll all the time.
    Restless,
}

type Call = BoxFuture<'static, Result<Reply, Sent>>;

impl World {
    /// Starts a request.
    fn call(&self, number: i64) -> Call {
        let world = self.clone();
        let mut call = async move {
            let outcome = world.0.outbox.call(&world, number).await;
            outcome.map_err(|failure| failure.sent)
        }
        .boxed();
        assert!((&mut call).now_or_never().is_none());
        call
    }

    fn calls(&self, numbers: impl IntoIterator<Item = i64>) -> Vec<Call> {
        numbers.into_iter().map(|number| self.call(number)).collect()
    }

    /// Starts as many requests as may be sent alone.
    fn few(&self) -> Vec<Call> {
        let calls = self.calls([0; ALONE]);
        assert_eq!(vec![vec![0]; ALONE], self.sent());
        calls
    }

    /// Drives the outbox until it is aborted.
    async fn drive(&self) -> JoinHandle<()> {
        let world = self.clone();
        let driver = tokio::spawn(async move { world.0.outbox.drive(&world).await });
        yield_now().await;
        driver
    }

    async fn is(&self, outcome: Outcome) {
        *self.0.outcome.lock().unwrap() = outcome;
        self.0.changed.notify(usize::MAX);
        yield_now().await;
    }

    /// Returns the requests that were sent since the last call.
    fn sent(&self) -> Vec<Vec<i64>> {
        std::mem::take(&mut self.0.sent.lock().unwrap())
    }

    fn pipelines(&self) -> usize {
        *self.0.pipelines.lock().unwrap()
    }

    async fn outcome(&self, requests: &[i64]) -> Result<Vec<Reply>, Failure> {
        self.0.sent.lock().unwrap().push(requests.to_vec());
        let replies = requests.iter().map(|number| Reply::Int(*number));
        loop {
            let changed = self.0.changed.listen();
            let outcome = *self.0.outcome.lock().unwrap();
            match outcome {
                Outcome::None => {}
                Outcome::Replies => return Ok(replies.collect()),
                Outcome::TooFew => return Ok(replies.skip(1).collect()),
                Outcome::Lost => return Err(Failure::maybe_sent("cut")),
                Outcome::Restless => restless().await,
            }
            changed.await;
        }
    }
}

impl Connection for World {
    type Packed = i64;

    const BATCHES: bool = true;

    fn pack(_: Command<'_>) -> i64 {
        unreachable!("requests are numbers")
    }

    async fn call(&self, request: i64) -> Result<Reply, Failure> {
        self.outcome(&[request]).await.map(|mut replies| replies.remove(0))
    }

    async fn pipeline(&self, requests: Vec<i64>) -> Result<Vec<Reply>, Failure> {
        if std::mem::take(&mut *self.0.meddles.lock().unwrap()) {
            drop(self.call(-1));
        }
        *self.0.pipelines.lock().unwrap() += 1;
        let _in_hand = InHand(self);
        self.outcome(&requests).await
    }
}

/// Requests another poll at each poll.
async fn restless() {
    poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    })
    .await;
}

/// A pipeline that the client holds.
struct InHand<'a>(&'a World);

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        *self.0.0.pipelines.lock().unwrap() -= 1;
    }
}

/// Returns the outcomes of calls that have completed.
fn ended(calls: Vec<impl Future<Output = Result<Reply, Sent>>>) -> Vec<Result<Reply, Sent>> {
    calls.into_iter().map(|call| call.now_or_never().expect("the call has ended")).collect()
}

fn replies(numbers: impl IntoIterator<Item = i64>) -> Vec<Result<Reply, Sent>> {
    numbers.into_iter().map(|number| Ok(Reply::Int(number))).collect()
}

#[tokio::test]
async fn few_requests_are_sent_alone_and_more_as_one_pipeline_in_order() {
    let world = World::default();
    let _few = world.few();
    let full = i64::try_from(FULL).unwrap();
    let calls = world.calls(1..full + 3);
    assert!(world.sent().is_empty(), "the outbox is not driven yet");

    world.drive().await;
    assert_eq!(vec![(1..=full).collect(), vec![full + 1, full + 2]], world.sent());
    world.is(Outcome::Replies).await;
    assert_eq!(replies(1..full + 3), ended(calls));
}

#[tokio::test]
async fn after_many_requests_at_once_the_next_ones_wait_for_each_other_too() {
    let world = World::default();
    let few = world.few();
    world.drive().await;
    let many = i64::try_from(ALONE).unwrap() + 1;
    let calls = world.calls(1..=many);
    world.is(Outcome::Replies).await;
    world.is(Outcome::None).await;
    drop((few, calls));
    assert_eq!(vec![(1..=many).collect::<Vec<_>>()], world.sent());

    let _calls = world.calls([1, 2]);
    assert!(world.sent().is_empty(), "they are not sent alone, although nothing else is in flight");
    yield_now().await;
    assert_eq!(vec![vec![1, 2]], world.sent());
    let _call = world.call(3);
    assert_eq!(vec![vec![3]], world.sent(), "the driver took few requests last time");
}

#[tokio::test]
async fn the_driver_is_woken_by_later_requests() {
    let world = World::default();
    let _few = world.few();
    world.drive().await;
    for number in 1..3 {
        let _call = world.call(number);
        yield_now().await;
        assert_eq!(vec![vec![number]], world.sent());
    }
}

#[tokio::test]
async fn no_request_overtakes_waiting_ones() {
    let world = World::default();
    let few = world.few();
    let _waits = world.call(1);
    drop(few);
    let _later = world.call(2);
    assert!(world.sent().is_empty(), "another request comes first");

    world.drive().await;
    assert_eq!(vec![vec![1, 2]], world.sent());
}

#[tokio::test]
async fn no_request_overtakes_a_pipeline_in_hand_over() {
    let world = World::default();
    let few = world.few();
    let _waits = world.call(1);
    drop(few);
    *world.0.meddles.lock().unwrap() = true;
    world.drive().await;
    assert_eq!(vec![vec![1]], world.sent());

    // The request is sent now.
    let _alone = world.call(2);
    assert_eq!(vec![vec![2]], world.sent());
}

#[tokio::test]
async fn completed_requests_make_room() {
    let world = World::default();
    world.drive().await;
    for _ in 0..3 {
        world.is(Outcome::None).await;
        let mut calls = world.few();
        calls.extend(world.calls(1..3));
        world.is(Outcome::Replies).await;
        yield_now().await;
        assert_eq!([vec![Ok(Reply::Int(0)); ALONE], replies(1..3)].concat(), ended(calls));
        assert_eq!(vec![vec![1, 2]], world.sent());
    }
}

#[tokio::test]
async fn a_request_dropped_before_it_is_sent_is_not_sent() {
    let world = World::default();
    let _few = world.few();
    let mut calls = world.calls(1..6);
    drop(calls.remove(2));
    drop(calls.remove(0));
    world.drive().await;
    assert_eq!(vec![vec![2, 4, 5]], world.sent());

    drop(calls.remove(1));
    world.is(Outcome::Replies).await;
    assert_eq!(replies([2, 5]), ended(calls));
}

#[tokio::test]
async fn a_pipeline_is_dropped_with_the_last_of_its_requests() {
    let world = World::default();
    let _few = world.few();
    let (one, other) = (world.call(1), world.call(2));
    world.drive().await;
    drop(one);
    yield_now().await;
    assert_eq!(1, world.pipelines());
    drop(other);
    yield_now().await;
    assert_eq!(0, world.pipelines());
}

#[tokio::test]
async fn a_failed_pipeline_fails_all_its_requests() {
    for outcome in [Outcome::Lost, Outcome::TooFew] {
        let world = World::default();
        let _few = world.few();
        let calls = world.calls(1..4);
        world.drive().await;
        world.is(outcome).await;
        assert_eq!(vec![Err(Sent::Maybe); 3], ended(calls));
    }
}

#[tokio::test]
async fn requests_do_not_wait_for_a_dropped_driver() {
    let world = World::default();
    let _few = world.few();
    let sent = world.calls(1..3);
    let driver = world.drive().await;
    assert_eq!(vec![vec![1, 2]], world.sent());
    let waiting = world.calls(3..5);
    driver.abort();
    yield_now().await;
    assert_eq!(vec![Err(Sent::Maybe); 2], ended(sent));
    assert_eq!(vec![Err(Sent::No); 2], ended(waiting));

    let _alone = world.call(5);
    assert_eq!(vec![vec![5]], world.sent(), "the request fails by itself");
}

/// A driver that is busy with sent requests may be dropped before it sends the rest.
#[tokio::test]
async fn requests_that_a_dropped_driver_has_taken_fail() {
    let world = World::default();
    *world.0.outcome.lock().unwrap() = Outcome::Restless;
    let few = i64::try_from(ALONE).unwrap();
    let calls = world.calls(0..few + 4 * i64::try_from(FULL).unwrap());
    assert!(Box::pin(world.0.outbox.drive(&world)).now_or_never().is_none());
    let sent = world.sent()[ALONE..].concat().len();
    assert!(sent < 4 * FULL, "the driver has sent everything");

    let outcomes = ended(calls.into_iter().skip(ALONE).collect());
    let (maybe, no) = outcomes.split_at(sent);
    assert_eq!(vec![Err(Sent::Maybe); sent], maybe);
    assert_eq!(vec![Err(Sent::No); 4 * FULL - sent], no);
}

/// Counts how often a task was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn only_the_last_waker_is_woken() {
    for polled_by in [&[0][..], &[0, 0], &[0, 1], &[0, 1, 1], &[0, 1, 0], &[0, 1, 2, 0, 1]] {
        let world = World::default();
        let _few = world.few();
        world.drive().await;
        let tasks: [Arc<Woken>; 3] = Default::default();
        let mut call = Box::pin(world.0.outbox.call(&world, 1));
        for task in polled_by {
            let waker = Waker::from(Arc::clone(&tasks[*task]));
            assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            yield_now().await;
        }
        world.is(Outcome::Replies).await;
        let woken = tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed));
        let mut last = [0; 3];
        last[polled_by[polled_by.len() - 1]] = 1;
        assert_eq!(last, woken, "last polled by {polled_by:?}");
        assert_eq!(Some(Ok(Reply::Int(1))), call.now_or_never().map(|outcome| outcome.map_err(|f| f.sent)));
    }
}

#[tokio::test]
async fn pipelined_requests_count_until_they_end() {
    let world = World::default();
    world.drive().await;
    let few = world.few();
    let together = world.calls([1; ALONE]);
    yield_now().await;
    drop(few);
    let _another = world.call(2);
    yield_now().await;
    assert_eq!(2, world.pipelines(), "the request was not sent alone");

    drop(together);
    yield_now().await;
    assert_eq!(1, world.pipelines());
    let _alone = world.call(3);
    yield_now().await;
    assert_eq!(1, world.pipelines());
}
