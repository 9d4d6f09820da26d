//! The tour: acquires a lock, is denied a second one, extends, releases, and checks that no key is left.
//!
//! By default it runs on five embedded fake nodes. `--nodes redis://host1,redis://host2,...` selects real ones.
#![allow(clippy::print_stdout)] // an example shows what it does

use std::sync::Arc;
use std::time::Duration;

use redlock_redis_rs::node::{Claim, LockNode, Reply, Request, Token, Ttl};
use redlock_redis_rs::{IntoResources, Options, Redlock, TokioRuntime};
use redlock_testkit::MemoryNode;

const RESOURCE: &str = "invoice:42";
const TTL: Duration = Duration::from_secs(10);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes = nodes(&std::env::args().skip(1).collect::<Vec<_>>())?;
    let redlock = Redlock::builder(TokioRuntime::new()).nodes(nodes.clone()).build()?;

    let guard = redlock.lock(RESOURCE, TTL).await?;
    println!("locked {RESOURCE:?}, valid for another {:.3?}", guard.remaining());
    for vote in guard.node_reports() {
        println!("  {vote}");
    }

    match redlock.lock(RESOURCE, TTL).try_now().await? {
        Some(_) => return Err("locked twice".into()),
        None => println!("denied a second time, as expected"),
    }

    guard.extend(2 * TTL).await?;
    println!("extended, valid for another {:.3?}", guard.remaining());

    println!("released: {:?}", guard.release().await?);
    redlock.close().await;
    for node in nodes {
        let found = if is_free(&*node).await? { "the key is gone" } else { "A KEY IS LEFT" };
        println!("  {}: {found}", node.label());
    }
    Ok(())
}

fn nodes(arguments: &[String]) -> Result<Vec<Arc<dyn LockNode>>, Box<dyn std::error::Error>> {
    match arguments {
        [] => {
            println!("on five embedded fake nodes; for real ones: --nodes redis://host1,redis://host2,...");
            let fake = |number| Arc::new(MemoryNode::new(format!("fake-{number}"))) as Arc<dyn LockNode>;
            Ok((1..=5).map(fake).collect())
        }
        [option, urls] if option == "--nodes" => {
            let options = Options::tokio();
            let real = |url| Ok(Arc::new(redlock_redis_rs::node(url, &options)?) as Arc<dyn LockNode>);
            urls.split(',').map(real).collect()
        }
        _ => Err("usage: quickstart [--nodes redis://host1,redis://host2,...]".into()),
    }
}

/// Returns true if a node has no key. The node then grants the key to another client, which releases it.
async fn is_free(node: &dyn LockNode) -> Result<bool, Box<dyn std::error::Error>> {
    let stranger = Claim::new(RESOURCE.into_resources()?, Token::from_bytes("quickstart"));
    let free = node.call(Request::Acquire(stranger.clone(), Ttl::new(TTL)?)).await? == Reply::Granted;
    let _ = node.call(Request::Release(stranger.clone())).await?;
    Ok(free)
}
