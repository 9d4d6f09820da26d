//! A holder that is stopped past its TTL, and leases that are passed from one process to another.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use redlock_core::{DetachedLease, KeepAlive, ReleaseOutcome};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::*;
use crate::Adapter;
use crate::examples::program;

/// The time after which a process counts as hung.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process that holds a lock. It is killed when it is dropped.
pub(super) struct Holder {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Holder {
    pub(super) fn start<A: Adapter>(servers: &[RedisServer], how: &str, lock: &[&str]) -> Self {
        let nodes: Vec<_> = servers.iter().map(RedisServer::url).collect();
        Self::run::<A>(&[&["hold", &nodes.join(","), how], lock].concat())
    }

    /// Starts the process of an adapter with these arguments.
    pub(super) fn run<A: Adapter>(arguments: &[&str]) -> Self {
        let mut command = Command::new(program(A::PROCESS));
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let input = child.stdin.take();
        Self { child, input, lines }
    }

    pub(super) fn next_line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    /// Writes a line to its standard input.
    pub(super) fn send_line(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(super) fn nothing_more_to_read(&mut self) {
        self.input = None;
    }

    /// Stops it with `SIGSTOP`, and returns when it has stopped.
    pub(super) fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        waitid(WaitId::Pid(self.pid()), WaitIdOptions::STOPPED).unwrap();
    }

