//! The limit of the machine: the bytes of a lock's requests over plain sockets, one task for each server.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::time::ClockId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::contender::{RELEASE, TTL};
use crate::lane::{Flavor, Throughput, cpu_micros, runtime};

/// A loop that writes and reads RESP. It has no quorum, no tokens of its own for each lock and no timeouts.
pub(crate) struct Bare {
    runtime: Runtime,
    addresses: Vec<String>,
}

impl Bare {
    pub(crate) fn new(flavor: Flavor, urls: &[String]) -> Self {
        let addresses = urls.iter().map(|url| {
            let address = url.trim_start_matches("redis://").split('/').next();
            address.expect("a URL has an address").to_owned()
        });
        Self { runtime: runtime(flavor), addresses: addresses.collect() }
    }

    /// Keeps this many requests under way to each server.
    pub(crate) fn throughput(&self, requests: usize, lasts: Duration) -> Throughput {
        self.runtime.block_on(async {
            let sockets = join_all(self.addresses.iter().map(|address| connect(address))).await;
            let cpu = cpu_micros(ClockId::ProcessCPUTime);
            let start = Instant::now();
            let until = start + lasts;
            let tasks = sockets.into_iter().map(|socket| tokio::spawn(repeat(socket, requests, until)));
            let cycles = join_all(tasks).await.into_iter().map(|cycles| cycles.expect("the server replies"));
            let nodes = u32::try_from(self.addresses.len()).expect("a few servers");
            let cycles = f64::from(cycles.sum::<u32>()) / f64::from(nodes);
            let cpu = cpu_micros(ClockId::ProcessCPUTime) - cpu;
            Throughput { cycles, rate: cycles / start.elapsed().as_secs_f64(), cpu: cpu / cycles }
        })
    }
}

async fn connect(address: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("the server runs");
    socket.set_nodelay(true).expect("TCP has the option");
    // The release is loaded, so that the loop can name it by its hash as the clients do.
    socket.write_all(&command(&["SCRIPT", "LOAD", RELEASE])).await.expect("the server runs");
    read(&mut socket, 1, 2).await;
    socket
}

/// Sets and deletes one key for each request, in two writes. Returns the number of cycles.
async fn repeat(mut socket: TcpStream, requests: usize, until: Instant) -> u32 {
    let token = "0123456789abcdef0123456789abcdef01234567";
    let ttl = TTL.as_millis().to_string();
    let hash = redis::Script::new(RELEASE).get_hash().to_owned();
    let keys: Vec<String> = (0..requests).map(|number| format!("bare-{number}")).collect();
    let acquire: Vec<u8> =
        keys.iter().flat_map(|key| command(&["SET", key, token, "NX", "PX", &ttl])).collect();
    let release: Vec<u8> =
        keys.iter().flat_map(|key| command(&["EVALSHA", &hash, "1", key, token])).collect();
    let mut cycles = 0;
    while Instant::now() < until {
        for wave in [&acquire, &release] {
            socket.write_all(wave).await.expect("the server runs");
            read(&mut socket, requests, 1).await;
        }
        cycles += u32::try_from(requests).expect("a few thousand requests");
    }
    cycles
}

/// Reads until this many replies of this many lines have come.
async fn read(socket: &mut TcpStream, replies: usize, lines: usize) {
    let mut buffer = vec![0; 16 * 1024];
    let mut missing = replies * lines;
    while missing > 0 {
        let count = socket.read(&mut buffer).await.expect("the server runs");
        assert!(count > 0, "the server closed the connection");
        assert!(!buffer[..count].contains(&b'-'), "the server replied with an error or a missing key");
        missing -= buffer[..count].split(|byte| *byte == b'\n').count() - 1;
    }
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes
}
