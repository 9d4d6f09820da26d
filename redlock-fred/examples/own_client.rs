//! An existing client: the application has a fred client for each server, and the locks share it.
//!
//! `REDLOCK_NODES` lists the URLs of the servers, separated by commas. The default is one server on this machine.
#![allow(clippy::print_stdout)] // an example shows what it does

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use fred::prelude::{Builder, ClientLike, Config, KeysInterface, ReconnectPolicy};
use redlock_fred::node::LockNode;
use redlock_fred::{Options, Redlock, TokioRuntime, node_with_connection};

const TTL: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let urls = std::env::var("REDLOCK_NODES").unwrap_or_else(|_| "redis://127.0.0.1".to_owned());
    let options = Options::tokio();
    let (mut nodes, mut clients) = (Vec::new(), Vec::new());
    for url in urls.split(',') {
        let config = Config::from_url(url)?;
        // Not the URL: it may contain a password, and the label is logged.
        let label = config.server.hosts()[0].to_string();
        let mut builder = Builder::from_config(config);
        let client = builder.set_policy(ReconnectPolicy::new_exponential(0, 10, 1000, 2)).build()?;
        client.init().await?;
        let () = client.set("redlock-example:visits", 1, None, None, false).await?;
        nodes.push(Arc::new(node_with_connection(label, &client, &options)) as Arc<dyn LockNode>);
        clients.push(client);
    }
    let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes).compare_node_lists(true).build()?;

    let guard = redlock.lock("a", TTL).await?;
    println!("locked over {} clients of the application", clients.len());
    for client in &clients {
        let () = client.incr("redlock-example:visits").await?;
        let () = client.del("redlock-example:visits").await?;
    }
    guard.release().await?;
    redlock.close().await;
    Ok(())
}
