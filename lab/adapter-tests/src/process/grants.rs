//! Acquires one fenced lock again and again, and appends each fencing token to a file under the lock.
//!
//! Other processes append to the same file: a line for each token, in the order of the grants. The position of a line
//! is valid if the lock is still held after the write. Otherwise the process appends a line `late` with the token.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use redlock_core::kind::Fenced;
use redlock_core::node::LockNode;
use redlock_core::{Builder, ErrorKind, Guard, Redlock};
use redlock_testkit::{Faulty, Operation};
use redlock_wire::{Connector, Node, Options};

use super::Outcome;

/// Shorter than some stops of a node, so that leases expire. A leftover key blocks the other processes only briefly.
const TTL: Duration = Duration::from_secs(2);

pub(super) async fn main(nodes: Vec<Node<impl Connector>>, grants: u32, file: &str) -> Outcome<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(file)?;
    let runtime = Options::tokio().runtime();
    // The wrappers count requests.
    let nodes: Vec<_> = (nodes.into_iter())
        .map(|node| Faulty::wrap(node, Arc::clone(&runtime)).ordered().watching())
        .collect();
    let clones = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
    let redlock = Builder::new(runtime).nodes(clones).build()?;
    let (mut one_round, mut late, mut failed) = (0, 0, 0);
    for _ in 0..grants {
        let (guard, rounds) = loop {
            let confirmed = confirmations(&nodes);
            match lock(&redlock).await {
                Ok(guard) => break (guard, confirmations(&nodes) - confirmed + 1),
                Err(error) if error.is_retryable() => failed += 1,
                Err(error) => return Err(error.into()),
            }
        };
        one_round += u32::from(rounds == 1);
        let token = guard.token();
        file.write_all(format!("{token}\n").as_bytes())?;
        if !guard.is_held() {
            late += 1;
            file.write_all(format!("late {token}\n").as_bytes())?;
        }
        // If too few nodes reply, the release continues in the background.
        if let Err(error) = guard.release().await {
            assert_eq!(ErrorKind::NoQuorum, error.kind());
        }
    }
    redlock.close().await;
    println!("{grants} grants, {one_round} in one round, {late} late, {failed} failed requests");
    Ok(())
}

async fn lock(redlock: &Redlock) -> Result<Guard<Fenced>, redlock_core::Error> {
    redlock.lock("numbered", TTL).fenced().wait_unbounded().await
}

/// Returns the number of requests to confirm a token. An acquisition of one round makes none.
fn confirmations<N: LockNode>(nodes: &[Faulty<N>]) -> u64 {
    nodes.iter().map(|node| node.request_count(Operation::Confirm)).sum()
}
