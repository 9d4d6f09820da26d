//! Checks of Redis and Valkey servers before they are trusted with locks.
//!
//! The command `redlock doctor` prints these checks. A service can make them when it starts, with either adapter:
//!
//! ```no_run
//! use std::time::Duration;
//! use redlock_doctor::{PreflightSettings, preflight};
//! use redlock_redis_rs::{IntoConnector, Options};
//!
//! # async fn example() -> Result<(), redlock_redis_rs::Error> {
//! let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
//! let options = Options::tokio();
//! let connectors = nodes.map(|url| url.into_connector(&options));
//! let settings = PreflightSettings::new(Duration::from_secs(30));
//! for finding in preflight(connectors, &options, settings).await?.findings() {
//!     eprintln!("{finding}");
//! }
//! # Ok(()) }
//! ```
//!
//! Each finding states its consequence and what to do.

#![cfg_attr(docsrs, feature(doc_cfg))]

// The state of each server is read over a separate connection. `judge` then turns the facts into findings, without I/O.
mod facts;
mod judge;
mod sentinels;

use std::fmt;
use std::time::Duration;

use futures_util::future::{join, join_all};
use redlock_core::{ClockRate, Error};
use redlock_wire::{Connector, Masters, Options, Session, valid_connectors};

use self::facts::{Facts, LIMIT, OBSERVATIONS, Shards, State, ask_sentinels, gather, within};

/// The expectations that the servers are checked against.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PreflightSettings {
    /// The longest TTL of the locks.
    pub ttl: Duration,
    /// `true` if the locks are fenced. Then the rights for fenced locks are checked.
    pub fenced: bool,
    /// `true` to check the rights for read locks.
    pub readers: bool,
    /// The least time for which the rate of the servers' clocks is observed. Zero skips it.
    pub observe: Duration,
    /// The clock drift factor of the programs.
    pub clock_drift_factor: f64,
}

impl PreflightSettings {
    /// Creates settings for plain locks with this TTL.
    ///
    /// The clocks are [observed](Self::observe) for at least one second.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_doctor::PreflightSettings;
    /// let settings = PreflightSettings::new(Duration::from_secs(30));
    /// assert_eq!(Duration::from_secs(1), settings.observe);
    /// assert!(!settings.fenced && !settings.readers);
    /// ```
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, fenced: false, readers: false, observe: Duration::from_secs(1), clock_drift_factor: 0.01 }
    }

    /// Sets whether the locks are fenced. The default is `false`.
    ///
    /// If they are, the user's rights for fenced locks are checked, too, and clocks of servers that differ are a
    /// warning instead of a note.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_doctor::PreflightSettings;
    /// # let ttl = Duration::from_secs(30);
    /// let settings = PreflightSettings::new(ttl).fenced(true);
    /// assert!(settings.fenced);
    /// ```
    #[must_use]
    pub fn fenced(mut self, fenced: bool) -> Self {
        self.fenced = fenced;
        self
    }

    /// Checks the user's rights for read locks, too.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_doctor::PreflightSettings;
    /// # let ttl = Duration::from_secs(30);
    /// let settings = PreflightSettings::new(ttl).readers(true);
    /// assert!(settings.readers);
    /// ```
    #[must_use]
    pub fn readers(mut self, readers: bool) -> Self {
        self.readers = readers;
        self
    }

    /// Sets how long the rate of the clocks is observed at least. The default is 1 s; zero skips the observation.
    ///
    /// The rate is that of the server's clock relative to the clock of this machine. Its error is half of the round
    /// trips of the first and the last reading, divided by the time between them. With round trips of 1 ms and an
    /// observation of 1 s, the error is 0.1 %. If it exceeds 0.2 %, the observation is repeated, up to ten times in all.
    /// A finding about the rate states the error and is beyond it. If the error still exceeds half of the [clock drift
    /// factor](Self::clock_drift_factor) (0.5 % by default) and nothing is certain, a note states that the rate could
    /// not be measured.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_doctor::PreflightSettings;
    /// # let ttl = Duration::from_secs(30);
    /// // A quick check at the start of a service, without the rates of the clocks.
    /// let settings = PreflightSettings::new(ttl).observe(Duration::ZERO);
    /// assert_eq!(Duration::ZERO, settings.observe);
    /// ```
    #[must_use]
    pub fn observe(mut self, observe: Duration) -> Self {
        self.observe = observe;
        self
    }

    /// Sets the [clock drift factor](redlock_core::Builder::clock_drift_factor) of the programs. The default is 0.01.
    ///
    /// A clock that [certainly runs faster](ClockRate::exceeds) than it permits is an error. With a
    /// [longest TTL](Options::longest_ttl), a clock that certainly runs fast by more than 0.25 % is a warning instead,
    /// because the votes of its server do not count.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use redlock_doctor::PreflightSettings;
    /// # let ttl = Duration::from_secs(30);
    /// let settings = PreflightSettings::new(ttl).clock_drift_factor(0.1);
    /// assert_eq!(0.1, settings.clock_drift_factor);
    /// ```
    #[must_use]
    pub fn clock_drift_factor(mut self, factor: f64) -> Self {
        self.clock_drift_factor = factor;
        self
    }
}

