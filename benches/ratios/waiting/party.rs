//! A process that locks.
//!
//! It is told what to do by its arguments and lines of its input, and says when it held by lines of its output, in
//! nanoseconds of the machine's monotonic clock, which is one for all processes.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Lines, Write, stdin, stdout};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;

use crate::contender::Contender;
use crate::contender::ours::Ours;
use crate::contender::rslock::Rslock;

/// With what a party locks, and how it waits.
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

/// When something was held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hold {
    pub(crate) since: u64,
    pub(crate) until: u64,
}

/// The process, as seen from outside. Dropped, it is killed.
pub(crate) struct Party {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Party {
    /// Starts one with `tasks` that all want one lock, and waits until it is connected.
    pub(crate) fn start(way: Way, urls: &[String], tasks: usize, hold: Duration) -> Self {
        let program = std::env::current_exe().expect("this program is a file");
        let mut child = Command::new(program)
            .args(["party", way.name(), &urls.join(","), &tasks.to_string(), &hold.as_micros().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts as it has started before");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut party = Self { input: child.stdin.take(), child, lines };
        assert_eq!("ready", party.says());
        party
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("it still listens"), "{line}").expect("it reads");
    }

    pub(crate) fn says(&mut self) -> String {
        self.lines.next().expect("it has more to say").expect("it writes text")
    }

    /// What it says of a hold.
    pub(crate) fn moment(&mut self) -> u64 {
        self.says().parse().expect("it says when")
    }

    /// What each task held, after it was told for how long to go on.
    pub(crate) fn holds(mut self) -> Vec<Hold> {
        let mut holds = Vec::new();
        for line in self.lines.by_ref() {
            let line = line.expect("it writes text");
            let (since, until) = line.split_once(' ').expect("two moments");
            let moment = |text: &str| text.parse().expect("it says when");
            holds.push(Hold { since: moment(since), until: moment(until) });
        }
        holds
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        // Both fail only where there is no such process any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the process does: `party WAY URLS TASKS MICROSECONDS`.
pub(crate) fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    let [way, urls, tasks, hold] = args else { return Err("a party needs four arguments".into()) };
    let way = Way::ALL.into_iter().find(|known| known.name() == way).ok_or("no such way")?;
    let urls: Vec<String> = urls.split(',').map(str::to_owned).collect();
    let (tasks, hold) = (tasks.parse()?, Duration::from_micros(hold.parse()?));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match way {
            Way::RedisRs => takes_part(Ours::redis_rs(&urls), tasks, hold).await,
            Way::RedisRsPolling => takes_part(Ours::redis_rs_polling(&urls), tasks, hold).await,
            Way::Fred => takes_part(Ours::fred(&urls), tasks, hold).await,
            Way::FredPolling => takes_part(Ours::fred_polling(&urls), tasks, hold).await,
            Way::Rslock => takes_part(Rslock::persistent(&urls), tasks, hold).await,
        }
    })
}

async fn takes_part<C: Contender>(contender: C, tasks: usize, hold: Duration) -> Result<(), Box<dyn Error>> {
    // Connected by then.
    let warm = format!("warm-{}", std::process::id());
    for _ in 0..20 {
        contender.release(contender.acquire(&warm).await).await;
    }
    say("ready")?;
    let mut line = String::new();
    while stdin().read_line(&mut line)? > 0 {
        match line.trim().split_once(' ') {
            None => one_hold(&contender, hold).await?,
            Some((_, millis)) => {
                let until = Instant::now() + Duration::from_millis(millis.parse()?);
                let holds = (0..tasks).map(|_| tokio::spawn(many_holds(contender.clone(), hold, until)));
                let mut text = String::new();
                for holds in join_all(holds).await {
                    for Hold { since, until } in holds? {
                        writeln!(text, "{since} {until}")?;
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

/// Says when it has it and when it begins to release it.
async fn one_hold<C: Contender>(contender: &C, lasts: Duration) -> Result<(), Box<dyn Error>> {
    let held = contender.acquire(KEY).await;
    say(&now().to_string())?;
    keep(lasts).await;
    let until = now();
    contender.release(held).await;
    say(&until.to_string())?;
    Ok(())
}

async fn many_holds<C: Contender>(contender: C, lasts: Duration, end: Instant) -> Vec<Hold> {
    let mut holds = Vec::new();
    while Instant::now() < end {
        let held = contender.acquire(KEY).await;
        let since = now();
        keep(lasts).await;
        holds.push(Hold { since, until: now() });
        contender.release(held).await;
    }
    holds
}

/// To the tenth of a millisecond, which the runtime's timers are not.
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

/// Nanoseconds of the clock that all processes share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let time = Duration::try_from(time).expect("it is never negative");
    u64::try_from(time.as_nanos()).expect("centuries")
}
