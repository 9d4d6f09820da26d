//! A server that replies by a script, so that it can violate the protocol in any way.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The reaction of the script to a command.
pub enum Answer {
    /// Sends these bytes.
    Say(&'static str),
    /// Sends nothing.
    Nothing,
    /// Closes the connection.
    HangUp,
    /// Sends the first bytes, then the others repeatedly: at least [`FLOOD`] bytes.
    Flood(&'static str, &'static str),
}

/// The size of a flood. No client reads as many bytes of an incomplete reply.
pub const FLOOD: usize = 64 << 20;

/// The numbers of floods that have ended, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floods {
    /// The client closed the connection before it had read all bytes.
    pub stopped: usize,
    /// The client read all bytes.
    pub read_completely: usize,
}

/// A server on a port of 127.0.0.1. It runs in tasks of the test and ends with its runtime.
pub struct Scripted {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    floods: Arc<Mutex<Floods>>,
}

impl Scripted {
    /// Starts a server. The script receives each command as one line of text.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub async fn start(script: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (script, seen) = (Arc::new(script), Arc::new(Mutex::new(Vec::new())));
        let floods = Arc::new(Mutex::new(Floods::default()));
        let scripted = Self { port, seen: Arc::clone(&seen), floods: Arc::clone(&floods) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                tokio::spawn(serve(stream, script, seen, Arc::clone(&floods)));
            }
        });
        scripted
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of commands, on all connections so far, that begin with `start`.
    pub fn seen(&self, start: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|command| command.starts_with(start)).count()
    }

    /// Returns the outcomes of the floods that have ended.
    pub fn floods(&self) -> Floods {
        *self.floods.lock().unwrap()
    }
}

/// Returns the reply of a server to the commands of a client that connects, in RESP3.
pub fn greet(command: &str) -> Option<Answer> {
    match command.split(' ').next()? {
        "HELLO" => Some(Answer::Say("%1\r\n$5\r\nproto\r\n:3\r\n")),
        "CLIENT" => Some(Answer::Say(":1\r\n")),
        "INFO" => Some(Answer::Say("$21\r\nredis_version:7.0.15\n\r\n")),
        "PING" => Some(Answer::Say("+PONG\r\n")),
        "TIME" => Some(Answer::Say("*2\r\n$1\r\n1\r\n$1\r\n0\r\n")),
        _ => None,
    }
}

async fn serve(
    stream: TcpStream,
    script: Arc<impl Fn(&str) -> Answer>,
    seen: Arc<Mutex<Vec<String>>>,
    floods: Arc<Mutex<Floods>>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let command = read_command(&mut stream).await?;
        seen.lock().unwrap().push(command.clone());
        match script(&command) {
            Answer::Say(reply) => stream.write_all(reply.as_bytes()).await.ok()?,
            Answer::Nothing => {}
            Answer::HangUp => return None,
            Answer::Flood(first, rest) => {
                let read_completely = flood(&mut stream, first, rest).await.is_ok();
                let mut floods = floods.lock().unwrap();
                *(if read_completely { &mut floods.read_completely } else { &mut floods.stopped }) += 1;
                return None;
            }
        }
    }
}

async fn flood(stream: &mut BufReader<TcpStream>, first: &str, rest: &str) -> std::io::Result<()> {
    let rest = rest.repeat(1 << 13);
    stream.write_all(first.as_bytes()).await?;
    for _ in 0..FLOOD.div_ceil(rest.len()) {
        stream.write_all(rest.as_bytes()).await?;
    }
    Ok(())
}

/// Reads a command: an array of strings, or a line.
async fn read_command(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let line = read_line(stream).await?;
    let Some(length) = line.strip_prefix('*') else { return Some(line) };
    let mut words = Vec::new();
    for _ in 0..length.parse::<usize>().ok()? {
        let length: usize = read_line(stream).await?.strip_prefix('$')?.parse().ok()?;
        let mut word = vec![0; length + 2];
        stream.read_exact(&mut word).await.ok()?;
        words.push(String::from_utf8_lossy(&word[..length]).into_owned());
    }
    Some(words.join(" "))
}

async fn read_line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.strip_suffix("\r\n").map(str::to_owned)
}