/// The result of a preflight check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preflight {
    is_available: bool,
    reachable: usize,
    findings: Vec<Finding>,
    clock_rates: Vec<(String, ClockRate)>,
}

impl Preflight {
    /// Returns the findings, the worst first.
    ///
    /// ```
    /// # use redlock_doctor::Preflight;
    /// fn log(preflight: &Preflight) {
    ///     for finding in preflight.findings() {
    ///         eprintln!("{finding}");
    ///     }
    /// }
    /// ```
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns whether enough servers for a lock could be reached.
    ///
    /// Addresses of the same server count once.
    ///
    /// During a [change of the servers](preflight_of_change), both lists need enough of them.
    ///
    /// ```
    /// # use redlock_doctor::Preflight;
    /// /// Stops the start of a service that could not lock anything.
    /// fn require_servers(preflight: &Preflight) -> Result<(), String> {
    ///     let reachable = preflight.reachable_nodes();
    ///     let reason = || format!("only {reachable} lock servers are reachable");
    ///     preflight.is_available().then_some(()).ok_or_else(reason)
    /// }
    /// ```
    pub fn is_available(&self) -> bool {
        self.is_available
    }

    /// Returns how many servers could be reached.
    ///
    /// ```
    /// # use redlock_doctor::Preflight;
    /// fn is_complete(preflight: &Preflight, urls: &[&str]) -> bool {
    ///     preflight.reachable_nodes() == urls.len()
    /// }
    /// ```
    pub fn reachable_nodes(&self) -> usize {
        self.reachable
    }

    /// Returns the measured rates of the servers' clocks, with the labels of the servers.
    ///
    /// It is empty if the clocks were not [observed](PreflightSettings::observe).
    ///
    /// ```
    /// # use redlock_doctor::Preflight;
    /// fn log(preflight: &Preflight) {
    ///     for (label, rate) in preflight.clock_rates() {
    ///         println!("{label}: {rate}");
    ///     }
    /// }
    /// ```
    pub fn clock_rates(&self) -> impl Iterator<Item = (&str, ClockRate)> {
        self.clock_rates.iter().map(|(label, rate)| (label.as_str(), *rate))
    }

    /// Returns the severity of the worst finding, if there is one.
    ///
    /// ```
    /// # use redlock_doctor::{Preflight, Severity};
    /// /// Warnings alone do not stop a deployment.
    /// fn may_deploy(preflight: &Preflight) -> bool {
    ///     preflight.worst() < Some(Severity::Error)
    /// }
    /// ```
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(Finding::severity).max()
    }
}

/// The severity of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Useful information; no action is required.
    Note,
    /// A guarantee depends on a condition that may not hold.
    Warning,
    /// Locks fail, or do not exclude other clients.
    Error,
}

/// A problem that a preflight check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    severity: Severity,
    nodes: Vec<String>,
    problem: String,
    consequence: String,
    fix: String,
}

impl Finding {
    /// Returns the severity.
    ///
    /// ```
    /// # use redlock_doctor::{Finding, Severity};
    /// fn log(finding: &Finding) {
    ///     match finding.severity() {
    ///         Severity::Error => eprintln!("ERROR {finding}"),
    ///         Severity::Warning => eprintln!("WARN {finding}"),
    ///         _ => eprintln!("NOTE {finding}"),
    ///     }
    /// }
    /// ```
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Returns the labels of the servers.
    ///
    /// Empty if the finding is about all of them together.
    ///
    /// ```
    /// # use redlock_doctor::Finding;
    /// fn is_about(finding: &Finding, label: &str) -> bool {
    ///     let nodes = finding.nodes();
    ///     nodes.is_empty() || nodes.iter().any(|node| node == label)
    /// }
    /// ```
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// Returns what was found.
    ///
    /// ```
    /// # use redlock_doctor::Finding;
    /// fn summary(findings: &[Finding]) -> String {
    ///     let problems: Vec<_> = findings.iter().map(Finding::problem).collect();
    ///     problems.join("; ")
    /// }
    /// ```
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// Returns what follows from it.
    ///
    /// ```
    /// # use redlock_doctor::Finding;
    /// fn alert(finding: &Finding) -> String {
    ///     format!("{} ({})", finding.consequence(), finding.problem())
    /// }
    /// ```
    pub fn consequence(&self) -> &str {
        &self.consequence
    }

    /// Returns what to do about it.
    ///
    /// ```
    /// # use redlock_doctor::Finding;
    /// fn runbook(findings: &[Finding]) -> Vec<String> {
    ///     findings.iter().map(|finding| format!("- [ ] {}", finding.fix())).collect()
    /// }
    /// ```
    pub fn fix(&self) -> &str {
        &self.fix
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Formats as one line: `warning: 10.0.0.1:6379: <problem>; <consequence>; <fix>`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, nodes, problem, consequence, fix } = self;
        write!(f, "{severity}: ")?;
        if !nodes.is_empty() {
            write!(f, "{}: ", nodes.join(", "))?;
        }
        write!(f, "{problem}; {consequence}; {fix}")
    }
}

