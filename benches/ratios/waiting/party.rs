//! A process that locks.
//!
//! It receives commands as arguments and lines of its input. It prints the times of its holds in nanoseconds of the
//! monotonic clock of the machine, which all processes share.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Lines, Write, stdin, stdout};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;

use crate::contender::Contender;
use crate::contender::redlock_client::RedlockClient;
use crate::contender::rslock::Rslock;

/// The library of a party, and how it waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    RedisRs,
    RedisRsPolling,
    Fred,
    FredPolling,
    Rslock,
}

impl Way {
    const ALL: [Self; 5] = [Self::RedisRs, Self::RedisRsPolling, Self::Fred, Self::FredPolling, Self::Rslock];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RedisRs => "redis-rs",
            Self::RedisRsPolling => "redis-rs, polling",
            Self::Fred => "fred",
            Self::FredPolling => "fred, polling",
            Self::Rslock => "rslock",
        }
    }
}

/// The start and end of a hold, the number of the task in its process, and the time of its request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hold {
    pub(crate) since: u64,
    pub(crate) until: u64,
    pub(crate) task: usize,
    pub(crate) requested: u64,
}

/// A handle to the process, which is killed on drop.
pub(crate) struct Party {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Party {
    /// Starts a process with `tasks` that all contend for one lock, and waits until it is connected.
    pub(crate) fn start(way: Way, urls: &[String], tasks: usize, hold: Duration) -> Self {
        let program = std::env::current_exe().expect("the program has a path");
        let mut child = Command::new(program)
            .args(["party", way.name(), &urls.join(","), &tasks.to_string(), &hold.as_micros().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let lines = BufReader::new(child.stdout.take().expect("the output is piped")).lines();
        let mut party = Self { input: child.stdin.take(), child, lines };
        assert_eq!("ready", party.next_line());
        party
    }

    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("its input is open"), "{line}")
            .expect("the process reads its input");
    }

    pub(crate) fn next_line(&mut self) -> String {
        self.lines.next().expect("there is another line").expect("the output is text")
    }

    /// Reads the time of a hold.
    pub(crate) fn moment(&mut self) -> u64 {
        self.next_line().parse().expect("the line is a time")
    }

    /// Reads the holds of all tasks until the process ends.
    pub(crate) fn holds(mut self) -> Vec<Hold> {
        let mut holds = Vec::new();
        for line in self.lines.by_ref() {
            let line = line.expect("the output is text");
            let mut words = line.split(' ');
            let mut moment = || words.next().and_then(|word| word.parse().ok()).expect("the line is a hold");
            let (since, until, task, requested) = (moment(), moment(), moment(), moment());
            let task = usize::try_from(task).expect("the number of tasks is small");
            holds.push(Hold { since, until, task, requested });
        }
        holds
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the process: `party WAY URLS TASKS MICROSECONDS`.
pub(crate) fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    let [way, urls, tasks, hold] = args else { return Err("a party needs four arguments".into()) };
    let way = Way::ALL.into_iter().find(|known| known.name() == way).ok_or("no such way")?;
    let urls: Vec<String> = urls.split(',').map(str::to_owned).collect();
    let (tasks, hold) = (tasks.parse()?, Duration::from_micros(hold.parse()?));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match way {
            Way::RedisRs => takes_part(RedlockClient::redis_rs(&urls), tasks, hold).await,
            Way::RedisRsPolling => takes_part(RedlockClient::redis_rs_polling(&urls), tasks, hold).await,
            Way::Fred => takes_part(RedlockClient::fred(&urls), tasks, hold).await,
            Way::FredPolling => takes_part(RedlockClient::fred_polling(&urls), tasks, hold).await,
            Way::Rslock => takes_part(Rslock::persistent(&urls), tasks, hold).await,
        }
    })
}

async fn takes_part<C: Contender>(contender: C, tasks: usize, hold: Duration) -> Result<(), Box<dyn Error>> {
    // This lock waits until the servers are connected.
    let warm = format!("warm-{}", std::process::id());
    for _ in 0..20 {
        contender.release(contender.acquire(&warm).await).await;
    }
    say("ready")?;
    let mut line = String::new();
    while stdin().read_line(&mut line)? > 0 {
        match line.trim().split_once(' ') {
            None => one_hold(&contender, hold).await?,
            Some((_, times)) => {
                let (millis, pause) = times.split_once(' ').unwrap_or((times, "0"));
                let until = Instant::now() + Duration::from_millis(millis.parse()?);
                let times = (hold, Duration::from_millis(pause.parse()?));
                let holds =
                    (0..tasks).map(|task| tokio::spawn(many_holds(contender.clone(), task, times, until)));
                let mut text = String::new();
                for holds in join_all(holds).await {
                    for Hold { since, until, task, requested } in holds? {
                        writeln!(text, "{since} {until} {task} {requested}")?;
                    }
                }
                stdout().write_all(text.as_bytes())?;
                return Ok(());
            }
        }
        line.clear();
    }
    Ok(())
}

/// Prints when the lock was acquired, and when its release starts.
async fn one_hold<C: Contender>(contender: &C, lasts: Duration) -> Result<(), Box<dyn Error>> {
    let held = contender.acquire(KEY).await;
    say(&now().to_string())?;
    keep(lasts).await;
    let until = now();
    contender.release(held).await;
    say(&until.to_string())?;
    Ok(())
}

/// Holds the lock again and again, with a pause after each hold.
async fn many_holds<C: Contender>(
    contender: C,
    task: usize,
    (lasts, pause): (Duration, Duration),
    end: Instant,
) -> Vec<Hold> {
    let mut holds = Vec::new();
    while Instant::now() < end {
        let requested = now();
        let held = contender.acquire(KEY).await;
        let since = now();
        keep(lasts).await;
        holds.push(Hold { since, until: now(), task, requested });
        contender.release(held).await;
        if !pause.is_zero() {
            keep(pause).await;
        }
    }
    holds
}

/// Waits with a resolution of a tenth of a millisecond, which the timers of the runtime do not have.
async fn keep(lasts: Duration) {
    let slept = tokio::task::spawn_blocking(move || std::thread::sleep(lasts)).await;
    slept.expect("sleeping does not fail");
}

fn say(line: &str) -> std::io::Result<()> {
    let mut output = stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

const KEY: &str = "contended";

/// Returns nanoseconds of the clock that all processes share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let time = Duration::try_from(time).expect("the time is not negative");
    u64::try_from(time.as_nanos()).expect("the time fits into 64 bits")
}
