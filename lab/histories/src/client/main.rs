//! A process that locks, and records what it begins and learns: an [`Event`](redlock_history_checker::Event) a line on
//! its standard output.
//!
//! `history-client NAME ADAPTER ADMISSION SEED NODES`, where `ADAPTER` is `redis-rs` or `fred`, `ADMISSION` is `on` or
//! `off`, and `NODES` are URLs separated by commas. It ends when its standard input ends.

mod record;
mod work;

use std::error::Error;
use std::io::{Read as _, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redlock_core::Redlock;
use redlock_fred::relayed;
use redlock_redis_rs::Options;

use crate::record::Recorder;
use crate::work::{LONGEST_TTL, work};

/// The number of tasks that lock.
const TASKS: u64 = 3;

/// The time limit of the cleanup at the end, when all servers can be reached.
const CLOSE_LIMIT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let [name, adapter, admission, seed, nodes] = arguments[..] else {
        return Err("usage: history-client NAME ADAPTER ADMISSION SEED NODES".into());
    };
    let options = match admission {
        "on" => Options::tokio().longest_ttl(LONGEST_TTL),
        "off" => Options::tokio(),
        _ => return Err("admission is on or off".into()),
    };
    let nodes = nodes.split(',');
    let builder = match adapter {
        "redis-rs" => redlock_redis_rs::builder_with(nodes, &options)?,
        "fred" => redlock_fred::builder_with(nodes.map(relayed), &options)?,
        _ => return Err("the adapter is redis-rs or fred".into()),
    };
    let redlock = builder.owner(name).build()?;
    let seed: u64 = seed.parse()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(&redlock, name, seed))
}

async fn run(redlock: &Redlock, name: &str, seed: u64) -> Result<(), Box<dyn Error>> {
    let over = Arc::new(AtomicBool::new(false));
    let at_end = Arc::clone(&over);
    std::thread::spawn(move || {
        // An error is an end as well.
        let _ = stdin().read_to_end(&mut Vec::new());
        at_end.store(true, Ordering::Relaxed);
    });
    let recorder = Recorder::new(name);
    let tasks = (0..TASKS).map(|task| {
        let random = fastrand::Rng::with_seed(seed.wrapping_mul(TASKS).wrapping_add(task));
        work(redlock, &recorder, random, &over)
    });
    join_all(tasks).await.into_iter().collect::<Result<Vec<()>, _>>()?;
    let abandoned = tokio::time::timeout(CLOSE_LIMIT, redlock.close()).await?;
    if abandoned > 0 { Err(format!("{abandoned} cleanups were abandoned").into()) } else { Ok(()) }
}