/// Checks servers: configuration, clocks, rights and latency.
///
/// Opens a connection to each server, at the same time. Takes about as long as the clocks are
/// [observed](PreflightSettings::observe), or up to ten times as long if replies are slow. A server that does not reply
/// costs up to the [connect timeout](Options::connect_timeout), and up to 20 s more if it stops replying later. Server
/// errors become findings.
///
/// # Cancel safety
///
/// If this future is dropped, the check ends and its connections are closed. It writes nothing on the servers.
///
/// # Errors
///
/// - Same as [`redlock_wire::builder`]. Unreachable servers are findings, not errors.
pub async fn preflight<C: Connector>(
    connectors: impl IntoIterator<Item = Result<C, Error>>,
    options: &Options,
    settings: PreflightSettings,
) -> Result<Preflight, Error> {
    let connectors = valid_connectors(connectors)?;
    let lists = [List { name: "servers", members: (0..connectors.len()).collect() }];
    check(&connectors, &lists, options, settings).await
}

/// Checks servers while they are [changed](redlock_core::Builder::previous_nodes).
///
/// Same as [`preflight`], except that each list needs a quorum of reachable servers. A server that is in both lists is
/// checked once.
///
/// ```no_run
/// # use std::time::Duration;
/// # use redlock_doctor::{PreflightSettings, preflight_of_change};
/// # use redlock_redis_rs::{IntoConnector, Options};
/// # async fn example() -> Result<(), redlock_redis_rs::Error> {
/// let (old, new) = (["redis://10.0.0.1"], ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]);
/// let options = Options::tokio();
/// let connector = |url: &str| url.into_connector(&options);
/// let settings = PreflightSettings::new(Duration::from_secs(30));
/// let found = preflight_of_change(new.map(connector), old.map(connector), &options, settings).await?;
/// assert!(found.is_available());
/// # Ok(()) }
/// ```
///
/// # Cancel safety
///
/// Same as [`preflight`].
///
/// # Errors
///
/// - Same as [`preflight`], for each list.
pub async fn preflight_of_change<C: Connector>(
    connectors: impl IntoIterator<Item = Result<C, Error>>,
    previous: impl IntoIterator<Item = Result<C, Error>>,
    options: &Options,
    settings: PreflightSettings,
) -> Result<Preflight, Error> {
    let mut connectors = valid_connectors(connectors)?;
    let current = (0..connectors.len()).collect();
    let mut members = Vec::new();
    for connector in valid_connectors(previous)? {
        let known = connectors.iter().position(|other| other.label() == connector.label());
        members.push(known.unwrap_or(connectors.len()));
        if known.is_none() {
            connectors.push(connector);
        }
    }
    let lists = [List { name: "servers", members: current }, List { name: "previous servers", members }];
    check(&connectors, &lists, options, settings).await
}

/// The servers of one list, as positions among all servers.
struct List {
    /// The word for the servers in messages.
    name: &'static str,
    members: Vec<usize>,
}

async fn check<C: Connector>(
    connectors: &[C],
    lists: &[List],
    options: &Options,
    settings: PreflightSettings,
) -> Result<Preflight, Error> {
    let facts = join_all(connectors.iter().map(|connector| ask(connector, options, settings))).await;
    let reachable = facts.iter().filter(|facts| facts.state.is_ok()).count();
    let clock_rate = |facts: &Facts| Some((facts.label.clone(), facts.state.as_ref().ok()?.rate?));
    let clock_rates = facts.iter().flat_map(Facts::servers).filter_map(clock_rate).collect();
    let (is_available, findings) = judge::judge(&facts, lists, settings, options.has_longest_ttl());
    Ok(Preflight { is_available, reachable, findings, clock_rates })
}

async fn ask<C: Connector>(connector: &C, options: &Options, settings: PreflightSettings) -> Facts {
    let Some(cluster) = connector.cluster() else {
        return ask_server(connector, options, settings).await;
    };
    let (shards, state) = match Masters::find(cluster, options).await {
        Ok(Masters { connectors, unserved }) => {
            let masters = connectors.iter().map(|master| ask_server(master, options, settings));
            (Shards { masters: join_all(masters).await, unserved }, Ok(State::default()))
        }
        Err(reason) => (Shards::default(), Err(reason)),
    };
    Facts { label: connector.label().to_owned(), watched: None, shards: Some(shards), state }
}

async fn ask_server<C: Connector>(connector: &C, options: &Options, settings: PreflightSettings) -> Facts {
    let runtime = options.runtime();
    let queries = async {
        let session = Session::open(connector, options).await?;
        let limit = settings.observe.saturating_mul(OBSERVATIONS).saturating_add(LIMIT);
        within(&*runtime, limit, gather(&session, &*runtime, settings)).await
    };
    let watched = async {
        match connector.sentinels() {
            Some(sentinels) => Some(ask_sentinels(sentinels, options).await),
            None => None,
        }
    };
    let (state, watched) = join(queries, watched).await;
    Facts { label: connector.label().to_owned(), watched, shards: None, state }
}

/// Compiles the examples of the README with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
