//! Locks with several tasks, and counts the jumps of clocks that this process notices.
//!
//! Each line of input is a number of locks that are requested at the same moment, or `0`. For each line, and once before,
//! the process prints its counts so far: locks, failed requests, jumps. It ends at the end of its input.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redlock_core::Redlock;

use super::{Outcome, input};
use crate::servers::TTL;
use crate::warnings::Warnings;

/// The number of tasks that lock all the time, and of the locks for which they contend.
const TASKS: usize = 16;
const LOCKS: usize = 4;

#[derive(Default)]
struct Counts {
    locks: AtomicU64,
    failures: AtomicU64,
}

pub(super) async fn main(redlock: &Redlock) -> Outcome<()> {
    let (warnings, counts) = (Warnings::default(), Arc::<Counts>::default());
    let _subscribed = warnings.subscribe();
    for index in 0..redlock.health().await.nodes().len() {
        redlock.vouch(index).await?;
    }
    for task in 0..TASKS {
        let (redlock, counts) = (redlock.clone(), Arc::clone(&counts));
        tokio::spawn(async move {
            loop {
                lock(&redlock, format!("lock-{}", task % LOCKS), &counts).await;
            }
        });
    }
    let print = || {
        let [locks, failures] = [&counts.locks, &counts.failures].map(|count| count.load(Ordering::Relaxed));
        println!("{locks} {failures} {}", warnings.about("jumped ahead"));
    };
    print();
    let mut lines = input();
    while let Some(line) = lines.recv().await {
        for number in 0..line.parse()? {
            let (redlock, counts) = (redlock.clone(), Arc::clone(&counts));
            tokio::spawn(async move { lock(&redlock, format!("burst-{number}"), &counts).await });
        }
        print();
    }
    Ok(())
}

/// Acquires a lock and holds it for a short time.
async fn lock(redlock: &Redlock, resource: String, counts: &Counts) {
    let count = match redlock.lock(resource, TTL).max_wait(TTL).await {
        Ok(guard) => {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..50))).await;
            drop(guard.release().await);
            &counts.locks
        }
        Err(_) => {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(50..150))).await;
            &counts.failures
        }
    };
    count.fetch_add(1, Ordering::Relaxed);
}
