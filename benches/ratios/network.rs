//! A proxy in front of each server, which adds the delays of a network.
//!
//! Separate threads delay every message, so the timers of the measured runtime do not matter.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use redlock_testkit::RedisServer;

/// The time for which a message is held up if its connection stalls.
const STALL: Duration = Duration::from_millis(500);

/// The way to one server.
#[derive(Clone, Copy, Default)]
pub(crate) struct Link {
    /// The delay of a round trip.
    pub(crate) delay: Duration,
    /// The longest additional delay of a message in one direction. It is drawn for each message.
    pub(crate) jitter: Duration,
    /// The share of messages whose connection stalls, in percent.
    pub(crate) stalls: u64,
}

/// A proxy in front of one server. It accepts no connection any more when it is dropped.
pub(crate) struct Proxy {
    port: u16,
    is_over: Arc<AtomicBool>,
}

/// Starts a proxy for each server, and returns them with their addresses.
pub(crate) fn proxies<'a>(
    servers: impl IntoIterator<Item = &'a RedisServer>,
    links: &[Link],
) -> (Vec<Proxy>, Vec<String>) {
    let proxies: Vec<_> =
        servers.into_iter().zip(links).map(|(server, link)| Proxy::start(server.port(), *link)).collect();
    let urls = proxies.iter().map(|proxy| format!("redis://127.0.0.1:{}", proxy.port)).collect();
    (proxies, urls)
}

impl Proxy {
    fn start(server: u16, link: Link) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("the listener is bound").port();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        thread::spawn(move || {
            for client in listener.incoming() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let client = client.expect("a connection");
                let upstream = TcpStream::connect(("127.0.0.1", server)).expect("the server runs");
                let clone = |stream: &TcpStream| stream.try_clone().expect("the socket is open");
                forward(clone(&client), clone(&upstream), link);
                forward(upstream, client, link);
            }
        });
        Self { port, is_over }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Ends the wait for the next connection. It fails only if the thread has ended already.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Forwards one direction of a connection until it ends.
fn forward(from: TcpStream, to: TcpStream, link: Link) {
    to.set_nodelay(true).expect("the socket is open");
    let (sender, receiver) = channel();
    thread::spawn(move || read(from, &sender, link));
    thread::spawn(move || write(to, &receiver));
}

fn read(mut from: TcpStream, sender: &Sender<(Instant, Vec<u8>)>, link: Link) {
    let mut buffer = vec![0; 1 << 16];
    let mut last = Instant::now();
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let stall = if fastrand::u64(..100) < link.stalls { STALL } else { Duration::ZERO };
        let micros = u64::try_from(link.jitter.as_micros()).expect("the time is a few milliseconds");
        let jitter = Duration::from_micros(fastrand::u64(..=micros));
        // Nothing overtakes on a connection.
        last = last.max(Instant::now() + link.delay / 2 + jitter + stall);
        if sender.send((last, buffer[..count].to_vec())).is_err() {
            return;
        }
    }
}

fn write(mut to: TcpStream, receiver: &Receiver<(Instant, Vec<u8>)>) {
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // It fails only if the connection has ended already.
    let _ = to.shutdown(Shutdown::Both);
}
