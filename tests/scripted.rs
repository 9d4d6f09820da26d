//! A server that answers by a script, to misbehave in ways that a real one does only by accident.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub)] // each test uses a part of it; a panic is how a test reports

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What the script does with a command.
pub enum Answer {
    /// Sends these bytes.
    Say(&'static str),
    /// Says nothing.
    Nothing,
    /// Closes the connection.
    HangUp,
    /// Sends the first bytes, and then the others again and again, without end: [`FLOOD`] bytes at least.
    Flood(&'static str, &'static str),
}

/// No client reads so many bytes that are no complete reply.
pub const FLOOD: usize = 64 << 20;

/// How floods have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floods {
    /// The client closed the connection.
    pub stopped: usize,
    /// The client read all of it.
    pub swallowed: usize,
}

pub struct Scripted {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    floods: Arc<Mutex<Floods>>,
}

impl Scripted {
    /// Serves every connection with `script`, which sees each command as one line of text.
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

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The commands so far, of all connections, that begin with `start`.
    pub fn seen(&self, start: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|command| command.starts_with(start)).count()
    }

    /// How the floods so far have ended.
    pub fn floods(&self) -> Floods {
        *self.floods.lock().unwrap()
    }
}

/// What a server says to the commands with which a client introduces itself, in RESP3.
pub fn greet(command: &str) -> Option<Answer> {
    match command.split(' ').next()? {
        "HELLO" => Some(Answer::Say("%1\r\n$5\r\nproto\r\n:3\r\n")),
        "CLIENT" => Some(Answer::Say(":1\r\n")),
        "INFO" => Some(Answer::Say("$21\r\nredis_version:7.0.15\n\r\n")),
        "PING" => Some(Answer::Say("+PONG\r\n")),
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
                let swallowed = flood(&mut stream, first, rest).await.is_ok();
                let mut floods = floods.lock().unwrap();
                *(if swallowed { &mut floods.swallowed } else { &mut floods.stopped }) += 1;
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

/// A command in either form: an array of strings, or a line.
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
