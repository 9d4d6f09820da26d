//! Measures slots, leadership and turns of several processes, and readers and writers, on five new servers.
//!
//! ```text
//! cargo run --release -p redlock-redis-rs --example programs -- slots [ROUNDS]
//! cargo run --release -p redlock-redis-rs --example programs -- lead [MINUTES]
//! cargo run --release -p redlock-redis-rs --example programs -- readers [ROUNDS]
//! cargo run --release -p redlock-redis-rs --example programs -- turns [SECONDS] [HOLD in ms]
//! ```
//!
//! The processes record their actions, with timestamps of this machine's clock. The first process starts the others,
//! causes the faults, and checks the records at the end.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)] // a measurement
#![allow(clippy::cast_precision_loss)] // counts are far below the precision of an f64

mod lead;
#[path = "../../../benches/ratios/network.rs"]
mod network;
mod readers;
mod records;
mod slots;
mod turns;

use std::time::Duration;

use redlock_redis_rs::Redlock;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match &arguments[..] {
        ["slots"] => slots::measure(1),
        ["slots", rounds] => slots::measure(rounds.parse().unwrap()),
        ["lead"] => lead::measure(Duration::from_secs(30 * 60)),
        ["lead", minutes] => lead::measure(Duration::from_secs_f64(60.0 * minutes.parse::<f64>().unwrap())),
        ["readers"] => run(readers::measure(5)),
        ["readers", rounds] => run(readers::measure(rounds.parse().unwrap())),
        ["turns"] => turns::measure(60, Duration::from_millis(1)),
        ["turns", seconds, hold] => {
            turns::measure(seconds.parse().unwrap(), Duration::from_millis(hold.parse().unwrap()));
        }
        ["turns-process", urls, file, numbers @ ..] => {
            let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
            run(turns::process(urls, file, &numbers));
        }
        ["slots-process", urls, file, rounds] => run(slots::process(urls, file, rounds.parse().unwrap())),
        ["lead-process", urls, file] => run(lead::process(urls, file)),
        _ => panic!(
            "usage: programs slots [ROUNDS] | lead [MINUTES] | readers [ROUNDS] | turns [SECONDS] [HOLD]"
        ),
    }
}

fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

fn redlock(urls: &str) -> Redlock {
    redlock_redis_rs::builder(urls.split(',')).unwrap().build().unwrap()
}
