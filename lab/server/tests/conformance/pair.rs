//! A real and a simulated server that receive the same commands.

use std::io::{Read, Write};
use std::iter;
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redlock_server::{ClientId, Release, Server, Settings};
use redlock_testkit::RedisServer;
use redlock_wire::{Reply, Scanner, decode};

/// The number of connections of a case.
const CONNECTIONS: usize = 2;

/// The difference of two times that are equal here, in milliseconds: the real server may be slow.
const SLACK: u64 = 200_000;

pub(crate) struct Pair {
    real: RedisServer,
    simulated: Server,
    connections: Vec<Connection>,
    settings: Settings,
    /// The difference.
    differences: Vec<String>,
}

/// A connection to each server, and everything that they have sent over it.
struct Connection {
    stream: Stream,
    client: ClientId,
    real: Vec<Item>,
    simulated: Vec<Item>,
    /// The commands.
    contexts: Vec<String>,
}

/// A connection to the real server.
struct Stream {
    socket: TcpStream,
    input: Vec<u8>,
}

/// A reply, or a push.
#[derive(Clone, Debug, PartialEq)]
struct Item {
    is_push: bool,
    reply: Shown,
}

/// A reply without the parts that differ between versions of servers, and between runs.
#[derive(Clone, Debug)]
enum Shown {
    Text(String),
    Array(Vec<Shown>),
}

impl Pair {
    pub(crate) fn start() -> Self {
        let real = RedisServer::start();
        let info = real.command(&["INFO", "server"]);
        let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:")).expect("an identity").trim();
        let release = Release::of(&info).expect("a version");
        let settings = Settings { release, run_id: run_id.to_owned(), started: now(), ..Settings::default() };
        let simulated = Server::new(settings.clone());
        Self { real, simulated, connections: Vec::new(), settings, differences: Vec::new() }
    }

    /// Begins a case, with empty servers and new connections.
    pub(crate) fn begin(&mut self) {
        for command in [
            &["CONFIG", "SET", "maxmemory", "0"][..],
            &["ACL", "SETUSER", "default", "+@all"],
            &["REPLICAOF", "NO", "ONE"],
            &["FLUSHALL"],
            &["SCRIPT", "FLUSH"],
        ] {
            self.real.command(command);
        }
        // A promotion has given the data another identity.
        let info = self.real.command(&["INFO", "replication"]);
        let past = info.lines().find_map(|line| line.strip_prefix("master_replid2:")).expect("an identity");
        past.trim().clone_into(&mut self.settings.replid2);
        self.simulated = Server::new(self.settings.clone());
        let connect = |_| {
            let socket = TcpStream::connect(("127.0.0.1", self.real.port())).expect("the server runs");
            let stream = Stream { socket, input: Vec::new() };
            let (real, simulated, contexts) = (Vec::new(), Vec::new(), Vec::new());
            Connection { stream, client: self.simulated.connect(), real, simulated, contexts }
        };
        self.connections = (0..CONNECTIONS).map(connect).collect();
    }

    /// Fails if any replies were not equal.
    pub(crate) fn finish(self) {
        assert!(self.differences.is_empty(), "different replies:\n{}", self.differences.join("\n"));
    }

    /// Changes both servers.
    pub(crate) fn condition(&mut self, condition: &str) {
        let real = &self.real;
        match condition.split_once(' ').unwrap_or((condition, "")) {
            ("memory", limit) => {
                real.command(&["CONFIG", "SET", "maxmemory", limit]);
                self.simulated.set(|settings| settings.out_of_memory = limit != "0");
            }
            ("replica", "") => {
                real.command(&["REPLICAOF", "127.0.0.1", "1"]);
                self.simulated.set(|settings| settings.is_replica = true);
            }
            ("deny", command) => {
                real.command(&["ACL", "SETUSER", "default", &format!("-{command}")]);
                let command: &'static str = command.to_owned().leak();
                self.simulated.set(|settings| settings.denied.extend([command]));
            }
            _ => panic!("no condition: {condition}"),
        }
    }

    /// Waits until a key has expired on both servers.
    pub(crate) fn wait_until_gone(&mut self, key: &str) {
        while self.real.command(&["EXISTS", key]) != "0" {
            std::thread::yield_now();
        }
        while self.simulated.change(|keys| keys.exists(key.as_bytes(), now())) {
            std::thread::yield_now();
        }
        self.simulated.expire(now());
    }

    /// Sends a command to both servers. Replies and pushes are compared at the end of the case.
    pub(crate) fn send(&mut self, number: usize, command: &[Vec<u8>], context: &str) {
        let bytes = encoded(command);
        let connection = &mut self.connections[number];
        connection.contexts.push(context.to_owned());
        connection.stream.socket.write_all(&bytes).expect("the server runs");
        connection.real.extend(connection.stream.until_reply());
        self.simulated.receive(connection.client, &bytes);
        let command = self.simulated.next_command(connection.client).expect("it has arrived");
        self.simulated.execute(connection.client, &command, now());
        for connection in &mut self.connections {
            connection.simulated.extend(items(&self.simulated.take_output(connection.client)).0);
        }
    }

