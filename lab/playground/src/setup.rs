//! A custom experiment: nodes, clients, times and incidents. All times are milliseconds.

use std::ops::RangeInclusive;
use std::time::Duration;

use redlock_simulation::experiment::{Experiment, NODE_TIMEOUT, RETRY_DELAY, Script};
use redlock_simulation::plan::{self, Faults, Plan};
use redlock_simulation::server::Persistence;
use serde::{Deserialize, Serialize};

/// A description of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The number of nodes.
    pub nodes: usize,
    /// The TTL of every lock.
    pub ttl: u64,
    /// The shortest delay of a message.
    pub least_delay: u64,
    /// The longest delay of a message.
    pub most_delay: u64,
    /// The maximum drift of each clock, in parts per million.
    pub drift: u32,
    /// The clock difference that clients allow for, in parts per million of the TTL.
    pub allowed_drift: u32,
    /// The seed of all random choices.
    pub seed: u64,
    /// The time after which all incidents end and the clients complete.
    pub lasts: u64,
    /// If `true`, nodes notify waiters of changes.
    pub notifies: bool,
    /// If `true`, nodes that may have lost locks do not count until those have expired.
    pub restart_admission: bool,
    /// The clients.
    pub clients: Vec<Client>,
    /// The incidents.
    pub incidents: Vec<Incident>,
}

/// The program of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// The time of the first request.
    pub starts: u64,
    /// The time for which it works under the lock.
    pub works: u64,
    /// The longest time that it waits for the lock; `None` for a single attempt.
    pub waits: Option<u64>,
    /// The time until its next request; `None` for a single request.
    pub rests: Option<u64>,
    /// If `true`, the lock is renewed.
    pub renews: bool,
    /// If `true`, the lock has a fencing token, and the resource checks it.
    pub fenced: bool,
    /// If `true`, it checks its lease right before each action.
    pub checks: bool,
}

/// An incident at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// The time of its beginning.
    pub at: u64,
    /// The kind.
    pub kind: Kind,
    /// The node, for kinds that have one.
    pub node: Option<usize>,
    /// The client, for kinds that have one.
    pub client: Option<usize>,
    /// The duration, or the step of a clock.
    pub ms: i64,
}

/// The kind of an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A node receives requests, and carries them out when it resumes.
    Hang,
    /// A node is down, and keeps its data.
    Crash,
    /// A node is down, and restarts without its data.
    CrashEmpty,
    /// All messages between a client and a node are lost.
    Partition,
    /// A client's program is stopped.
    Pause,
    /// A client's program is killed and restarted.
    Kill,
    /// A node's clock is set.
    Step,
}

/// The bounds of all numbers of a setup. They bound the work of a run.
pub const NODES: RangeInclusive<usize> = 1..=9;
/// The bounds of the number of clients.
pub const CLIENTS: RangeInclusive<usize> = 1..=6;
/// The maximum number of incidents.
pub const INCIDENTS: RangeInclusive<usize> = 0..=40;
/// The bounds of the TTL.
pub const TTL: RangeInclusive<u64> = 100..=10_000;
/// The bounds of delays.
pub const DELAY: RangeInclusive<u64> = 0..=1_000;
/// The bounds of the drift of clocks.
pub const DRIFT: RangeInclusive<u32> = 0..=500_000;
/// The bounds of the duration of an experiment, and thus of all times in it.
pub const LASTS: RangeInclusive<u64> = 1_000..=30_000;
/// The bounds of the time between two requests of a client.
pub const RESTS: RangeInclusive<u64> = 50..=30_000;
/// The bounds of a wait for the lock.
pub const WAITS: RangeInclusive<u64> = 1..=10_000;
/// The bounds of a clock step.
pub const STEP: RangeInclusive<i64> = -60_000..=60_000;

impl Default for Setup {
    /// Two clients that contend for a lock on five nodes.
    fn default() -> Self {
        Self {
            nodes: 5,
            ttl: 3_000,
            least_delay: 1,
            most_delay: 5,
            drift: 0,
            allowed_drift: 10_000,
            seed: 1,
            lasts: 8_000,
            notifies: true,
            restart_admission: false,
            clients: vec![Client::at(500).works(1_500), Client::at(1_000).works(1_500).waits(6_000)],
            incidents: Vec::new(),
        }
    }
}

impl Client {
    /// Creates a client that requests the lock once at this time, and checks its lease.
    pub fn at(starts: u64) -> Self {
        Self { starts, checks: true, ..Self::default() }
    }

