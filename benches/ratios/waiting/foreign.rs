//! A holder in another language: a plain `SET key value NX PX`, ended by `DEL` or by its expiry.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use redlock_testkit::RedisServer;
use tokio::runtime::Builder;

use super::party::now;
use super::{millis, scaled};
use crate::contender::Contender;
use crate::contender::redlock_client::RedlockClient;
use crate::groups::servers;
use crate::report::Fact;
use crate::round::{Effort, median};

/// The wait before the first change. The watches are in place by then.
const SETTLED: Duration = Duration::from_millis(30);

const EXPIRY: Duration = Duration::from_millis(150);

/// The numbers of other keys that expire later. A server examines some of them from time to time.
const OTHERS: [u32; 2] = [0, 100_000];

/// The number of the next key.
static NUMBER: AtomicU64 = AtomicU64::new(0);

const GROUP: &str = "The holder is a plain SET NX PX of another program";

type Connect = fn(&[String]) -> RedlockClient;

pub(crate) fn run(effort: Effort) -> Vec<Fact> {
    let (servers, urls) = servers(5);
    let times = scaled(effort, 100);
    let adapters: [(&str, Connect); 2] =
        [("redis-rs", RedlockClient::redis_rs), ("fred", RedlockClient::fred)];
    let mut facts = Vec::new();
    for others in OTHERS {
        for server in &servers {
            fill(server, others);
        }
        for (name, connect) in adapters {
            let others = if others == 0 { String::new() } else { format!(", {others} other keys") };
            let deleted = median(waits(&servers, &urls, connect, times, End::Deleted));
            let expired = median(waits(&servers, &urls, connect, times, End::Expired));
            facts.push(Fact {
                group: GROUP,
                what: format!("{name}: from the DEL of the holder to the next hold{others}"),
                measured: millis(deleted),
                goal: Some(("under 5 ms".to_owned(), deleted < 5e6)),
            });
            facts.push(Fact {
                group: GROUP,
                what: format!("{name}: from the expiry of the key to the next hold{others}"),
                measured: millis(expired),
                goal: Some(("under 20 ms".to_owned(), expired < 20e6)),
            });
        }
    }
    facts
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Deleted,
    Expired,
}

/// Returns the nanoseconds from the end of the foreign hold to the hold of this library. Three of five servers must be
/// free, and the time starts before the first one is.
fn waits(servers: &[RedisServer], urls: &[String], connect: Connect, times: u64, end: End) -> Vec<f64> {
    let mut wires: Vec<Wire> = servers.iter().map(Wire::to).collect();
    let (requests, incoming) = channel::<String>();
    let (reply, replies) = channel();
    let urls = urls.to_vec();
    let waiter = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let client = connect(&urls);
            while let Ok(key) = incoming.recv() {
                let held = client.acquire(&key).await;
                let since = now();
                client.release(held).await;
                reply.send(since).expect("the receiver exists");
            }
        });
    });
    requests.send("warm".to_owned()).expect("the waiter runs");
    replies.recv().expect("the waiter replies");
    let mut waits = Vec::new();
    for _ in 0..times {
        // Of a key that another run used, the server may still have a reservation: that client ended without `close`.
        let key = format!("foreign-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let px = if end == End::Deleted { Duration::from_secs(60) } else { EXPIRY };
        let set = now();
        Wire::all(&mut wires, &["SET", &key, "other", "NX", "PX", &px.as_millis().to_string()]);
        requests.send(key.clone()).expect("the waiter runs");
        let begin = match end {
            End::Expired => set + u64::try_from(px.as_nanos()).expect("the time is a few milliseconds"),
            End::Deleted => {
                std::thread::sleep(SETTLED);
                let begin = now();
                Wire::all(&mut wires, &["DEL", &key]);
                begin
            }
        };
        let held = replies.recv().expect("the waiter replies");
        #[allow(clippy::cast_precision_loss)] // some milliseconds
        waits.push(held.saturating_sub(begin) as f64);
    }
    drop(requests);
    waiter.join().expect("the waiter does not panic");
    waits
}

/// Gives a server keys that expire, but none of them during the measurement.
fn fill(server: &RedisServer, keys: u32) {
    let script = "for i = 1, tonumber(ARGV[1]) do \
                  redis.call('SET', 'other:' .. i, 'x', 'PX', 3600000 + i) end return 'OK'";
    server.command(&["EVAL", script, "0", &keys.to_string()]);
}

/// A plain connection without any client library.
struct Wire(TcpStream);

impl Wire {
    fn to(server: &RedisServer) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server runs");
        stream.set_nodelay(true).expect("the socket is open");
        Self(stream)
    }

    /// Sends a command to all servers, then waits for all replies of one line each.
    fn all(wires: &mut [Self], words: &[&str]) {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            write!(request, "${}\r\n{word}\r\n", word.len()).expect("writing to a String succeeds");
        }
        for Self(stream) in &mut *wires {
            stream.write_all(request.as_bytes()).expect("the server reads");
        }
        for Self(stream) in wires {
            let (mut reply, mut buffer) = (Vec::new(), [0; 64]);
            while !reply.ends_with(b"\r\n") {
                let read = stream.read(&mut buffer).expect("the server replies");
                reply.extend_from_slice(&buffer[..read]);
            }
            assert!(matches!(&*reply, b"+OK\r\n" | b":1\r\n"), "{}", reply.escape_ascii());
        }
    }
}
