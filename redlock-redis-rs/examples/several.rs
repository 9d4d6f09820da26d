//! Several resources at once, all or none: a transfer between two accounts. The order of the names does not matter, and
//! transfers cannot deadlock.
#![allow(clippy::print_stdout)] // an example shows what it does

mod nodes;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use redlock_redis_rs::{Error, Redlock};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Bank([AtomicI64; 3]);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let (nodes, bank) = (nodes::Nodes::find()?, Arc::new(Bank::default()));
    let transfers = [(0, 1), (1, 0), (1, 2), (2, 0), (0, 2)].map(|(from, to)| {
        let (redlock, bank) = (nodes.redlock(), Arc::clone(&bank));
        tokio::spawn(async move { transfer(&redlock?, &bank, from, to).await })
    });
    for transfer in transfers {
        transfer.await.expect("the task does not panic")?;
    }
    let balances = bank.0.each_ref().map(|account| account.load(SeqCst));
    assert_eq!([0, -10, 10], balances, "the transfers ran one after the other");
    println!("balances: {balances:?}");
    Ok(())
}

async fn transfer(redlock: &Redlock, bank: &Bank, from: usize, to: usize) -> Result<(), Error> {
    let accounts = [format!("account:{from}"), format!("account:{to}")];
    let guard = redlock.lock(accounts, TTL).await?;
    println!("{from} to {to}");
    // Reads, waits and writes. No other client changes either account meanwhile.
    let before = [from, to].map(|account| bank.0[account].load(SeqCst));
    sleep(Duration::from_millis(20)).await;
    bank.0[from].store(before[0] - 10, SeqCst);
    bank.0[to].store(before[1] + 10, SeqCst);
    guard.release().await?;
    redlock.close().await;
    Ok(())
}
