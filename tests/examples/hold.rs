// A holder in a process of its own, for tests that stop it or hand a lease from one process to another. It says what it
// does and what becomes of its lock on standard output, a line each, and works when it reads a line.
//
// `hold run NODES RESOURCE TTL`: runs the work under the lock
// `hold keep NODES RESOURCE TTL`: keeps the lock alive, and works until it is told of the loss
// `hold write NODES RESOURCE TTL STORE SCRIPT VALUE`: takes a fenced lock, and for every line that it reads writes to what
// the lock protects, a value in the server on that port, without looking at its lease again
// `hold detach NODES RESOURCE TTL`: locks, and gives the lease away as JSON
// `hold detach-fenced NODES RESOURCE TTL`: the same of a fenced lock
// `hold resume NODES`: goes on with the lease that it reads, and extends it for every further line
// `hold release NODES`: releases the lease that it reads
//
// NODES are URLs with commas between, TTL is in milliseconds.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use adapter::{DetachedLease, Guard, KeepAlive, Lease, Redlock};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let [how, nodes, lock @ ..] = &arguments[..] else { return Err("what is to be done, and where?".into()) };
    let redlock = adapter::builder(nodes.split(','))?.build()?;
    match (*how, lock) {
        ("run", [resource, ttl]) => run(&redlock, resource, ttl.parse()?).await?,
        ("keep", [resource, ttl]) => keep(&redlock, resource, ttl.parse()?).await?,
        ("write", [resource, ttl, store @ ..]) => write(&redlock, resource, ttl.parse()?, store).await?,
        ("detach", [resource, ttl]) => detach(redlock.lock(*resource, millis(ttl)?).await?).await?,
        ("detach-fenced", [resource, ttl]) => {
            detach(redlock.lock(*resource, millis(ttl)?).fenced().await?).await?;
        }
        ("resume", []) => resume(&redlock).await?,
        ("release", []) => {
            let lease = read_lease(&mut input()).await?;
            println!("released: {:?}", redlock.release(&lease).await?);
        }
        _ => return Err("that cannot be done".into()),
    }
    redlock.close().await;
    Ok(())
}

async fn run(redlock: &Redlock, resource: &str, ttl: u64) -> Result<(), Box<dyn Error>> {
    let ttl = Duration::from_millis(ttl);
    match redlock.run(resource, ttl, async |lease| work(&lease, ttl / 2).await).await {
        Ok(()) => println!("done"),
        Err(error) => println!("lost: {error}"),
    }
    Ok(())
}

async fn keep(redlock: &Redlock, resource: &str, ttl: u64) -> Result<(), Box<dyn Error>> {
    let ttl = Duration::from_millis(ttl);
    let guard = redlock.lock(resource, ttl).keep_alive(KeepAlive::new()).await?;
    tokio::select! {
        biased; // the loss first, where both are there
        loss = guard.lost() => println!("lost: {loss}"),
        () = work(&guard, ttl / 2) => println!("done"),
    }
    Ok(())
}

/// For every line that is read a step, and another after a while, which it says when it waits for it.
async fn work(lease: &Lease, pause: Duration) {
    let step = || println!("{}", if lease.is_held() { "step" } else { "step without the lock" });
    println!("held");
    let mut lines = input();
    while lines.recv().await.is_some() {
        step();
        // On one thread: this runs once the work has been polled.
        tokio::spawn(async { println!("waits") });
        tokio::time::sleep(pause).await;
        step();
    }
}

/// Writes with the fencing token, through a script of the resource's own that says whether it takes it.
async fn write(redlock: &Redlock, resource: &str, ttl: u64, store: &[&str]) -> Result<(), Box<dyn Error>> {
    let [port, script, value] = store else { return Err("where to write, by what script, and what?".into()) };
    let guard = redlock.lock(resource, Duration::from_millis(ttl)).fenced().await?;
    let token = guard.fencing_token().ok_or("a fenced lock without a token")?.to_string();
    println!("held with {token}");
    let mut lines = input();
    while lines.recv().await.is_some() {
        let answer = ask(port, &["EVAL", script, "1", resource, &token, value])?;
        println!("{}", if answer == ":1" { "written" } else { "refused" });
    }
    Ok(())
}

/// One command to a server, and the first line of its answer. By hand, because adapters show nothing of their clients.
fn ask(port: &str, words: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut connection = TcpStream::connect(format!("127.0.0.1:{port}"))?;
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let command = format!("*{}\r\n{}", words.len(), words.collect::<String>());
    connection.write_all(command.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(connection).read_line(&mut answer)?;
    Ok(answer.trim_end().to_owned())
}

/// Gives the lease away.
async fn detach(guard: Guard) -> Result<(), Box<dyn Error>> {
    println!("{}", serde_json::to_string(&guard.detach().await)?);
    Ok(())
}

fn millis(text: &str) -> Result<Duration, Box<dyn Error>> {
    Ok(Duration::from_millis(text.parse()?))
}

async fn resume(redlock: &Redlock) -> Result<(), Box<dyn Error>> {
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

async fn read_lease(lines: &mut UnboundedReceiver<String>) -> Result<DetachedLease, Box<dyn Error>> {
    let line = lines.recv().await.ok_or("there is no lease")?;
    Ok(serde_json::from_str(&line)?)
}

/// The lines of standard input, to its end.
fn input() -> UnboundedReceiver<String> {
    let (sender, lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
