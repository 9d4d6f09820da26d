//! Servers that forget their scripts at any moment: each call is then two requests, with faults between them.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use redlock_core::{Error, LockRequest, ReleaseOutcome};

use super::*;
use crate::Adapter;

const FORGET: [&str; 2] = ["SCRIPT", "FLUSH"];

fn forget(servers: &[RedisServer]) {
    for server in servers {
        server.command(&FORGET);
    }
}

/// Returns the keys of locks, without counters.
fn locks(servers: &[RedisServer]) -> Vec<String> {
    keys(servers).into_iter().filter(|key| !key.starts_with("redlock:fence:")).collect()
}

async fn no_lock_left(redlock: &Redlock, servers: &[RedisServer]) {
    let closed = tokio::time::timeout(Duration::from_secs(30), redlock.close()).await;
    assert_eq!(Ok(0), closed, "close() hangs, or cleanup was abandoned");
    assert_eq!(Vec::<String>::new(), locks(servers));
}

/// Makes servers forget their scripts until the returned function is called.
fn forgetting(servers: &[RedisServer]) -> impl FnOnce() + use<> {
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let urls: Vec<_> = servers.iter().map(RedisServer::port).collect();
    let stopped = stop.clone();
    let thread = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let connect = |port: &u16| std::net::TcpStream::connect(("127.0.0.1", *port)).unwrap();
        let mut streams: Vec<_> = urls.iter().map(connect).collect();
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            for stream in &mut streams {
                stream.write_all(b"SCRIPT FLUSH\r\n").unwrap();
                stream.read_exact(&mut [0; 5]).unwrap();
            }
        }
    });
    move || {
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        thread.join().unwrap();
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn nothing_is_denied_or_left_behind_while_servers_forget_scripts<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let stop = forgetting(&servers[1..4]);
    let cycle = |redlock: Redlock, number: usize| async move {
        for cycle in 0..15 {
            let names = [format!("{number}"), format!("{number} as well")];
            let names = &names[cycle % 2..];
            let guard = if number % 2 == 1 {
                redlock.lock(names, TTL).fenced().await.unwrap().into_any()
            } else {
                redlock.lock(names, TTL).await.unwrap()
            };
            guard.extend(TTL).await.unwrap();
            assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
        }
    };
    let all: Vec<_> = (0..8).map(|number| tokio::spawn(cycle(redlock.clone(), number))).collect();
    for task in all {
        task.await.unwrap();
    }
    stop();
    no_lock_left(&redlock, &servers).await;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn attempts_lost_between_the_two_calls_are_cleaned_up<A: Adapter>() {
    let servers = five();
    let stop = forgetting(&servers);
    let each: Vec<_> = (0..4).map(|_| redlock::<A>(&servers)).collect();
    let cycle = |redlock: Redlock, number: usize| async move {
        for cycle in 0..40 {
            // Each task acquires one of two overlapping pairs.
            let names = if (number + cycle) % 2 == 1 { ["a", "b"] } else { ["b", "c"] };
            let request = redlock.lock(names, TTL);
            if number < 2 {
                drop(request.try_now().await.unwrap());
            } else {
                drop(request.fenced().try_now().await.unwrap());
            }
        }
    };
    let all: Vec<_> =
        each.iter().enumerate().map(|(number, one)| tokio::spawn(cycle(one.clone(), number))).collect();
    for task in all {
        task.await.unwrap();
    }
    stop();
    for redlock in &each {
        let closed = tokio::time::timeout(Duration::from_secs(30), redlock.close()).await;
        assert_eq!(Ok(0), closed, "close() hangs, or cleanup was abandoned");
    }
    assert_eq!(Vec::<String>::new(), locks(&servers));
}

/// Polls a future `times` times, and lets all other tasks run in between. Returns its output if it is ready.
async fn polled<T>(future: &mut (impl Future<Output = T> + Unpin), times: usize) -> Option<T> {
    for _ in 0..times {
        let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await;
        if let Poll::Ready(value) = polled {
            return Some(value);
        }
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
    None
}

pub(crate) async fn a_lock_dropped_at_any_poll_while_scripts_are_unknown_is_cleaned_up<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let other = warm::<A>(&servers).await;
    let (mut dropped, mut ended) = (0, 0);
    for fenced in [false, true] {
        for polls in 0..24 {
            forget(&servers);
            let mut request = any(redlock.lock(["a", "b"], TTL), fenced);
            match polled(&mut request, polls).await {
                Some(guard) => {
                    let guard = guard.unwrap();
                    forget(&servers);
                    let mut extension = Box::pin(guard.extend(TTL));
                    drop(polled(&mut extension, polls / 4).await);
                    drop(extension);
                    ended += 1;
                }
                None => dropped += 1,
            }
            drop(request);
            let none = async || locks(&servers).is_empty();
            eventually("cleanup is complete", Duration::from_secs(30), none).await;
        }
    }
    assert!(dropped > 0 && ended > 0, "{dropped} dropped, {ended} not");
    drop(other.lock(["a", "b"], TTL).max_wait(Duration::from_millis(100)).await.unwrap());
    other.close().await;
    no_lock_left(&redlock, &servers).await;
}

/// Returns a request that may be fenced.
fn any(request: LockRequest, fenced: bool) -> Pin<Box<dyn Future<Output = Result<Guard, Error>>>> {
    Box::pin(async move { if fenced { request.fenced().await.map(Guard::into_any) } else { request.await } })
}

/// Stops servers after they have replied that a script is unknown, before they receive its text.
async fn hangs_in_between<A: Adapter>(hung: usize, fenced: bool) {
    let servers = five();
    let redlock = builder::<A>(&servers).node_timeout(Duration::from_millis(200)).build().unwrap();
    all_up(&redlock).await;
    forget(&servers);
    let wait = Duration::from_millis(50);
    let mut request = any(redlock.lock(["a", "b"], TTL).max_wait(wait), fenced);
    assert!(polled(&mut request, 1).await.is_none());
    tokio::time::sleep(Duration::from_millis(20)).await; // the servers have replied that the script is unknown
    servers[..hung].iter().for_each(RedisServer::pause);
    let got = request.await;
    assert_eq!(hung < 3, got.is_ok(), "{got:?}");
    if let Ok(guard) = got {
        assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let sets: Vec<_> = servers[hung..].iter().map(|server| server.commandstats("eval")).collect();
    assert!(sets.iter().all(|eval| *eval > 0), "{sets:?}");
    servers[..hung].iter().for_each(RedisServer::resume);
    no_lock_left(&redlock, &servers).await;
}

pub(crate) async fn two_servers_hang_between_the_two_calls<A: Adapter>() {
    hangs_in_between::<A>(2, false).await;
}

pub(crate) async fn three_servers_hang_between_the_two_calls<A: Adapter>() {
    hangs_in_between::<A>(3, false).await;
}

pub(crate) async fn two_servers_hang_between_the_two_calls_of_a_fenced_lock<A: Adapter>() {
    hangs_in_between::<A>(2, true).await;
}

pub(crate) async fn three_servers_hang_between_the_two_calls_of_a_fenced_lock<A: Adapter>() {
    hangs_in_between::<A>(3, true).await;
}
