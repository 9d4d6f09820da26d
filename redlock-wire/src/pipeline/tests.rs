//! Tests of the pipeline, over a socket without I/O.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use proptest::prelude::*;

use super::outbox::SPARE;
use super::{Pipeline, Socket, decode};
use crate::message::{Failure, Reply, Sent};
use crate::push::Hub;
use crate::scanner::{MAX_REPLY_BYTES, Scanner};

/// The bytes that the server has sent and received.
struct Wire {
    /// The writes of the driver.
    writes: Vec<String>,
    /// The number of bytes that the socket takes.
    space: usize,
    incoming: Vec<u8>,
    /// `true` at the end of the stream.
    is_closed: bool,
    /// `true` if the socket holds back what was written.
    holds_back: bool,
}

struct FakeSocket(Arc<Mutex<Wire>>);

impl Socket for FakeSocket {
    fn poll_read(&mut self, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut wire = self.0.lock().unwrap();
        if wire.incoming.is_empty() {
            return if wire.is_closed { Poll::Ready(Ok(0)) } else { Poll::Pending };
        }
        let count = wire.incoming.len().min(buffer.len());
        buffer[..count].copy_from_slice(&wire.incoming[..count]);
        wire.incoming.drain(..count);
        Poll::Ready(Ok(count))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut wire = self.0.lock().unwrap();
        let count = wire.space.min(bytes.len());
        if count == 0 {
            return Poll::Pending;
        }
        wire.space -= count;
        wire.holds_back = true;
        wire.writes.push(String::from_utf8_lossy(&bytes[..count]).into_owned());
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().unwrap().holds_back = false;
        Poll::Ready(Ok(()))
    }
}

/// A pipeline whose driver runs only when a test polls it.
struct World {
    pipeline: Arc<Pipeline>,
    driver: Option<BoxFuture<'static, ()>>,
    wire: Arc<Mutex<Wire>>,
    hub: Hub,
}

type Call = BoxFuture<'static, Result<Vec<Reply>, Failure>>;

impl World {
    fn new() -> Self {
        let wire = Wire {
            writes: Vec::new(),
            space: usize::MAX,
            incoming: Vec::new(),
            is_closed: false,
            holds_back: false,
        };
        let (wire, hub) = (Arc::new(Mutex::new(wire)), Hub::default());
        let (pipeline, driver) = Pipeline::new(FakeSocket(Arc::clone(&wire)), &hub);
        Self { pipeline: Arc::new(pipeline), driver: Some(driver.boxed()), wire, hub }
    }

    /// Starts a request of one command.
    fn call(&self, command: &str) -> Call {
        let (pipeline, command) = (Arc::clone(&self.pipeline), command.as_bytes().to_vec());
        started(async move { pipeline.call(command).await.map(|reply| vec![reply]) })
    }

    /// Starts a request of several commands.
    fn call_all(&self, commands: &[&str]) -> Call {
        let pipeline = Arc::clone(&self.pipeline);
        let commands = commands.iter().map(|command| command.as_bytes().to_vec()).collect();
        started(async move { pipeline.call_all(commands).await })
    }

    /// Starts a request with a reading of the clock, whose time in microseconds is the last number.
    fn timed(&self, commands: &[&str]) -> Call {
        let pipeline = Arc::clone(&self.pipeline);
        let commands: Vec<_> = commands.iter().map(|command| command.as_bytes().to_vec()).collect();
        started(async move {
            let (mut replies, time) = match &commands[..] {
                [one] => pipeline.timed_call(one.clone()).await.map(|(reply, time)| (vec![reply], time))?,
                _ => pipeline.timed(commands).await?,
            };
            replies.push(time.map_or(Reply::Nil, |time| Reply::Int(time.as_micros().try_into().unwrap())));
            Ok(replies)
        })
    }

    /// Lets the driver do all that it can.
    fn drive(&mut self) {
        if self.driver.as_mut().is_some_and(|driver| driver.now_or_never().is_some()) {
            self.driver = None;
        }
    }

