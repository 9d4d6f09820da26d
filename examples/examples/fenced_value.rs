//! A value in Redis that refuses a writer who comes too late: the check and the write are one script.
//!
//! The value has a server of its own here, and it may have: it is no node of the lock.
//!
//! `cargo run -p redlock-examples --example fenced_value`, with `redis-server` installed.
#![allow(clippy::print_stdout)] // it tells the story

use std::error::Error;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Client, Script};
use redlock_redis_rs::{FencingToken, Guard, Redlock};
use redlock_testkit::RedisServer;

const TTL: Duration = Duration::from_millis(500);

/// A configuration in Redis: read, changed, written.
struct Configuration {
    connection: MultiplexedConnection,
    write: Script,
}

impl Configuration {
    async fn open(url: String) -> redis::RedisResult<Self> {
        let connection = Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Self { connection, write: Script::new(include_str!("../src/write.lua")) })
    }

    /// Writes the token alone, before the first read. Whether it was written.
    async fn enter(&mut self, token: FencingToken) -> redis::RedisResult<bool> {
        let mut call = self.write.key("configuration");
        call.arg(token.as_u64()).invoke_async(&mut self.connection).await
    }

    async fn read(&mut self) -> redis::RedisResult<Option<String>> {
        self.connection.hget("configuration", "value").await
    }

    /// Whether it was written.
    async fn write(&mut self, token: FencingToken, value: &str) -> redis::RedisResult<bool> {
        let mut call = self.write.key("configuration");
        call.arg(token.as_u64()).arg(value).invoke_async(&mut self.connection).await
    }
}

fn token(guard: &Guard) -> FencingToken {
    guard.fencing_token().expect("a fenced lock has a token")
}

fn program(nodes: &[RedisServer]) -> Result<Redlock, redlock_redis_rs::Error> {
    redlock_redis_rs::builder(nodes.iter().map(RedisServer::url))?.build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (nodes, store) = (RedisServer::start_many(3), RedisServer::start());
    let (first, second) = (program(&nodes)?, program(&nodes)?);
    let mut configuration = Configuration::open(store.url()).await?;

    // The first one reads, and is paused: nothing of it runs until the next comment that names it.
    let earlier = first.lock("configuration", TTL).fenced().await?;
    assert!(configuration.enter(token(&earlier)).await?);
    assert_eq!(None, configuration.read().await?);

    // Its lock expires, and the second one gets it.
    let later = second.lock("configuration", TTL).fenced().await?;
    assert!(token(&later) > token(&earlier));
    assert!(configuration.enter(token(&later)).await?);

    // The first one goes on as if it still had the lock.
    let written = configuration.write(token(&earlier), "of the first").await?;
    println!("the first one, with {}: {}", token(&earlier), if written { "written" } else { "refused" });
    assert!(!written);

    assert_eq!(None, configuration.read().await?, "nothing came between");
    let written = configuration.write(token(&later), "of the second").await?;
    println!("the second one, with {}: {}", token(&later), if written { "written" } else { "refused" });
    assert!(written);
    assert_eq!(Some("of the second".to_owned()), configuration.read().await?);
    Ok(())
}

#[test]
fn the_stale_writer_is_refused() {
    main().expect("every step is as it is told");
}
