//! The facts about one server.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use redlock_core::ClockRate;
use redlock_core::runtime::Runtime;
use redlock_wire::{Connection, Connector, Options, Reply, Sentinels, Session};

use crate::PreflightSettings;
use crate::sentinels::{Sight, Watched};

/// The time limit of all queries to one server, apart from connecting and the observation of its clock.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

/// The number of pings that are timed.
const PINGS: usize = 5;

/// The number of readings of a clock at one moment. The one with the fastest reply counts.
const READINGS: usize = 5;

/// The error of a measured rate, in parts per million, with which the observation of a clock ends.
const PRECISE: u64 = 2_000;

/// The number of times that a clock is observed if the measurement is less precise.
pub(super) const OBSERVATIONS: u32 = 10;

/// The known facts about one server.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) label: String,
    /// The sentinels that choose the server, if there are any. Then it has replicas, and a promotion is a quarantine.
    pub(super) watched: Option<Watched>,
    /// The shards, if it is a cluster. The state is then empty, or the reason why they are not known.
    pub(super) shards: Option<Shards>,
    /// The error is the reason why it could not be queried.
    pub(super) state: Result<State, String>,
}

/// The shards of a cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Shards {
    pub(super) masters: Vec<Facts>,
    /// The number of slots without a master and the reason for the first one, if there are such slots.
    pub(super) unserved: Option<String>,
}

impl Facts {
    /// Returns whether a failover is a quarantine of the node, which has replicas.
    pub(super) fn can_fail_over(&self) -> bool {
        self.watched.is_some() || self.shards.is_some()
    }

    /// Returns the identity of the server, if it is known.
    pub(super) fn run_id(&self) -> Option<&str> {
        self.state.as_ref().ok()?.text("run_id")
    }

    /// Returns the facts about each server: the masters of a cluster, or the server itself.
    pub(super) fn servers(&self) -> &[Self] {
        self.shards.as_ref().map_or(std::slice::from_ref(self), |shards| &shards.masters)
    }
}

/// The state of a server that replied.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// The fields of `INFO`. Empty if it may not be run.
    pub(super) info: HashMap<String, String>,
    /// `appendfsync`, if it may be read.
    pub(super) fsync: Option<String>,
    /// True if `no-appendfsync-on-rewrite` is `yes`. False if the setting could not be read.
    pub(super) no_fsync_on_rewrite: bool,
    /// `min-replicas-to-write`, if it may be read.
    pub(super) min_replicas: Option<u64>,
    /// The rights that the user lacks, if the server reports them.
    pub(super) denied: Option<Vec<&'static str>>,
    /// The slowest of a few pings.
    pub(super) latency: Duration,
    /// The server's clock minus this machine's, in seconds, and the uncertainty of this difference.
    pub(super) clock: Option<(f64, f64)>,
    /// The rate of the server's clock; `None` if it was not observed.
    pub(super) rate: Option<ClockRate>,
}

impl State {
    /// Returns a field of `INFO` as text.
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.info.get(field).map(String::as_str)
    }

    /// Returns whether the server is a Sentinel.
    pub(super) fn is_sentinel(&self) -> bool {
        ["redis_mode", "server_mode"].iter().any(|field| self.text(field) == Some("sentinel"))
    }

    /// Returns a field of `INFO` as a number.
    pub(super) fn number(&self, field: &str) -> Option<u64> {
        self.text(field)?.parse().ok()
    }
}