    /// Returns the writes since the last call.
    fn writes(&mut self) -> Vec<String> {
        self.drive();
        std::mem::take(&mut self.wire.lock().unwrap().writes)
    }

    /// Sends bytes to the client.
    fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.wire.lock().unwrap().incoming.extend_from_slice(bytes.as_ref());
        self.drive();
    }

    /// Returns the numbers of all slots and of free ones.
    fn slots(&self) -> (usize, usize) {
        self.pipeline.0.slots()
    }
}

fn started(call: impl Future<Output = Result<Vec<Reply>, Failure>> + Send + 'static) -> Call {
    let mut call = call.boxed();
    assert!((&mut call).now_or_never().is_none());
    call
}

fn ended(call: Call) -> Result<Vec<Reply>, Failure> {
    call.now_or_never().expect("the call has ended")
}

fn number(call: Call) -> i64 {
    match ended(call).unwrap().as_slice() {
        [Reply::Int(number)] => *number,
        other => panic!("{other:?}"),
    }
}

fn not_sent(call: Call) -> bool {
    ended(call).unwrap_err().sent == Sent::No
}

#[test]
fn requests_that_wait_are_one_write_in_the_order_of_their_first_polls() {
    let mut world = World::new();
    let pipeline = Arc::clone(&world.pipeline);
    let unpolled = pipeline.call(b"-".to_vec());
    let (a, b, c) = (world.call("a"), world.call_all(&["b", "B"]), world.call("c"));
    assert_eq!(vec!["abBc"], world.writes());
    assert!(!world.wire.lock().unwrap().holds_back, "the socket was flushed");
    drop(unpolled);
    world.say(":1\r\n:2\r\n:3\r\n:4\r\n");
    assert_eq!(4, number(c));
    assert_eq!(vec![Reply::Int(2), Reply::Int(3)], ended(b).unwrap());
    assert_eq!(1, number(a));
    assert_eq!(Vec::<String>::new(), world.writes());
}

#[test]
fn one_reading_of_the_clock_follows_the_requests_of_a_write() {
    let mut world = World::new();
    let (a, b, dropped, c) =
        (world.timed(&["a"]), world.call("b"), world.timed(&["d"]), world.timed(&["c", "C"]));
    let time = "*1\r\n$4\r\nTIME\r\n";
    assert_eq!(vec![format!("abdcC{time}")], world.writes());
    drop(dropped);
    world.say(":1\r\n:2\r\n:9\r\n:3\r\n:4\r\n");
    assert_eq!(2, number(b), "it does not wait for the clock");
    let mut a = a;
    assert!((&mut a).now_or_never().is_none());
    let later = world.timed(&["e"]);
    assert_eq!(vec![format!("e{time}")], world.writes());
    world.say("*2\r\n$1\r\n7\r\n$1\r\n5\r\n");
    let seven = Reply::Int(7_000_005);
    assert_eq!(vec![Reply::Int(1), seven.clone()], ended(a).unwrap());
    assert_eq!(vec![Reply::Int(3), Reply::Int(4), seven], ended(c).unwrap());
    world.say(":5\r\n-NOPERM\r\n");
    assert_eq!(vec![Reply::Int(5), Reply::Nil], ended(later).unwrap(), "not permitted");
    let (slots, free) = world.slots();
    assert_eq!(slots, free);
}

#[test]
fn no_commands_are_no_request() {
    let world = World::new();
    assert_eq!(0, world.pipeline.call_all(Vec::new()).now_or_never().unwrap().unwrap().len());
}

#[test]
fn the_clock_is_read_without_commands_too() {
    let mut world = World::new();
    let (clock, next) = (world.timed(&[]), world.call("a"));
    assert_eq!(vec!["a*1\r\n$4\r\nTIME\r\n"], world.writes());
    world.say(":1\r\n*2\r\n$1\r\n7\r\n$1\r\n5\r\n");
    assert_eq!(1, number(next));
    assert_eq!(vec![Reply::Int(7_000_005)], ended(clock).unwrap());
    assert_eq!(world.slots().0, world.slots().1);
}