    pub(super) fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Waits until it ends successfully, without any further output.
    pub(super) fn ends(&mut self) {
        assert_eq!(Err(RecvTimeoutError::Disconnected), self.lines.recv_timeout(PATIENCE));
        assert!(self.child.wait().unwrap().success());
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Both fail only if the child has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the lease that a process has detached, as text.
fn detached<A: Adapter>(servers: &[RedisServer], ttl: &str) -> String {
    read_lease(Holder::start::<A>(servers, "detach", &["a", ttl]))
}

fn read_lease(mut holder: Holder) -> String {
    let lease = holder.next_line();
    holder.ends();
    lease
}

/// Waits until all servers have the lock, and returns their common reply. An extension writes the key on servers where
/// the key of the former holder has just expired.
async fn on_all(guard: &Guard, servers: &[RedisServer], command: &[&str]) -> String {
    let replies = || servers.iter().map(|server| server.command(command)).collect::<Vec<_>>();
    let same = async || {
        guard.extend(6 * TTL).await.unwrap();
        let replies = replies();
        replies.iter().all(|reply| !reply.is_empty() && *reply == replies[0])
    };
    eventually("the lock is on all servers", PATIENCE, same).await;
    servers[0].command(command)
}

pub(crate) async fn a_stopped_process_learns_of_the_loss_before_its_work_continues<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let mut holders = [("run", "a"), ("keep", "b")]
        .map(|(how, resource)| Holder::start::<A>(&servers, how, &[resource, "1000"]));
    for holder in &mut holders {
        assert_eq!("held", holder.next_line());
        holder.send_line("");
        assert_eq!("step", holder.next_line());
        assert_eq!("waits", holder.next_line());
        // The process is stopped during its pause, so that a step is due when it continues.
        holder.stop();
    }
    let retry = Duration::from_millis(20);
    let guard = redlock.lock(["a", "b"], 6 * TTL).retry_delay(retry).max_wait(PATIENCE).await.unwrap();
    let keys = on_all(&guard, &servers, &["MGET", "a", "b"]).await;

    for holder in &mut holders {
        holder.go_on();
        let line = holder.next_line();
        assert!(line.starts_with("lost: "), "{line}");
        assert!(line.contains("lease expired"), "{line}");
        holder.ends();
    }
    let untouched = servers.iter().all(|server| server.command(&["MGET", "a", "b"]) == keys);
    assert!(untouched, "a stopped holder changed the keys of the new one");
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn a_lease_is_passed_between_processes<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let lease = detached::<A>(&servers, "60000");
    // The keys remain, with less than their full TTL. On a busy machine, a minority was not connected in time, and
    // receives its key from the process that resumes the lease.
    let shortened = servers.iter().filter(|server| server.command(&["PEXPIRE", "a", "30000"]) == "1");
    assert!(shortened.count() >= 3);
    let mut holder = Holder::start::<A>(&servers, "resume", &[]);
    holder.send_line(&lease);
    assert_eq!("held", holder.next_line());
    let left = |server: &RedisServer| server.command(&["PTTL", "a"]).parse::<i64>().unwrap();
    let extended = || servers.iter().all(|server| left(server) > 50_000);
    eventually("the lease is extended", PATIENCE, async || extended()).await;
    assert!(redlock.lock("a", TTL).try_now().await.unwrap().is_none());

    for server in &servers {
        assert_eq!("1", server.command(&["PEXPIRE", "a", "30000"]));
    }
    holder.send_line("");
    assert_eq!("extended", holder.next_line());
    eventually("the lease is extended again", PATIENCE, async || extended()).await;
    holder.nothing_more_to_read();
    assert_eq!("released: Released", holder.next_line());
    holder.ends();
    assert_eq!(Vec::<String>::new(), keys(&servers));

    // A lease is released by another process without being resumed, and another one is passed to this process.
    let (lease, mut holder) =
        (detached::<A>(&servers, "60000"), Holder::start::<A>(&servers, "release", &[]));
    holder.send_line(&lease);
    assert_eq!("released: Released", holder.next_line());
    holder.ends();
    let lease: DetachedLease = serde_json::from_str(&detached::<A>(&servers, "60000")).unwrap();
    let guard = redlock.resume(&lease).await.unwrap();
    guard.keep_alive(KeepAlive::new());
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn a_fencing_token_is_passed_with_its_lease<A: Adapter>() {
    let servers = five();
    let lease = read_lease(Holder::start::<A>(&servers, "detach-fenced", &["a", "60000"]));
    let detached: DetachedLease = serde_json::from_str(&lease).unwrap();
    let token = detached.fencing_token().unwrap();
    assert!(lease.contains(&format!("\"fencing_token\":{token}}}")), "{lease}");

    let mut holder = Holder::start::<A>(&servers, "resume", &[]);
    holder.send_line(&lease);
    assert_eq!(format!("held with {token}"), holder.next_line());
    holder.send_line("");
    assert_eq!("extended", holder.next_line());
    holder.nothing_more_to_read();
    assert_eq!("released: Released", holder.next_line());
    holder.ends();

    let next = read_lease(Holder::start::<A>(&servers, "detach-fenced", &["a", "60000"]));
    let next: DetachedLease = serde_json::from_str(&next).unwrap();
    assert!(next.fencing_token() > Some(token), "{next:?}");
}

pub(crate) async fn a_stale_lease_is_neither_resumed_nor_released_in_another_process<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let lease = detached::<A>(&servers, "300");
    let guard = redlock.lock("a", 6 * TTL).owner("new-holder").await.unwrap();
    let token = on_all(&guard, &servers, &["GET", "a"]).await;
    for (action, expected) in [("resume", "Lost: "), ("release", "released: AlreadyLost")] {
        let mut holder = Holder::start::<A>(&servers, action, &[]);
        holder.send_line(&lease);
        let line = holder.next_line();
        assert!(line.starts_with(expected), "{line}");
        assert!(!line.contains(&token), "a token in an error: {line}");
        assert_eq!(action == "resume", line.contains("new-holder"), "{line}");
        holder.ends();
    }
    assert!(servers.iter().all(|server| server.command(&["GET", "a"]) == token));
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());

    // A lease that was released meanwhile is not resumed either.
    let mut holder = Holder::start::<A>(&servers, "resume", &[]);
    holder.send_line(&lease);
    let line = holder.next_line();
    assert!(line.starts_with("Lost: "), "{line}");
    holder.ends();
    nothing_left(&redlock, &servers).await;
}
