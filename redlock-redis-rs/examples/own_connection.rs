//! An existing connection: the application has one to each server, and the locks share it.
//!
//! `REDLOCK_NODES` lists the URLs of the servers, separated by commas. The default is one server on this machine.
#![allow(clippy::print_stdout)] // an example shows what it does

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use redis::{AsyncTypedCommands, Client};
use redlock_redis_rs::node::LockNode;
use redlock_redis_rs::{Options, Redlock, TokioRuntime, node_with_connection};

const TTL: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let urls = std::env::var("REDLOCK_NODES").unwrap_or_else(|_| "redis://127.0.0.1".to_owned());
    let options = Options::tokio();
    let (mut nodes, mut connections) = (Vec::new(), Vec::new());
    for url in urls.split(',') {
        let client = Client::open(url)?;
        // A connection manager reconnects on its own. A lost `MultiplexedConnection` stays lost.
        let mut connection = client.get_connection_manager().await?;
        connection.set("redlock-example:visits", 1).await?;
        let label = client.get_connection_info().addr().to_string();
        nodes.push(Arc::new(node_with_connection(label, connection.clone(), &options)) as Arc<dyn LockNode>);
        connections.push(connection);
    }
    let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).compare_node_lists(true).build()?;

    let guard = redlock.lock("a", TTL).await?;
    println!("locked over {} connections of the application", connections.len());
    for connection in &mut connections {
        connection.incr("redlock-example:visits", 1).await?;
        connection.del("redlock-example:visits").await?;
    }
    guard.release().await?;
    redlock.close().await;
    Ok(())
}
