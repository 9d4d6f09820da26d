//! A blocking client for looking at a server from outside. It shares nothing with the clients under test.
//!
//! Every command uses a separate connection, so that it works across kills and restarts. Every command has a time
//! limit, so that a test fails instead of hanging.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// The time limit for a reply of a running server, even on a very busy machine.
const WAIT_LIMIT: Duration = Duration::from_secs(10);

/// A reply of a server.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// No value.
    Nil,
    /// A number.
    Int(i64),
    /// A string of any kind.
    Bytes(Vec<u8>),
    /// Several replies.
    Array(Vec<Reply>),
    /// An error reply, in the server's words.
    Error(String),
}

/// Sends commands to a server, with or without a password.
///
/// See [`RedisServer::authenticated`](super::RedisServer).
pub struct Console {
    pub(super) port: u16,
    pub(super) password: Option<String>,
}

impl Console {
    /// Sends one command and returns the reply as text.
    ///
    /// Nil is `""`, numbers are decimal, and the elements of an array are on separate lines. Bytes that are not UTF-8
    /// are replaced; [`reply`](Console::reply) returns them unchanged.
    ///
    /// ```no_run
    /// # use redlock_testkit::RedisServer;
    /// # let server = RedisServer::start();
    /// server.command(&["CONFIG", "SET", "requirepass", "rotated"]);
    /// let console = server.authenticated("rotated");
    /// assert_eq!("OK", console.command(&["SET", "orders:42", "alice"]));
    /// assert_eq!("", console.command(&["GET", "orders:43"]));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be reached, does not reply within 10 s, or replies with an error.
    #[track_caller]
    pub fn command(&self, words: &[&str]) -> String {
        let binary: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        match self.reply(&binary) {
            Reply::Error(message) => panic!("{}: {message}", words.first().unwrap_or(&"")),
            reply => reply.text(),
        }
    }

    /// Sends one command and returns the reply.
    ///
    /// ```no_run
    /// # use redlock_testkit::{RedisServer, Reply};
    /// # let server = RedisServer::builder().password("secret").start();
    /// let console = server.authenticated("guess");
    /// let Reply::Error(message) = console.reply(&[b"PING"]) else { panic!() };
    /// assert!(message.starts_with("WRONGPASS"));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be reached or does not reply within 10 s.
    #[track_caller]
    pub fn reply(&self, words: &[&[u8]]) -> Reply {
        let port = self.port;
        self.try_reply(words, WAIT_LIMIT)
            .unwrap_or_else(|error| panic!("no reply from the server on port {port}: {error}"))
    }

    pub(super) fn try_reply(&self, words: &[&[u8]], patience: Duration) -> io::Result<Reply> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut request = Vec::new();
        if let Some(password) = &self.password {
            encode(&[b"AUTH", password.as_bytes()], &mut request);
        }
        encode(words, &mut request);
        stream.write_all(&request)?;
        let mut replies = BufReader::new(stream);
        if self.password.is_some() {
            if let reply @ Reply::Error(_) = decode(&mut replies)? {
                return Ok(reply);
            }
        }
        decode(&mut replies)
    }
}

impl Reply {
    /// Returns the reply as text, in the same form as [`Console::command`].
    ///
    /// ```
    /// # use redlock_testkit::Reply;
    /// let reply = Reply::Array(vec![Reply::Int(7), Reply::Bytes(b"alice".to_vec())]);
    /// assert_eq!("7\nalice", reply.text());
    /// assert_eq!("", Reply::Nil.text());
    /// ```
    pub fn text(&self) -> String {
        match self {
            Self::Nil => String::new(),
            Self::Int(number) => number.to_string(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Array(replies) => replies.iter().map(Self::text).collect::<Vec<_>>().join("\n"),
            Self::Error(message) => message.clone(),
        }
    }
}

/// Shows the reply like [`text`](Reply::text), with bytes escaped.
///
/// The form is for the messages of failing tests.
impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Bytes(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::Array(replies) => f.debug_list().entries(replies).finish(),
            Self::Error(message) => write!(f, "error {message:?}"),
        }
    }
}

fn encode(words: &[&[u8]], request: &mut Vec<u8>) {
    let mut line = String::new();
    let mut length = |mark: char, length: usize, request: &mut Vec<u8>| {
        line.clear();
        // Writing to a string cannot fail.
        let _ = write!(line, "{mark}{length}\r\n");
        request.extend_from_slice(line.as_bytes());
    };
    length('*', words.len(), request);
    for word in words {
        length('$', word.len(), request);
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
}

fn decode(replies: &mut impl BufRead) -> io::Result<Reply> {
    let mut line = String::new();
    if replies.read_line(&mut line)? == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed"));
    }
    let garbled = || io::Error::new(io::ErrorKind::InvalidData, "not a Redis protocol reply");
    let rest = line.get(1..).ok_or_else(garbled)?.trim_end();
    let number = || rest.parse::<i64>().map_err(|_| garbled());
    match line.as_bytes()[0] {
        b'+' => Ok(Reply::Bytes(rest.as_bytes().to_vec())),
        b'-' => Ok(Reply::Error(rest.to_owned())),
        b':' => Ok(Reply::Int(number()?)),
        // A negative length is nil.
        b'$' => match usize::try_from(number()?) {
            Ok(length) => {
                let mut bytes = vec![0; length + 2];
                replies.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Ok(Reply::Bytes(bytes))
            }
            Err(_) => Ok(Reply::Nil),
        },
        b'*' => match usize::try_from(number()?) {
            Ok(length) => Ok(Reply::Array((0..length).map(|_| decode(replies)).collect::<io::Result<_>>()?)),
            Err(_) => Ok(Reply::Nil),
        },
        _ => Err(garbled()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_all_kinds_are_read() {
        let mut wire: &[u8] = b"*6\r\n+OK\r\n:-2\r\n$-1\r\n$4\r\n\x00\r\n\xff\r\n-ERR no\r\n*-1\r\n";
        let expected = vec![
            Reply::Bytes(b"OK".to_vec()),
            Reply::Int(-2),
            Reply::Nil,
            Reply::Bytes(b"\x00\r\n\xff".to_vec()),
            Reply::Error("ERR no".into()),
            Reply::Nil,
        ];
        assert_eq!(Reply::Array(expected), decode(&mut wire).unwrap());
        assert!(wire.is_empty());
        for broken in [b"".as_slice(), b"$5\r\nab", b"?\r\n", b":x\r\n", b"\r\n"] {
            assert!(decode(&mut &*broken).is_err(), "{}", broken.escape_ascii());
        }
    }

    #[test]
    fn requests_are_binary_safe() {
        let mut request = Vec::new();
        encode(&[b"GET", b"\x00\r\n"], &mut request);
        assert_eq!(b"*2\r\n$3\r\nGET\r\n$3\r\n\x00\r\n\r\n".as_slice(), request);
    }
}