#[test]
fn a_request_that_is_dropped_before_it_is_taken_is_never_sent() {
    let mut world = World::new();
    let (first, second, third, fourth) =
        (world.call("a"), world.call_all(&["b", "B"]), world.call("c"), world.call("d"));
    drop((second, fourth));
    assert_eq!(vec!["ac"], world.writes());
    let fifth = world.call("e");
    world.say(":1\r\n:2\r\n:3\r\n");
    assert_eq!((1, 2, 3), (number(first), number(third), number(fifth)));
}

#[test]
fn a_request_that_is_dropped_later_is_sent_once_and_its_replies_are_discarded() {
    let mut world = World::new();
    let (first, second, third) = (world.call("a"), world.call_all(&["b", "B"]), world.call("c"));
    world.drive();
    drop(second);
    // Its slot is not reused before its replies have arrived.
    let fourth = world.call("d");
    world.say(":1\r\n:2\r\n");
    let fifth = world.call("e");
    world.say(":3\r\n:4\r\n:5\r\n:6\r\n");
    assert_eq!((1, 4, 5, 6), (number(first), number(third), number(fourth), number(fifth)));
    assert_eq!("abBcde", world.writes().concat());
    let (slots, free) = world.slots();
    assert_eq!(slots, free);
}

#[test]
fn a_loss_completes_every_request_with_what_is_known() {
    let mut world = World::new();
    let read = world.call("a");
    world.drive();
    let (sent, dropped, pair) = (world.call("b"), world.call("c"), world.call_all(&["d", "D"]));
    world.say(":1\r\n");
    drop(dropped);
    world.wire.lock().unwrap().space = 0;
    world.drive();
    let taken = world.call("e");
    world.drive();
    let waiting = world.call("f");
    let pipeline = Arc::clone(&world.pipeline);
    let mut lost = pin!(pipeline.lost());
    assert!(lost.as_mut().now_or_never().is_none());
    // One of two replies.
    world.wire.lock().unwrap().incoming.extend_from_slice(b":2\r\n:3\r\n:4\r\n");
    world.wire.lock().unwrap().is_closed = true;
    assert!(world.driver.take().unwrap().now_or_never().is_some());
    assert_eq!((1, 2), (number(read), number(sent)));
    let failure = ended(pair).unwrap_err();
    assert_eq!((Sent::Maybe, "the server closed the connection"), (failure.sent, &*failure.message));
    assert_eq!(Sent::Maybe, ended(taken).unwrap_err().sent);
    assert!(not_sent(waiting));
    assert!(lost.now_or_never().is_some() && world.pipeline.is_lost());
    let later = world.pipeline.call(b"g".to_vec()).now_or_never().unwrap().unwrap_err();
    assert_eq!(Sent::No, later.sent);
    let (slots, free) = world.slots();
    assert_eq!(slots, free);
}

#[test]
fn no_request_waits_for_a_driver_that_was_dropped() {
    let mut world = World::new();
    let sent = world.call("a");
    world.drive();
    let waiting = world.call("b");
    world.driver = None;
    assert_eq!(Sent::Maybe, ended(sent).unwrap_err().sent);
    assert!(not_sent(waiting));
    assert!(world.pipeline.lost().now_or_never().is_some());
}

#[test]
fn a_socket_that_takes_no_more_delays_only_writes() {
    let mut world = World::new();
    let first = world.call("aaaa");
    world.wire.lock().unwrap().space = 6;
    assert_eq!(vec!["aaaa"], world.writes());
    let (second, third, fourth) = (world.call("bbbb"), world.call("c"), world.call("d"));
    assert_eq!(vec!["bb"], world.writes());
    world.say(":1\r\n");
    assert_eq!(1, number(first));
    let fifth = world.call("e");
    drop(fifth);
    world.wire.lock().unwrap().space = usize::MAX;
    assert_eq!("bbcd", world.writes().concat());
    world.say(":2\r\n:3\r\n:4\r\n");
    assert_eq!((2, 3, 4), (number(second), number(third), number(fourth)));
}

