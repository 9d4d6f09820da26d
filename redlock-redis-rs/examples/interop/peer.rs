//! A client of another language in a separate process. It reads commands and writes replies, one per line:
//!
//! | Command | Reply |
//! |---|---|
//! | `lock NAME MILLIS` | `held` or `denied`, after one attempt |
//! | `unlock` | `done`, even if the lock has expired |
//! | `contend NAME MILLIS FOLDER MARK ROUNDS` | its rounds and overlaps |

use std::error::Error;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// The limit on every wait. It is far longer than any step takes, so reaching it means a hang.
const WAIT_LIMIT: Duration = Duration::from_secs(300);

pub(crate) struct Peer {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Peer {
    pub(crate) fn start(command: &[String], urls: &[String]) -> Result<Self, Box<dyn Error>> {
        let (program, arguments) = command.split_first().ok_or("the client has no command")?;
        let mut process = Command::new(program)
            .args(arguments)
            .args(urls)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = process.stdin.take().ok_or("the input is not piped")?;
        let output = process.stdout.take().ok_or("the output is not piped")?;
        Ok(Self { input, output: BufReader::new(output).lines(), _process: process })
    }

    pub(crate) async fn command(&mut self, line: &str) -> Result<String, Box<dyn Error>> {
        self.input.write_all(format!("{line}\n").as_bytes()).await?;
        let reply = timeout(WAIT_LIMIT, self.output.next_line()).await;
        let reply = reply.map_err(|_| format!("no reply to {line:?}"))??;
        reply.ok_or_else(|| format!("the process ended at {line:?}").into())
    }

    pub(crate) async fn lock(&mut self, name: &str, ttl: Duration) -> Result<bool, Box<dyn Error>> {
        match &*self.command(&format!("lock {name} {}", ttl.as_millis())).await? {
            "held" => Ok(true),
            "denied" => Ok(false),
            other => Err(other.into()),
        }
    }

    pub(crate) async fn unlock(&mut self) -> Result<(), Box<dyn Error>> {
        self.command("unlock").await.map(drop)
    }
}