    /// Ends a case. All pushes arrive ahead of the reply to a `PING`.
    pub(crate) fn end(&mut self) {
        for number in 0..CONNECTIONS {
            self.send(number, &[b"PING".to_vec()], "the end");
        }
        for Connection { real, simulated, contexts, .. } in &self.connections {
            let length = real.len().max(simulated.len());
            let Some(at) = (0..length).find(|at| real.get(*at) != simulated.get(*at)) else { continue };
            let replies = real[..at.min(real.len())].iter().filter(|item| !item.is_push).count();
            let (context, real, simulated) = (&contexts[replies], real.get(at), simulated.get(at));
            self.differences.push(format!("{context}\n  real:      {real:?}\n  simulated: {simulated:?}"));
        }
    }
}

impl Stream {
    /// Reads until a reply has arrived, with the pushes before it.
    fn until_reply(&mut self) -> Vec<Item> {
        self.socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a valid time");
        loop {
            let (items, used) = items(&self.input);
            if items.iter().any(|item| !item.is_push) {
                self.input.drain(..used);
                return items;
            }
            let mut buffer = [0; 4096];
            let count = self.socket.read(&mut buffer).expect("the server replies");
            assert!(count > 0, "the server has closed the connection");
            self.input.extend_from_slice(&buffer[..count]);
        }
    }
}

/// Reads complete replies and pushes. Returns the number of their bytes, too.
fn items(bytes: &[u8]) -> (Vec<Item>, usize) {
    let end = Scanner::new().scan(bytes).expect("a valid reply");
    let (mut items, mut at) = (Vec::new(), 0);
    while at < end {
        let (reply, size) = decode(&bytes[at..end]).expect("a valid reply");
        items.push(Item { is_push: bytes[at] == b'>', reply: shown(&reply) });
        at += size;
    }
    (items, end)
}

fn shown(reply: &Reply) -> Shown {
    match reply {
        Reply::Nil => Shown::Text("nil".into()),
        Reply::Int(number) => Shown::Text(format!("{number}")),
        Reply::Bytes(bytes) => Shown::Text(String::from_utf8_lossy(bytes).into_owned()),
        // Servers differ in the text after these codes. The text of an error ends before the place in a script.
        Reply::Error(error) => {
            let code = ["NOSCRIPT", "NOPERM"].into_iter().find(|code| error.starts_with(code));
            let text = code.unwrap_or_else(|| error.split(" script: ").next().unwrap_or_default());
            Shown::Text(text.to_owned())
        }
        // The age of a stamp is the time that the case has taken.
        Reply::Array(replies) if matches!(&replies[..], [_, Reply::Int(0..20_000), _, Reply::Bytes(_)]) => {
            let age = [Shown::Text("any".into())];
            Shown::Array(
                replies[..1].iter().map(shown).chain(age).chain(replies[2..].iter().map(shown)).collect(),
            )
        }
        Reply::Array(replies) => {
            let before = iter::once(None).chain(replies.iter().map(Some));
            // The number of a connection, the version of a server and its modules are any.
            let is_any = |before: Option<&Reply>| match before {
                Some(Reply::Bytes(name)) => [&b"id"[..], b"version", b"modules"].contains(&name.as_slice()),
                _ => false,
            };
            let shown = before
                .zip(replies)
                .map(|(before, reply)| if is_any(before) { Shown::Text("any".into()) } else { shown(reply) });
            Shown::Array(shown.collect())
        }
    }
}

/// Texts are equal word by word. Great numbers are times, which are equal if they are close.
impl PartialEq for Shown {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(left), Self::Array(right)) => left == right,
            (Self::Text(left), Self::Text(right)) => {
                let (left, right) = (left.split(' '), right.split(' '));
                left.clone().count() == right.clone().count()
                    && left.zip(right).all(|(left, right)| are_close(left, right))
            }
            _ => false,
        }
    }
}

fn are_close(left: &str, right: &str) -> bool {
    let (Ok(a), Ok(b)) = (left.parse::<u64>(), right.parse::<u64>()) else { return left == right };
    let slack = match a {
        // Microseconds since the Unix epoch, which counters round down to about four seconds.
        1_000_000_000_000_000..2_000_000_000_000_000 => SLACK * 1000,
        // Milliseconds of a TTL or since the Unix epoch.
        400_000..2_000_000_000_000 => SLACK,
        _ => 0,
    };
    a.abs_diff(b) <= slack
}

fn encoded(command: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        bytes.extend(format!("${}\r\n", word.len()).bytes().chain(word.iter().copied()).chain(*b"\r\n"));
    }
    bytes
}

/// Returns the real time in microseconds.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    u64::try_from(since.as_micros()).expect("not so late")
}
