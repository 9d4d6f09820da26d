//! This side of `scripts/interop`: locks against Redlock clients of other languages on the same five servers, and
//! prints the results.
//!
//! `interop [--rounds N] NAME PREFIX COMMAND... [-- NAME PREFIX COMMAND...]`: each client is a program that reads
//! commands line by line (`peer`). It writes its keys with the given prefix (`-` for none).
#![allow(clippy::print_stdout)] // its report

mod contention;
mod exclusion;
mod peer;

use std::error::Error;

use redlock_redis_rs::{Options, Redlock, builder_with};
use redlock_testkit::RedisServer;

use crate::contention::contend;
use crate::exclusion::exclude;
use crate::peer::Peer;

const ROUNDS: usize = 1000;

/// The number of rounds with two different locks. The judge must see overlaps there.
const BROKEN_ROUNDS: usize = 50;

/// The minimum of contended rounds on each side.
const FEW: usize = ROUNDS / 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (rounds, clients) = match &arguments[..] {
        [option, rounds, clients @ ..] if option == "--rounds" => (rounds.parse()?, clients),
        clients => (ROUNDS, clients),
    };
    println!(
        "| client | excludes this library | excluded by it | deletes its keys | loses keys to it | rounds (this + client) | overlaps |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut failed = Vec::new();
    for client in clients.split(|argument| argument == "--") {
        let [name, prefix, command @ ..] = client else { return Err("NAME PREFIX COMMAND...".into()) };
        let prefix = if prefix == "-" { "" } else { prefix };
        if let Err(error) = pair(name, prefix, command, rounds).await {
            println!("| {name} | FAILED: {error} |");
            failed.push(name.as_str());
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join(", ").into()) }
}

/// Runs all checks with one client, on separate servers.
async fn pair(name: &str, prefix: &str, command: &[String], rounds: usize) -> Result<(), Box<dyn Error>> {
    let servers = RedisServer::start_many(5);
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let redlock = own_client(&urls, prefix)?;
    let mut peer = Peer::start(command, &urls)?;

    exclude(&redlock, &mut peer, &servers).await?;

    let unlocked = contend(&redlock, "one", &mut peer, "another", BROKEN_ROUNDS).await?;
    if unlocked.overlaps == 0 {
        return Err(
            "the judge sees no overlap of two holders of two different locks, so it cannot detect any".into(),
        );
    }
    let outcome = contend(&redlock, "contended", &mut peer, "contended", rounds).await?;
    if outcome.overlaps > 0 {
        return Err(format!("{} overlaps in {rounds} rounds", outcome.overlaps).into());
    }
    if rounds >= ROUNDS && outcome.own_rounds.min(outcome.peer_rounds) < FEW {
        return Err(format!(
            "{} rounds of this side, {} of the other side: too little contention",
            outcome.own_rounds, outcome.peer_rounds
        )
        .into());
    }
    println!(
        "| {name} | yes | yes | never | never | {} + {}, {} handoffs | 0 |",
        outcome.own_rounds, outcome.peer_rounds, outcome.changes
    );
    redlock.close().await;
    Ok(())
}

fn own_client(urls: &[String], prefix: &str) -> Result<Redlock, Box<dyn Error>> {
    // The keys of the comparison would be counted as left behind.
    Ok(builder_with(urls, &Options::tokio().key_prefix(prefix))?.compare_node_lists(false).build()?)
}
