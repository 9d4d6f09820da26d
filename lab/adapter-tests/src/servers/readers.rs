//! Readers and writers, and other Redlock clients beside them.

use redlock_core::{ErrorKind, KeepAlive, ReleaseOutcome};

use super::*;
use crate::Adapter;
use crate::wait::until;

/// The release script of the article, of redlock-py, rslock and others.
const RELEASE: &str =
    r#"if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end"#;

/// The acquire script of node-redlock, which checks all keys first.
const ACQUIRE: &str = r#"for i, key in ipairs(KEYS) do if redis.call("exists", key) == 1 then return 0 end end
    for i, key in ipairs(KEYS) do redis.call("set", key, ARGV[1], "PX", ARGV[2]) end return #KEYS"#;

/// The extension script of several clients.
const EXTEND: &str = r#"if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end"#;

/// Two clients with eight tasks each. Every holder also acquires a lock of this process.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
pub(crate) async fn readers_and_writers_exclude_each_other<A: Adapter>() {
    let servers = five();
    let clients = [warm::<A>(&servers).await, warm::<A>(&servers).await];
    let witness: Arc<tokio::sync::RwLock<()>> = Arc::default();
    let task = |redlock: Redlock, number: usize| {
        let witness = Arc::clone(&witness);
        tokio::spawn(async move {
            let lock = redlock.rw_lock("a").unwrap();
            for round in 0..20 {
                if (number + round) % 4 == 0 {
                    let guard = lock.write(TTL).wait_unbounded().await.unwrap();
                    let exclusive = witness.try_write().expect("no other client holds the lock");
                    tokio::task::yield_now().await;
                    drop(exclusive);
                    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
                } else {
                    let guard = lock.read(TTL).wait_unbounded().await.unwrap();
                    let shared = witness.try_read().expect("no writer holds the lock");
                    tokio::task::yield_now().await;
                    drop(shared);
                    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
                }
            }
        })
    };
    let tasks: Vec<_> = (0..16).map(|number| task(clients[number % 2].clone(), number)).collect();
    for task in tasks {
        task.await.unwrap();
    }
    nothing_left_of(&clients, &servers).await;
}

pub(crate) async fn a_reader_is_kept_alive_extended_and_lost<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let lock = redlock.rw_lock("a").unwrap();
    let ttl = Duration::from_secs(3);
    let kept = lock.read(ttl).keep_alive(KeepAlive::new()).await.unwrap();
    let short = lock.read(ttl).await.unwrap();
    short.extend(TTL).await.unwrap();
    tokio::time::sleep(2 * ttl).await;
    assert!(kept.is_held() && short.is_held());
    assert!(redlock.lock("a", TTL).try_now().await.unwrap().is_none());
    for server in &servers[..3] {
        server.command(&["DEL", "a"]);
    }
    until(async || !kept.is_held()).await;
    assert_eq!(ReleaseOutcome::AlreadyLost, kept.release().await.unwrap());
    drop(short);
    nothing_left(&redlock, &servers).await;
}

pub(crate) async fn scripts_of_other_clients_neither_lock_nor_delete_a_key_of_readers<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let lock = redlock.rw_lock("a").unwrap();
    let guard = lock.read(TTL).await.unwrap();
    until(async || servers.iter().all(|server| server.command(&["TYPE", "a"]) == "zset")).await;
    for server in &servers {
        assert_eq!("", server.command(&["SET", "a", "foreign-token", "NX", "PX", "60000"]), "nil");
        assert_eq!("0", server.command(&["EVAL", ACQUIRE, "1", "a", "foreign-token", "60000"]));
        for script in [RELEASE, EXTEND] {
            let reply = server.reply(&["EVAL", script, "1", "a", "foreign-token", "1"].map(str::as_bytes));
            assert!(format!("{reply:?}").contains("WRONGTYPE"), "{reply:?}");
        }
        assert_eq!("2", server.command(&["ZCARD", "a"]), "the mark and the reader");
    }
    assert_eq!(ReleaseOutcome::Released, guard.release().await.unwrap());
    until(async || servers.iter().all(|server| server.command(&["EXISTS", "a"]) == "0")).await;
    for server in &servers {
        assert_eq!("OK", server.command(&["SET", "a", "foreign-token", "NX", "PX", "60000"]));
    }
    assert!(lock.read(TTL).try_now().await.unwrap().is_none());
    assert!(lock.write(TTL).try_now().await.unwrap().is_none());
}

pub(crate) async fn a_sorted_set_without_the_mark_is_no_lock_and_stays<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    for server in &servers {
        server.command(&["ZADD", "a", "1", "readers", "2", "x"]);
    }
    let lock = redlock.rw_lock("a").unwrap();
    assert_eq!(ErrorKind::WrongType, lock.read(TTL).await.unwrap_err().kind());
    assert_eq!(ErrorKind::WrongType, lock.write(TTL).await.unwrap_err().kind());
    assert_eq!(ErrorKind::WrongType, lock.write(TTL).fenced().await.unwrap_err().kind());
    redlock.close().await;
    for server in &servers {
        assert_eq!("2", server.command(&["ZCARD", "a"]));
        assert_eq!("-1", server.command(&["PTTL", "a"]));
    }
}

pub(crate) async fn readers_and_writers_that_wait_are_notified<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let lock = redlock.rw_lock("a").unwrap();
    for server in &servers {
        assert_eq!("OK", server.command(&["SET", "a", "by-hand", "NX", "PX", "60000"]));
    }
    // Without a notification, each wait would last for 5 s.
    let reading = tokio::spawn(lock.read(TTL).max_wait(Duration::from_secs(4)).into_future());
    tokio::time::sleep(Duration::from_millis(300)).await;
    for server in &servers {
        assert_eq!("1", server.command(&["EVAL", RELEASE, "1", "a", "by-hand"]));
    }
    let reader = reading.await.unwrap().unwrap();
    let writing = tokio::spawn(lock.write(TTL).max_wait(Duration::from_secs(4)).into_future());
    until(async || redlock.inspect("a:writer").await.unwrap().holder().is_some()).await;
    // The nodes know that the writer waits, and then that the reader does.
    let waiters = async |count| redlock.inspect("a").await.unwrap().waiters() == Some(count);
    until(async || waiters(1).await).await;
    let second = tokio::spawn(lock.read(TTL).max_wait(Duration::from_secs(4)).into_future());
    until(async || waiters(2).await).await;
    assert!(!writing.is_finished() && !second.is_finished(), "the writer precedes new readers");
    reader.release().await.unwrap();
    let writer = writing.await.unwrap().unwrap();
    assert!(writer.is_held() && !second.is_finished());
    writer.release().await.unwrap();
    drop(second.await.unwrap().unwrap());
    nothing_left(&redlock, &servers).await;
}