#[test]
fn many_requests_are_several_writes() {
    let mut world = World::new();
    let long = "x".repeat(50_000);
    let calls: Vec<_> = (0..4).map(|_| world.call(&long)).collect();
    assert_eq!(vec![100_000; 2], world.writes().iter().map(String::len).collect::<Vec<_>>());
    world.say(":1\r\n:1\r\n:1\r\n:1\r\n");
    assert!(calls.into_iter().all(|call| number(call) == 1));
}

#[test]
fn replies_arrive_in_any_pieces() {
    let long = "x".repeat(100_000);
    let stream = format!(":1\r\n$100000\r\n{long}\r\n*2\r\n$1\r\ny\r\n_\r\n");
    for piece in [1_000, 7_777, stream.len()] {
        let mut world = World::new();
        let (a, b, c) = (world.call("a"), world.call("b"), world.call("c"));
        for piece in stream.as_bytes().chunks(piece) {
            world.say(piece);
        }
        assert_eq!(1, number(a));
        assert_eq!(vec![Reply::Bytes(long.clone().into())], ended(b).unwrap());
        assert_eq!(vec![Reply::Array(vec![Reply::Bytes(b"y".to_vec()), Reply::Nil])], ended(c).unwrap());
        let d = world.call("d");
        for byte in b":12\r\n" {
            world.say([*byte]);
        }
        assert_eq!(12, number(d));
    }
}

#[test]
fn a_hostile_server_loses_the_connection() {
    let endless = format!("${}\r\n", MAX_REPLY_BYTES + 1);
    let elements = "*1000000\r\n".to_owned() + &":1\r\n".repeat(MAX_REPLY_BYTES / 4);
    let line = format!("+{}", "x".repeat(MAX_REPLY_BYTES));
    let nested = "*1\r\n".repeat(9);
    for bytes in [&*endless, &elements, &line, &nested, "?!\r\n", ":one\r\n", "#x\r\n", "=2\r\nab\r\n"] {
        let mut world = World::new();
        let call = world.call("a");
        world.drive();
        world.say(bytes);
        let failure = ended(call).unwrap_err();
        assert_eq!(Sent::Maybe, failure.sent);
        assert!(failure.message.starts_with("the server sent "), "{failure:?}");
        assert!(world.driver.is_none() && world.pipeline.is_lost());
    }
}

#[test]
fn a_reply_without_a_request_ends_the_connection() {
    for (reply, reason) in [
        (":1\r\n", "the server sent a reply without a request"),
        ("-ERR max number of clients reached\r\n", "ERR max number of clients reached"),
    ] {
        let mut world = World::new();
        world.say(reply);
        let later = world.pipeline.call(b"a".to_vec()).now_or_never().unwrap().unwrap_err();
        assert_eq!((Sent::No, reason), (later.sent, &*later.message));
    }
}

#[test]
fn pushes_arrive_between_replies() {
    let mut world = World::new();
    let watch = world.hub.watch(b"k");
    let mut other = world.hub.watch(b"other");
    let (a, b) = (world.call("a"), world.call_all(&["b", "B"]));
    world.say(":1\r\n:2\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n>1\r\n+message\r\n:3\r\n");
    assert_eq!(1, number(a));
    assert_eq!(vec![Reply::Int(2), Reply::Int(3)], ended(b).unwrap());
    assert!(watch.now_or_never().is_some());
    assert!((&mut other).now_or_never().is_none());
    assert!(!world.pipeline.is_lost());
}

#[test]
fn unknown_invalidations_complete_all_watches() {
    for keys in ["_\r\n", "*-1\r\n", ":1\r\n", "*1\r\n:1\r\n"] {
        let mut world = World::new();
        let watch = world.hub.watch(b"k");
        world.say(format!(">2\r\n+invalidate\r\n{keys}"));
        assert!(watch.now_or_never().is_some(), "{keys}");
        assert!(!world.pipeline.is_lost());
    }
}

