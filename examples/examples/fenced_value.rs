//! A value in Redis that rejects stale writers: the check and the write are one script.
//!
//! The value is on a separate server here. It needs no node of the lock.
//!
//! `cargo run -p redlock-examples --example fenced_value`, with `redis-server` installed.
#![allow(clippy::print_stdout)] // prints each step

use std::error::Error;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Client, Script};
use redlock_redis_rs::{FencingToken, Redlock};
use redlock_testkit::RedisServer;

const TTL: Duration = Duration::from_millis(500);

/// A configuration in Redis that is read, changed and written.
struct Configuration {
    connection: MultiplexedConnection,
    write: Script,
}

impl Configuration {
    async fn open(url: String) -> redis::RedisResult<Self> {
        let connection = Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Self { connection, write: Script::new(include_str!("../src/write.lua")) })
    }

    /// Writes only the token, before the first read. Returns true if it was written.
    async fn enter(&mut self, token: FencingToken) -> redis::RedisResult<bool> {
        let mut call = self.write.key("configuration");
        call.arg(token.as_u64()).invoke_async(&mut self.connection).await
    }

    async fn read(&mut self) -> redis::RedisResult<Option<String>> {
        self.connection.hget("configuration", "value").await
    }

    /// Returns true if the value was written.
    async fn write(&mut self, token: FencingToken, value: &str) -> redis::RedisResult<bool> {
        let mut call = self.write.key("configuration");
        call.arg(token.as_u64()).arg(value).invoke_async(&mut self.connection).await
    }
}

fn program(nodes: &[RedisServer]) -> Result<Redlock, redlock_redis_rs::Error> {
    redlock_redis_rs::builder(nodes.iter().map(RedisServer::url))?.build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (nodes, store) = (RedisServer::start_many(3), RedisServer::start());
    let (first, second) = (program(&nodes)?, program(&nodes)?);
    let mut configuration = Configuration::open(store.url()).await?;

    // The first client reads and is paused. It does not run until the comment "continues".
    let earlier = first.lock("configuration", TTL).fenced().await?;
    assert!(configuration.enter(earlier.token()).await?);
    assert_eq!(None, configuration.read().await?);

    // Its lock expires, and the second client acquires it.
    let later = second.lock("configuration", TTL).fenced().await?;
    assert!(later.token() > earlier.token());
    assert!(configuration.enter(later.token()).await?);

    // The first client continues as if it still held the lock.
    let written = configuration.write(earlier.token(), "of the first").await?;
    println!("first client, with {}: {}", earlier.token(), if written { "written" } else { "rejected" });
    assert!(!written);

    assert_eq!(None, configuration.read().await?, "no value was written in between");
    let written = configuration.write(later.token(), "of the second").await?;
    println!("second client, with {}: {}", later.token(), if written { "written" } else { "rejected" });
    assert!(written);
    assert_eq!(Some("of the second".to_owned()), configuration.read().await?);
    Ok(())
}

#[test]
fn the_stale_writer_is_rejected() {
    main().expect("the example succeeds");
}