/// The right to run a command: its human-readable name, and the words of a dry run.
type Right = (&'static str, &'static [&'static str]);

/// The key of the dry runs, its places, the gate of its readers, and its fencing counter. The prefix of the options
/// precedes them, except the counter, whose prefix is another option.
const KEY: &str = "redlock-preflight";
const WAITING: &str = "redlock-preflight#waiting";
const GATE: &str = "redlock-preflight:writer";
const COUNTER: &str = "redlock-preflight counter";

/// The rights that locks need.
pub(super) const NEEDED: &[Right] = &[
    ("SET", &["set", KEY, "1"]),
    ("GET", &["get", KEY]),
    ("DEL", &["del", KEY]),
    ("PTTL", &["pttl", KEY]),
    ("PEXPIRE", &["pexpire", KEY, "1"]),
    ("EVALSHA", &["evalsha", "0", "1", KEY]),
    ("EVAL", &["eval", "return 1", "1", KEY]),
];

/// The rights that read locks need in addition. Writers lock the gate, and readers check it.
pub(super) const READERS: &[Right] = &[
    ("TIME", &["time"]),
    ("TYPE", &["type", KEY]),
    ("ZADD", &["zadd", KEY, "1", "x"]),
    ("ZSCORE", &["zscore", KEY, "x"]),
    ("ZREM", &["zrem", KEY, "x"]),
    ("ZREMRANGEBYSCORE", &["zremrangebyscore", KEY, "0", "0"]),
    ("ZREVRANGE", &["zrevrange", KEY, "0", "0"]),
    ("PEXPIREAT", &["pexpireat", KEY, "1"]),
    ("SET NAME:writer", &["set", GATE, "1"]),
];

/// The rights that fenced locks need in addition.
pub(super) const FENCED: &[Right] = &[
    ("TIME", &["time"]),
    ("GET COUNTER", &["get", COUNTER]),
    ("SET COUNTER", &["set", COUNTER, "1"]),
    ("PEXPIRE COUNTER", &["pexpire", COUNTER, "1"]),
];

/// The right to notice jumps of the clock, with a longest TTL.
pub(super) const CLOCK: &[Right] = &[("TIME", &["time"])];

/// The rights to the places of waiting requests.
pub(super) const ORDER: &[Right] = &[
    ("ZADD NAME#waiting", &["zadd", WAITING, "1", "x"]),
    ("ZREM NAME#waiting", &["zrem", WAITING, "x"]),
    ("ZREVRANGE NAME#waiting", &["zrevrange", WAITING, "0", "0"]),
];

/// The rights to count the places.
pub(super) const COUNTS: &[Right] =
    &[("ZCARD NAME#waiting", &["zcard", WAITING]), ("ZREVRANK NAME#waiting", &["zrevrank", WAITING, "x"])];

/// The rights without which something is slower.
pub(super) const USEFUL: &[Right] = &[
    ("CLIENT TRACKING", &["client", "tracking", "on"]),
    ("SCRIPT LOAD", &["script", "load", "return 1"]),
    ("INFO", &["info"]),
    ("PING", &["ping"]),
];

/// Queries a server.
pub(super) async fn gather<C: Connection>(
    session: &Session<C>,
    runtime: &dyn Runtime,
    settings: PreflightSettings,
) -> Result<State, String> {
    let info = match session.call_if_permitted("INFO", &[]).await? {
        Reply::Bytes(text) => fields(&String::from_utf8_lossy(&text)),
        _ => HashMap::new(),
    };
    let fsync = config(session, b"appendfsync").await;
    let no_fsync_on_rewrite = config(session, b"no-appendfsync-on-rewrite").await.as_deref() == Some("yes");
    let min_replicas = config(session, b"min-replicas-to-write").await.and_then(|count| count.parse().ok());
    let mut latency = Duration::ZERO;
    for _ in 0..PINGS {
        let start = runtime.now();
        // A denial takes as long.
        session.call_if_permitted("PING", &[]).await?;
        latency = latency.max(runtime.now().saturating_duration_since(start));
    }
    let readers = if settings.readers { READERS } else { &[] };
    let fenced = if settings.fenced { FENCED } else { &[] };
    let denied = denied(session, [NEEDED, readers, fenced, CLOCK, ORDER, COUNTS, USEFUL].concat()).await;
    let first = reading(session, runtime).await;
    let mut rate = None;
    if let Some(first) = first.filter(|_| !settings.observe.is_zero()) {
        rate = observe(first, session, runtime, settings.observe).await;
    }
    Ok(State {
        info,
        fsync,
        no_fsync_on_rewrite,
        min_replicas,
        denied,
        latency,
        clock: first.map(|reading| reading.offset()),
        rate,
    })
}

/// Reads a setting, if that is permitted.
async fn config<C: Connection>(session: &Session<C>, name: &[u8]) -> Option<String> {
    match session.call("CONFIG", &[b"GET", name]).await {
        Ok(Reply::Array(pair)) => pair.last().and_then(text),
        _ => None,
    }
}

/// Asks each sentinel for the master.
pub(super) async fn ask_sentinels<C: Connector>(sentinels: &Sentinels<C>, options: &Options) -> Watched {
    let service = sentinels.service();
    let sights = sentinels.members().iter().map(async |sentinel| {
        let queries = async {
            let session = Session::to_sentinel(sentinel, options).await?;
            Sight::read(&session.call("SENTINEL", &[b"MASTER", service.as_bytes()]).await?)
        };
        (sentinel.label().to_owned(), within(&*options.runtime(), LIMIT, queries).await)
    });
    Watched { service: service.to_owned(), sights: join_all(sights).await }
}

/// Returns the result of queries, or an error after the limit.
pub(super) async fn within<T>(
    runtime: &dyn Runtime,
    limit: Duration,
    queries: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    match select(pin!(queries), runtime.sleep(limit)).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => Err(format!("no reply for {limit:.1?}")),
    }
}

/// Measures the rate of the server's clock since the first reading, until the result is precise.
async fn observe<C: Connection>(
    first: Reading,
    session: &Session<C>,
    runtime: &dyn Runtime,
    interval: Duration,
) -> Option<ClockRate> {
    let mut readings = vec![first];
    // Bounded by time: a distant server takes as long for its readings.
    let end = runtime.now() + interval.saturating_mul(OBSERVATIONS);
    while runtime.now() < end {
        runtime.sleep(interval).await;
        readings.extend(reading(session, runtime).await);
        if fastest_replies(&readings).is_some_and(|rate| rate.error_ppm <= PRECISE) {
            break;
        }
    }
    fastest_replies(&readings)
}

/// Returns the rights that the user lacks; `None` if the server does not report them.
async fn denied<C: Connection>(session: &Session<C>, rights: Vec<Right>) -> Option<Vec<&'static str>> {
    let user = text(&session.call("ACL", &[b"WHOAMI"]).await.ok()?)?;
    let (key, waiting, gate) = (session.key(KEY), session.key(WAITING), session.key(GATE));
    let counter = session.counter_key(KEY);
    let mut denied = Vec::new();
    for (name, command) in rights {
        let words = command.iter().map(|word| match *word {
            KEY => &key[..],
            WAITING => &waiting[..],
            GATE => &gate[..],
            COUNTER => &counter[..],
            word => word.as_bytes(),
        });
        let words: Vec<_> = [&b"DRYRUN"[..], user.as_bytes()].into_iter().chain(words).collect();
        match session.call("ACL", &words).await.ok()? {
            Reply::Bytes(ok) if ok == b"OK" => {}
            _ => denied.push(name),
        }
    }
    Some(denied)
}

