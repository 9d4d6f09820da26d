//! Holds a lock, for tests that stop the process or pass a lease from one process to another.
//!
//! The process prints one line for each action and each state of its lock. It works when it reads a line. TTLs are in
//! milliseconds.
//!
//! - `run RESOURCE TTL`: runs work under the lock.
//! - `keep RESOURCE TTL`: keeps the lock alive and works until the lock is lost.
//! - `write RESOURCE TTL STORE SCRIPT VALUE`: acquires a fenced lock. For every line that it reads, it writes a value to
//!   the protected resource, a server at this port, without checking its lease again.
//! - `detach RESOURCE TTL`: acquires the lock and prints its lease as JSON.
//! - `detach-fenced RESOURCE TTL`: the same with a fenced lock.
//! - `resume`: resumes the lease that it reads, and extends it for every further line.
//! - `release`: releases the lease that it reads.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use redlock_core::kind::Owned;
use redlock_core::{DetachedLease, Guard, KeepAlive, Lease, Redlock};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{Outcome, input};

pub(super) async fn main(redlock: &Redlock, how: &str, lock: &[&str]) -> Outcome<()> {
    match (how, lock) {
        ("run", [resource, ttl]) => run(redlock, resource, millis(ttl)?).await,
        ("keep", [resource, ttl]) => keep(redlock, resource, millis(ttl)?).await?,
        ("write", [resource, ttl, store @ ..]) => write(redlock, resource, millis(ttl)?, store).await?,
        ("detach", [resource, ttl]) => detach(redlock.lock(*resource, millis(ttl)?).await?).await?,
        ("detach-fenced", [resource, ttl]) => {
            detach(redlock.lock(*resource, millis(ttl)?).fenced().await?).await?;
        }
        ("resume", []) => resume(redlock).await?,
        ("release", []) => {
            let lease = read_lease(&mut input()).await?;
            println!("released: {:?}", redlock.release(&lease).await?);
        }
        _ => return Err("unknown action or wrong arguments".into()),
    }
    redlock.close().await;
    Ok(())
}

async fn run(redlock: &Redlock, resource: &str, ttl: Duration) {
    match redlock.lock(resource, ttl).run(async |lease| work(&lease, ttl / 2).await).await {
        Ok(()) => println!("done"),
        Err(error) => println!("lost: {error}"),
    }
}

async fn keep(redlock: &Redlock, resource: &str, ttl: Duration) -> Outcome<()> {
    let guard = redlock.lock(resource, ttl).keep_alive(KeepAlive::new()).await?;
    tokio::select! {
        biased; // a loss is reported first
        loss = guard.lost() => println!("lost: {loss}"),
        () = work(&guard, ttl / 2) => println!("done"),
    }
    Ok(())
}

/// Makes a step for every line that it reads, and another one after a pause. Prints a line before the pause.
async fn work(lease: &Lease, pause: Duration) {
    let step = || println!("{}", if lease.is_held() { "step" } else { "step without the lock" });
    println!("held");
    let mut lines = input();
    while lines.recv().await.is_some() {
        step();
        // The runtime has one thread, so this runs once the work has been polled.
        tokio::spawn(async { println!("waits") });
        tokio::time::sleep(pause).await;
        step();
    }
}

/// Writes with the fencing token, through a script of the resource that reports whether it accepts the token.
async fn write(redlock: &Redlock, resource: &str, ttl: Duration, store: &[&str]) -> Outcome<()> {
    let [port, script, value] = store else { return Err("no port, script or value".into()) };
    let guard = redlock.lock(resource, ttl).fenced().await?;
    let token = guard.fencing_token().ok_or("a fenced lock without a token")?.to_string();
    println!("held with {token}");
    let mut lines = input();
    while lines.recv().await.is_some() {
        let reply = command(port, &["EVAL", script, "1", resource, &token, value])?;
        println!("{}", if reply == ":1" { "written" } else { "rejected" });
    }
    Ok(())
}

/// Sends one command to a server and returns the first line of its reply. Adapters do not expose their clients.
fn command(port: &str, words: &[&str]) -> Outcome<String> {
    let mut connection = TcpStream::connect(format!("127.0.0.1:{port}"))?;
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let command = format!("*{}\r\n{}", words.len(), words.collect::<String>());
    connection.write_all(command.as_bytes())?;
    let mut reply = String::new();
    BufReader::new(connection).read_line(&mut reply)?;
    Ok(reply.trim_end().to_owned())
}

/// Prints the lease.
async fn detach<K: Owned>(guard: Guard<K>) -> Outcome<()> {
    println!("{}", serde_json::to_string(&guard.detach().await)?);
    Ok(())
}

fn millis(text: &str) -> Outcome<Duration> {
    Ok(Duration::from_millis(text.parse()?))
}

async fn resume(redlock: &Redlock) -> Outcome<()> {
    let mut lines = input();
    let lease = read_lease(&mut lines).await?;
    let guard = match redlock.resume(&lease).await {
        Ok(guard) => guard,
        Err(error) => {
            let holder = error.holder().map(|holder| holder.to_string()).unwrap_or_default();
            println!("{:?}: {error}; now held by {holder}", error.kind());
            return Ok(());
        }
    };
    match guard.fencing_token() {
        Some(token) => println!("held with {token}"),
        None => println!("held"),
    }
    while lines.recv().await.is_some() {
        guard.extend(lease.ttl()).await?;
        println!("extended");
    }
    println!("released: {:?}", guard.release().await?);
    Ok(())
}

async fn read_lease(lines: &mut UnboundedReceiver<String>) -> Outcome<DetachedLease> {
    let line = lines.recv().await.ok_or("no lease in the input")?;
    Ok(serde_json::from_str(&line)?)
}
