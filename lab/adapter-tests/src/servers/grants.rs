//! Fencing tokens of four processes, in the order of their grants, while nodes are killed, stopped and restarted.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::examples::program;

const PROCESSES: u32 = 4;

/// The number of grants of all processes together. `scripts/contend --fenced` sets a greater one in the environment.
const GRANTS: u32 = 800;

/// The maximum number of grants before a fault begins, and before it ends.
const GRANTS_BETWEEN: u64 = 100;

/// The maximum number of grants during some faults, which last longer than the TTL.
const GRANTS_BETWEEN_FEW: u64 = 500;

/// The time after which a run counts as hung. It is far longer than a hundred grants take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The length of a line of the file: the number of digits of a token for the next thousand years.
const LINE: u64 = 17;

/// The processes of a run. They are killed when it is dropped.
struct Run {
    directory: tempfile::TempDir,
    processes: Vec<Child>,
    grants: u32,
}

impl Run {
    fn start<A: Adapter>(servers: &[RedisServer]) -> Self {
        let configured = std::env::var("REDLOCK_FENCED_GRANTS").map(|grants| grants.parse::<u32>().unwrap());
        let grants = configured.unwrap_or(GRANTS) / PROCESSES;
        let directory = tempfile::tempdir().unwrap();
        let nodes: Vec<_> = servers.iter().map(RedisServer::url).collect();
        let start = |_| {
            let mut command = Command::new(program(A::PROCESS));
            command
                .args(["grants", &nodes.join(","), &grants.to_string()])
                .arg(file(&directory))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let processes = (0..PROCESSES).map(start).collect();
        Self { directory, processes, grants }
    }

    fn granted(&self) -> u64 {
        fs::metadata(file(&self.directory)).map_or(0, |file| file.len()) / LINE
    }

    /// Returns whether there will be no further grant. Processes may still wait for nodes that are down, to clean up.
    fn is_over(&mut self) -> bool {
        let ended = |process: &mut Child| process.try_wait().unwrap().is_some();
        self.granted() >= u64::from(PROCESSES * self.grants) || self.processes.iter_mut().all(ended)
    }

    /// Waits for `more` grants, or for the last one.
    fn until_granted(&mut self, more: u64) {
        let (start, enough) = (Instant::now(), self.granted() + more);
        while !self.is_over() && self.granted() < enough {
            assert!(start.elapsed() < PATIENCE, "there are no further grants");
            std::thread::sleep(Duration::from_millis(5)); // the file has no notifications
        }
    }

    /// Asserts that the tokens increase from grant to grant. Returns the share of grants that took one round.
    #[allow(clippy::print_stdout)] // the report of a longer run
    fn check(mut self, what: &str) -> f64 {
        let number = |report: &str, what: &str| -> u32 {
            let (number, _) = report.split_once(what).unwrap();
            number.rsplit(", ").next().unwrap().parse().unwrap()
        };
        let mut one_round = 0;
        for process in std::mem::take(&mut self.processes) {
            let output = process.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let report = String::from_utf8(output.stdout).unwrap();
            print!("{what}: {report}");
            one_round += number(&report, " in one round");
        }
        let lines = lines(&file(&self.directory));
        let late: HashSet<&str> = lines.iter().filter_map(|line| line.strip_prefix("late ")).collect();
        let tokens: Vec<u64> = (lines.iter())
            .filter(|line| !line.starts_with("late ") && !late.contains(line.as_str()))
            .map(|line| line.parse().unwrap())
            .collect();
        assert_eq!((PROCESSES * self.grants) as usize, tokens.len() + late.len());
        let regressions: Vec<_> = tokens.windows(2).filter(|pair| pair[0] >= pair[1]).collect();
        assert!(regressions.is_empty(), "{} do not increase, first {:?}", regressions.len(), regressions[0]);
        let share = f64::from(one_round) / f64::from(PROCESSES * self.grants);
        println!("{what}: {} tokens increased, {:.1} % of them in one round", tokens.len(), 100.0 * share);
        share
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Both fail only if the child has ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn file(directory: &tempfile::TempDir) -> std::path::PathBuf {
    directory.path().join("tokens")
}

/// Returns the complete lines of the file.
fn lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let complete = text.rfind('\n').map_or(0, |end| end + 1);
    text[..complete].lines().map(str::to_owned).collect()
}

fn persistent() -> Vec<RedisServer> {
    (0..5).map(|_| RedisServer::builder().persistent(true).start()).collect()
}

pub(crate) fn tokens_increase_in_the_order_of_grants<A: Adapter>() {
    let servers = persistent();
    let run = Run::start::<A>(&servers);
    run.check("undisturbed");
}

#[allow(clippy::print_stdout)] // the seed
pub(crate) fn tokens_increase_while_nodes_are_killed_stopped_and_restarted<A: Adapter>() {
    let servers = persistent();
    let seed = std::env::var("REDLOCK_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("faults of seed {seed}; REDLOCK_SEED chooses another");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut run = Run::start::<A>(&servers);
    let (mut kills, mut stops) = (0, 0);
    while !run.is_over() {
        run.until_granted(random.u64(1..GRANTS_BETWEEN));
        let server = &servers[random.usize(..servers.len())];
        let longest = if random.u8(..20) == 0 { GRANTS_BETWEEN_FEW } else { GRANTS_BETWEEN };
        let lasts = random.u64(..longest);
        if random.bool() {
            kills += 1;
            server.kill();
            run.until_granted(lasts);
            server.restart();
        } else {
            stops += 1;
            server.pause();
            run.until_granted(lasts);
            server.resume();
        }
    }
    run.check(&format!("{kills} kills and {stops} stops"));
}