    /// Sets the time for which it works.
    #[must_use]
    pub fn works(self, works: u64) -> Self {
        Self { works, ..self }
    }

    /// Sets the time for which it waits.
    #[must_use]
    pub fn waits(self, waits: u64) -> Self {
        Self { waits: Some(waits), ..self }
    }

    /// Makes it request the lock again.
    #[must_use]
    pub fn rests(self, rests: u64) -> Self {
        Self { rests: Some(rests), ..self }
    }

    /// Makes it renew the lock.
    #[must_use]
    pub fn renews(self) -> Self {
        Self { renews: true, ..self }
    }

    /// Makes it use fencing tokens.
    #[must_use]
    pub fn fenced(self) -> Self {
        Self { fenced: true, ..self }
    }

    /// Makes it act without a check of its lease.
    #[must_use]
    pub fn careless(self) -> Self {
        Self { checks: false, ..self }
    }

    fn script(&self, ttl: u64) -> Script {
        Script {
            starts: millis(self.starts),
            ttl: millis(ttl),
            waits: self.waits.map(millis),
            works: millis(self.works),
            rests: self.rests.map(millis),
            renews: self.renews,
            fenced: self.fenced,
            checks: self.checks,
        }
    }
}

impl Kind {
    /// All kinds, with their names in addresses.
    pub const ALL: [(&'static str, Self); 7] = [
        ("hang", Self::Hang),
        ("crash", Self::Crash),
        ("crash-empty", Self::CrashEmpty),
        ("partition", Self::Partition),
        ("pause", Self::Pause),
        ("kill", Self::Kill),
        ("step", Self::Step),
    ];

    /// Returns the kind of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(other, _)| *other == name).map(|(_, kind)| *kind)
    }

    /// Returns the name in addresses.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| *name)
    }

    /// Returns the label on the page.
    pub fn label(self) -> &'static str {
        match self {
            Self::Hang => "node hangs",
            Self::Crash => "node is down, keeps its data",
            Self::CrashEmpty => "node is down, restarts empty",
            Self::Partition => "partition",
            Self::Pause => "client is paused",
            Self::Kill => "client is killed",
            Self::Step => "clock of a node steps",
        }
    }

    /// Returns whether the incident affects a node.
    pub fn has_node(self) -> bool {
        !matches!(self, Self::Pause | Self::Kill)
    }

    /// Returns whether the incident affects a client.
    pub fn has_client(self) -> bool {
        matches!(self, Self::Partition | Self::Pause | Self::Kill)
    }
}

impl Setup {
    /// Adds an incident of a node.
    #[must_use]
    pub fn on_node(self, at: u64, kind: Kind, node: usize, ms: i64) -> Self {
        self.with(Incident { at, kind, node: Some(node), client: None, ms })
    }

    /// Adds an incident of a client.
    #[must_use]
    pub fn on_client(self, at: u64, kind: Kind, client: usize, ms: i64) -> Self {
        self.with(Incident { at, kind, node: None, client: Some(client), ms })
    }

    /// Adds a partition.
    #[must_use]
    pub fn between(self, at: u64, client: usize, node: usize, ms: i64) -> Self {
        self.with(Incident { at, kind: Kind::Partition, node: Some(node), client: Some(client), ms })
    }

    fn with(mut self, incident: Incident) -> Self {
        self.incidents.push(incident);
        self
    }

    /// Checks all bounds.
    ///
    /// # Errors
    ///
    /// A sentence about the first number that is out of bounds.
    pub fn check(&self) -> Result<(), String> {
        within("the number of nodes", self.nodes, &NODES)?;
        within("the number of clients", self.clients.len(), &CLIENTS)?;
        within("the number of incidents", self.incidents.len(), &INCIDENTS)?;
        within("the TTL in ms", self.ttl, &TTL)?;
        within("the shortest delay in ms", self.least_delay, &DELAY)?;
        within("the longest delay in ms", self.most_delay, &DELAY)?;
        if self.least_delay > self.most_delay {
            return Err(format!(
                "the shortest delay of {} ms is longer than the longest of {} ms",
                self.least_delay, self.most_delay
            ));
        }
        within("the drift of clocks in ppm", self.drift, &DRIFT)?;
        within("the allowed drift in ppm", self.allowed_drift, &DRIFT)?;
        within("the duration in ms", self.lasts, &LASTS)?;
        for (number, client) in self.clients.iter().enumerate() {
            let name = |what| format!("{what} of client c{number} in ms");
            within(&name("the start"), client.starts, &(0..=self.lasts))?;
            within(&name("the work"), client.works, &(0..=self.lasts))?;
            client.waits.map_or(Ok(()), |waits| within(&name("the wait"), waits, &WAITS))?;
            client.rests.map_or(Ok(()), |rests| within(&name("the rest"), rests, &RESTS))?;
        }
        (1..).zip(&self.incidents).try_for_each(|(number, incident)| {
            let name = |wrong| format!("incident {number}, \"{}\": {wrong}", incident.kind.label());
            self.check_incident(incident).map_err(name)
        })
    }