/// Counts how often a task was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn only_the_last_waker_is_woken_by_the_last_reply() {
    for polled_by in [&[0][..], &[0, 0], &[0, 1], &[0, 1, 0], &[0, 1, 2, 0, 1]] {
        let mut world = World::new();
        let tasks: [Arc<Woken>; 3] = Default::default();
        let pipeline = Arc::clone(&world.pipeline);
        let mut call = pin!(pipeline.call_all(vec![b"a".to_vec(), b"b".to_vec()]));
        for task in polled_by {
            let waker = Waker::from(Arc::clone(&tasks[*task]));
            assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            world.drive();
        }
        let woken = || tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed));
        world.say(":1\r\n");
        assert_eq!([0; 3], woken(), "one reply is missing");
        world.say(":2\r\n");
        let mut last = [0; 3];
        last[polled_by[polled_by.len() - 1]] = 1;
        assert_eq!(last, woken(), "last polled by {polled_by:?}");
        assert!(Pin::new(&mut call).now_or_never().is_some());
    }
}

#[test]
fn the_driver_is_woken_by_a_request_and_by_nothing_else() {
    let world = World::new();
    let mut driver = world.driver.unwrap();
    let task = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&task));
    let mut woken = 0;
    for _ in 0..3 {
        assert!(driver.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(woken, task.0.load(Ordering::Relaxed));
        let mut call = pin!(world.pipeline.call(b"a".to_vec()));
        assert!(call.as_mut().now_or_never().is_none());
        woken += 1;
        assert_eq!(woken, task.0.load(Ordering::Relaxed));
    }
}

#[test]
fn slots_are_reused_even_while_a_reply_is_left_unread() {
    let mut world = World::new();
    let unread = world.call("a");
    world.say(":1\r\n");
    for _ in 0..100 {
        let call = world.call("b");
        world.say(":2\r\n");
        assert_eq!(2, number(call));
    }
    assert_eq!((2, 1), world.slots());
    assert_eq!(1, number(unread));
}

#[test]
fn the_memory_of_a_burst_is_freed() {
    let mut world = World::new();
    let calls: Vec<_> = (0..=SPARE).map(|_| world.call("a")).collect();
    assert_eq!(SPARE + 1, world.slots().0);
    world.say(":1\r\n".repeat(SPARE + 1));
    assert!(calls.into_iter().all(|call| number(call) == 1));
    assert_eq!((0, 0), world.slots());
}

proptest! {
    /// A reply that is complete for the scanner is read completely, or it is malformed.
    #[test]
    fn the_decoder_reads_what_the_scanner_has_measured(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 1..12),
    ) {
        let bytes = pieces.concat().into_bytes();
        let (mut scanner, mut start) = (Scanner::new(), 0);
        for end in 1..=bytes.len() {
            match scanner.scan(&bytes[end - 1..end]) {
                Err(_) => break,
                Ok(0) => {}
                Ok(_) => {
                    if let Some((_, size)) = decode(&bytes[start..]) {
                        prop_assert_eq!(end - start, size);
                    }
                    start = end;
                }
            }
        }
    }
}

const PIECES: &[&str] = &[
    "*0\r\n",
    "*1\r\n",
    "*2\r\n",
    "%1\r\n",
    "~1\r\n",
    ">2\r\n",
    "$3\r\nabc\r\n",
    "$4\r\n\r\n\r\n\r\n",
    "$0\r\n\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "_\r\n",
    "_x\r\n",
    "#t\r\n",
    "#\r\n",
    ",1.5\r\n",
    "(12\r\n",
    ":1\r\n",
    ":-\r\n",
    "+a\rb\r\n",
    "+\r\r\n",
    "-ERR x\r\n",
    "=5\r\ntxt:a\r\n",
    "=2\r\nab\r\n",
    "!3\r\nERR\r\n",
    "+\r",
    "\r\n",
    "$3\r\n",
    "$01\r\nx\r\n",
    "%0\r\n",
];
