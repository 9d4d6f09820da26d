//! Leadership among five processes, which are killed and stopped, on servers that hang.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redlock_redis_rs::Lease;
use redlock_testkit::RedisServer;
use rustix::process::{Pid, Signal, kill_process};

use crate::records::{self, Recorder, millis, nanos, now, urls};

const PROCESSES: usize = 5;
const TTL: Duration = Duration::from_secs(2);
const BEAT: Duration = Duration::from_millis(2);

/// The bounds of the histogram, in milliseconds.
const BOUNDS: [u64; 9] = [10, 50, 200, 500, 1000, 1500, 2000, 2500, 3000];

/// Leads, and writes the time of every beat with the number of the term.
///
/// The time is read before the lease is checked, so the process was the leader at that time.
pub(crate) async fn process(urls: &str, file: &str) {
    let redlock = super::redlock(urls);
    let mut recorder = Recorder::new(file);
    let (beats, mut received) = tokio::sync::mpsc::unbounded_channel::<(u64, u64)>();
    let mut terms = 0;
    let work = |lease: Lease| {
        terms += 1;
        let (term, beats) = (terms, beats.clone());
        async move {
            loop {
                let time = now();
                if lease.is_held() && beats.send((time, term)).is_err() {
                    return ControlFlow::Break(());
                }
                tokio::time::sleep(BEAT).await;
            }
        }
    };
    let record = async {
        while let Some((time, term)) = received.recv().await {
            recorder.write(&[time, term]);
        }
    };
    tokio::select! {
        result = redlock.lock("measured", TTL).lead().run(work) => result.unwrap(),
        () = record => {}
    }
}

/// The candidates, each a process.
struct Candidates<'a> {
    servers: &'a [RedisServer],
    directory: &'a Path,
    processes: Vec<Child>,
    started: usize,
}

impl Candidates<'_> {
    fn start(&mut self) -> Child {
        self.started += 1;
        let file = self.directory.join(self.started.to_string());
        records::start("lead-process", &urls(self.servers), &file, &[])
    }

    fn signal(&self, number: usize, signal: Signal) {
        kill_process(Pid::from_child(&self.processes[number]), signal).unwrap();
    }

    fn kill(&mut self, number: usize) {
        self.processes[number].kill().unwrap();
        self.processes[number].wait().unwrap();
    }
}

pub(crate) fn measure(lasts: Duration) {
    let (servers, directory) = (RedisServer::start_many(5), tempfile::tempdir().unwrap());
    let mut candidates =
        Candidates { servers: &servers, directory: directory.path(), processes: Vec::new(), started: 0 };
    for _ in 0..PROCESSES {
        let process = candidates.start();
        candidates.processes.push(process);
    }
    let (start, mut outages, mut faults) = (Instant::now(), Vec::new(), [0; 5]);
    sleep(Duration::from_secs(2));
    while start.elapsed() < lasts {
        let kind = fastrand::usize(..faults.len());
        faults[kind] += 1;
        let a_while = Duration::from_millis(fastrand::u64(100..4_000));
        let number = fastrand::usize(..PROCESSES);
        match kind {
            // A candidate, and often the leader, is killed and starts again.
            0 => {
                candidates.kill(number);
                sleep(a_while / 2);
                candidates.processes[number] = candidates.start();
            }
            // A candidate is stopped, up to twice the TTL.
            1 => {
                candidates.signal(number, Signal::STOP);
                sleep(a_while);
                candidates.signal(number, Signal::CONT);
            }
            // All others are stopped for a short time, too.
            2 => {
                (1..PROCESSES)
                    .for_each(|other| candidates.signal((number + other) % PROCESSES, Signal::STOP));
                sleep(a_while / 4);
                (1..PROCESSES)
                    .for_each(|other| candidates.signal((number + other) % PROCESSES, Signal::CONT));
            }
            3 => hang(&servers, 2, a_while),
            _ => {
                let begun = now();
                hang(&servers, 3, a_while);
                outages.push((begun, now()));
            }
        }
        sleep(Duration::from_millis(fastrand::u64(200..5_000)));
    }
    (0..PROCESSES).for_each(|number| candidates.kill(number));
    let [kills, stops, crowds, minorities, majorities] = faults;
    println!(
        "{:.1} minutes: {kills} kills, {stops} stops of one candidate, {crowds} stops of all but one, \
         {minorities} hung minorities, {majorities} hung majorities",
        start.elapsed().as_secs_f64() / 60.0
    );
    judge(directory.path(), &outages);
}

fn hang(servers: &[RedisServer], count: usize, lasts: Duration) {
    let first = fastrand::usize(..servers.len());
    let hung = || (0..count).map(|turn| &servers[(first + turn) % servers.len()]);
    hung().for_each(RedisServer::pause);
    sleep(lasts);
    hung().for_each(RedisServer::resume);
}

fn judge(directory: &Path, outages: &[(u64, u64)]) {
    let mut beats: Vec<_> =
        records::read::<2>(directory).into_iter().map(|(file, [time, term])| (time, (file, term))).collect();
    beats.sort_unstable();
    // The terms in the order of their first beats. A leader that was paused is not followed by its own beats.
    let mut terms: Vec<((usize, u64), u64, u64)> = Vec::new();
    let mut overlaps = 0;
    for (time, term) in beats {
        match terms.iter_mut().rev().find(|(other, ..)| *other == term) {
            Some((_, _, last)) => *last = time,
            None => terms.push((term, time, time)),
        }
    }
    let mut gaps = [Vec::new(), Vec::new()];
    for pair in terms.windows(2) {
        let (end, begin) = (pair[0].2, pair[1].1);
        overlaps += usize::from(begin <= end);
        // An outage has effects until its end, and keeps a key for one TTL.
        let in_outage = outages.iter().any(|(from, to)| *from <= begin && end <= *to + nanos(TTL));
        gaps[usize::from(in_outage)].push(begin.saturating_sub(end));
    }
    println!("{} terms, {overlaps} overlaps", terms.len());
    for (name, gaps) in ["with a healthy quorum", "around an outage"].iter().zip(&mut gaps) {
        gaps.sort_unstable();
        let Some(longest) = gaps.last() else { continue };
        println!("time without a leader {name}: {} times, longest {:.0} ms", gaps.len(), millis(*longest));
        let mut least = 0;
        for bound in BOUNDS.into_iter().chain([u64::MAX / 1_000_000]) {
            let count = gaps.iter().filter(|gap| (least..bound).contains(&(**gap / 1_000_000))).count();
            let name =
                if bound > 10_000 { format!("from {least} ms") } else { format!("{least} to {bound} ms") };
            println!("  {name:>14}: {count:>4} {}", "#".repeat(count));
            least = bound;
        }
    }
    assert_eq!(0, overlaps, "two leaders");
}