/// A reading of the server's clock between two readings of this machine's.
#[derive(Clone, Copy)]
struct Reading {
    server: f64,
    local: f64,
    /// The middle of the request, on the clock of the runtime.
    at: f64,
    /// Half of the round trip. The server read its clock at most this long before or after the middle.
    uncertain: f64,
}

/// Reads the server's clock several times. Returns the reading with the fastest reply.
async fn reading<C: Connection>(session: &Session<C>, runtime: &dyn Runtime) -> Option<Reading> {
    let mut best: Option<Reading> = None;
    for _ in 0..READINGS {
        let next = time(session, runtime).await?;
        if best.is_none_or(|best| next.uncertain < best.uncertain) {
            best = Some(next);
        }
    }
    best
}

async fn time<C: Connection>(session: &Session<C>, runtime: &dyn Runtime) -> Option<Reading> {
    let start = runtime.now();
    let reply = session.call("TIME", &[]).await.ok()?;
    let end = runtime.now();
    let local = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64();
    let Reply::Array(parts) = reply else { return None };
    let number = |part: Option<&Reply>| text(part?)?.parse::<f64>().ok();
    let server = number(parts.first())? + number(parts.get(1))? / 1e6;
    let half = end.saturating_duration_since(start).as_secs_f64() / 2.0;
    let at = start.elapsed_since_origin().as_secs_f64() + half;
    Some(Reading { server, local: local - half, at, uncertain: half })
}

impl Reading {
    fn offset(&self) -> (f64, f64) {
        (self.server - self.local, self.uncertain)
    }

    fn rate(&self, later: &Self) -> Option<ClockRate> {
        let passed = later.at - self.at;
        let excess = (later.server - self.server) / passed - 1.0;
        let error = (self.uncertain + later.uncertain) / passed;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // out of range, the bound is right
        let rate = |over| ClockRate::new((excess * 1e6).round() as i64, (error * 1e6).ceil() as u64, over);
        (passed > 0.0).then(|| rate(Duration::from_secs_f64(passed)))
    }
}

/// Returns the most precise of the rates between two readings: that of fast replies far apart.
fn fastest_replies(readings: &[Reading]) -> Option<ClockRate> {
    let pairs = readings
        .iter()
        .enumerate()
        .flat_map(|(position, first)| readings[position + 1..].iter().filter_map(|later| first.rate(later)));
    pairs.min_by_key(|rate| rate.error_ppm)
}

pub(super) fn text(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Reply::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

fn fields(info: &str) -> HashMap<String, String> {
    let pairs = info.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading after `at` seconds of a clock that is 2 % fast, in a round trip of `trip` seconds.
    ///
    /// The server read its clock at the end of the round trip, which is the greatest error.
    fn reading(at: f64, trip: f64) -> Reading {
        Reading { server: 1.02 * (at + trip / 2.0), local: 0.0, at, uncertain: trip / 2.0 }
    }

    #[test]
    #[allow(clippy::cast_precision_loss)] // small numbers
    fn the_rate_is_within_the_stated_error() {
        for (first, later) in [(0.0, 0.01), (0.01, 0.0), (0.3, 0.3), (0.0, 0.0)] {
            let rate = reading(0.0, first).rate(&reading(1.0, later)).unwrap();
            let (ppm, error) = (rate.ppm as f64, rate.error_ppm as f64);
            assert!((error - 1e6 * f64::midpoint(first, later)).abs() <= 1.0, "{rate:?}");
            // The error counts by the server's clock, too.
            assert!((ppm - 20_000.0).abs() <= 1.02 * error + 1.0, "{rate:?}");
        }
        assert_eq!(None, reading(1.0, 0.1).rate(&reading(1.0, 0.1)), "no time has passed");
    }

    #[test]
    fn fast_replies_far_apart_count() {
        let readings = [reading(0.0, 0.01), reading(0.5, 0.001), reading(1.0, 0.4), reading(5.0, 0.02)];
        let rate = fastest_replies(&readings).unwrap();
        assert_eq!(2_334, rate.error_ppm, "10.5 ms of 4.5 s");
        assert_eq!(None, fastest_replies(&readings[..1]));
    }
}
