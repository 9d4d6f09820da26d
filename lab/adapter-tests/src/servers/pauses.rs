//! A busy program and its servers are stopped again and again, and all messages are late by random times. No clock jumps.
//!
//! `scripts/pauses` runs this for an hour, and prints the figures.
#![allow(clippy::print_stdout)] // the figures

use super::processes::Holder;
use super::*;
use crate::clock::WrongClock;

#[path = "../../../../benches/ratios/network.rs"]
mod network;

use network::{Link, proxies};

/// The environment variable for the duration of a run, which `scripts/pauses` sets.
const SECONDS: &str = "REDLOCK_PAUSES_SECONDS";

/// The longest additional time of a message in one direction.
const DELAY: Duration = Duration::from_millis(200);

/// The time between two bursts, in which many locks are requested at the same moment.
const BETWEEN: Duration = Duration::from_secs(300);

/// A step of a clock that no delay hides, in seconds.
const STEP: f64 = 1.0;

/// The process, and the lines that it has printed.
struct Busy(Holder);

impl Busy {
    /// Requests this number of locks at the same moment. Returns the locks, the failed requests and the jumps so far.
    fn counts_after(&mut self, burst: u64) -> [u64; 3] {
        self.0.send_line(&burst.to_string());
        let line = self.0.next_line();
        let counts: Vec<_> = line.split(' ').map(|count| count.parse().unwrap()).collect();
        counts.try_into().unwrap()
    }
}

/// Stops a server, all servers, or the process for up to 3 s.
fn pause_any(servers: &[WrongClock; 3], process: &Holder) {
    let time = Duration::from_millis(10).mul_f64(300_f64.powf(fastrand::f64()));
    let any = fastrand::usize(0..5);
    let stopped = match any {
        0..3 => &servers[any..=any],
        3 => &servers[..],
        _ => {
            process.stop();
            &[]
        }
    };
    for clock in stopped {
        clock.server.pause();
    }
    std::thread::sleep(time);
    for clock in stopped {
        clock.server.resume();
    }
    if any == 4 {
        process.go_on();
    }
}

pub(crate) fn pauses_and_delays_are_no_jump_of_a_clock<A: Adapter>() {
    let seconds: Option<u64> = std::env::var(SECONDS).ok().map(|text| text.parse().unwrap());
    let (time, burst) = seconds.map_or((10, 1_000), |seconds| (seconds, 50_000));
    let servers = [0.0; 3].map(WrongClock::start);
    let late = Link { jitter: DELAY, ..Link::default() };
    let (_proxies, urls) = proxies(servers.iter().map(|clock| &clock.server), &[late; 3]);
    let mut busy = Busy(Holder::run::<A>(&["busy", &urls.join(",")]));
    busy.0.next_line();
    let (start, mut pauses, mut bursts) = (Instant::now(), 0, 0);
    while start.elapsed() < Duration::from_secs(time) {
        if start.elapsed() >= BETWEEN * bursts {
            busy.counts_after(burst);
            bursts += 1;
        }
        std::thread::sleep(Duration::from_millis(fastrand::u64(100..2_000)));
        pause_any(&servers, &busy.0);
        pauses += 1;
    }
    let [locks, failures, jumps] = busy.counts_after(0);
    println!(
        "{time} s, {pauses} pauses, {bursts} bursts of {burst}: {locks} locks, {failures} failed, {jumps} jumps"
    );
    assert!(locks > 0);
    assert_eq!(0, jumps, "no clock has jumped");
    servers[0].set_ahead(STEP);
    let deadline = Instant::now() + PATIENCE;
    while busy.counts_after(0)[2] == 0 {
        assert!(Instant::now() < deadline, "the process does not notice a jump");
        std::thread::sleep(Duration::from_millis(100));
    }
}