    fn check_incident(&self, incident: &Incident) -> Result<(), String> {
        let Incident { at, kind, node, client, ms } = incident;
        within("the time in ms", *at, &(0..=self.lasts))?;
        exists("node", 'n', *node, self.nodes, kind.has_node())?;
        exists("client", 'c', *client, self.clients.len(), kind.has_client())?;
        if *kind == Kind::Step {
            return within("the step of a clock in ms", *ms, &STEP);
        }
        let most = i64::try_from(*LASTS.end()).unwrap_or(i64::MAX);
        within("the duration in ms", *ms, &(1..=most))
    }

    /// Returns the experiment. The setup must be [valid](Setup::check).
    pub fn experiment(&self) -> Experiment {
        let scripts = self.clients.iter().map(|client| client.script(self.ttl)).collect();
        let experiment = Experiment::new(self.seed)
            .servers(self.nodes)
            .faults(Faults::None)
            .scripts(scripts)
            .plan(self.plan())
            .delays(millis(self.least_delay), millis(self.most_delay))
            .notifies(self.notifies)
            .clock_drift(self.drift)
            .clock_drift_factor(f64::from(self.allowed_drift) / 1e6)
            .lasts(millis(self.lasts));
        if self.restart_admission { experiment.with_admission() } else { experiment }
    }

    fn plan(&self) -> Plan {
        self.incidents
            .iter()
            .fold(Plan::new(), |plan, incident| plan.at(millis(incident.at), incident.planned()))
    }
}

impl Incident {
    fn planned(&self) -> plan::Incident {
        let (server, client) = (self.node.unwrap_or(0), self.client.unwrap_or(0));
        let lasts = millis(self.ms.unsigned_abs());
        match self.kind {
            Kind::Hang => plan::Incident::Hang { server, lasts },
            Kind::Crash => plan::Incident::Crash { server, persistence: Persistence::All, lasts },
            Kind::CrashEmpty => plan::Incident::Crash { server, persistence: Persistence::Nothing, lasts },
            Kind::Partition => plan::Incident::Partition { client, server, way: None, lasts },
            Kind::Pause => plan::Incident::Pause { client, lasts },
            Kind::Kill => plan::Incident::Kill { client, lasts },
            Kind::Step => plan::Incident::Step { server, millis: self.ms },
        }
    }
}

/// Checks the node or the client of an incident. Their names have this letter.
fn exists(
    what: &str,
    letter: char,
    number: Option<usize>,
    count: usize,
    is_needed: bool,
) -> Result<(), String> {
    match number {
        Some(_) if !is_needed => Err(format!("it concerns no {what}")),
        Some(number) if number >= count => {
            Err(format!("{letter}{number} does not exist, the last {what} is {letter}{}", count - 1))
        }
        None if is_needed => Err(format!("it names no {what}")),
        _ => Ok(()),
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Describes the attempts of clients: their time limit, and the retries.
pub(crate) fn attempts() -> String {
    format!(
        "An attempt waits at most {} ms for the reply of a node (the node timeout). A waiting client tries again {} to \
         {} ms after a failed attempt. If the nodes send notifications, the client waits for one instead. Three attempts in \
         a row without a quorum of replies end the request.",
        NODE_TIMEOUT.as_millis(),
        RETRY_DELAY.as_millis() / 2,
        RETRY_DELAY.as_millis()
    )
}

/// Checks a number.
///
/// # Errors
///
/// A sentence about the number, if it is out of bounds.
pub(crate) fn within<T: Copy + PartialOrd + std::fmt::Display>(
    name: &str,
    value: T,
    bounds: &RangeInclusive<T>,
) -> Result<(), String> {
    if bounds.contains(&value) {
        return Ok(());
    }
    Err(format!("{name} is {value}, and must be between {} and {}", bounds.start(), bounds.end()))
}
