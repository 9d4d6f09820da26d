//! Complete simulated runs: servers, a network, clients, and a plan of faults.
//!
//! The clients acquire, hold, extend and release locks. [`Experiment::run`] injects faults for a while and then ends
//! them. It waits until every client reports that it is done, and records the remaining keys of the servers. A final
//! client, the judge, then requests each lock. The [invariants](crate::invariant) check the history. The clients use
//! the real core, unchanged.
//!
//! ```
//! use redlock_simulation::experiment::Experiment;
//!
//! let report = Experiment::new(42).servers(3).clients(3).run();
//! assert!(report.defects().next().is_none(), "{report}");
//! ```

mod client;
mod fault_injector;
mod report;
mod script;
mod totals;
mod waiting;

use std::time::Duration;

use redlock_core::node::Quarantine;
use redlock_core::runtime::Runtime;
use redlock_core::{ErrorKind, Redlock};
use redlock_testkit::sim::{Clock, Simulation};

use self::client::{Client, Protected};
use self::fault_injector::FaultInjector;
pub use self::report::{PLAYGROUND_PORT, Report};
pub use self::script::Script;
pub use self::totals::Totals;
use crate::history::{EventKind, FaultKind, History, Place};
use crate::invariant::{Assumption, Rules, Violation, check, check_waiting};
use crate::network::{Direction, Network, Notifications, Traffic, Transport};
use crate::plan::{Faults, Plan, Scope};
use crate::server::Server;

/// A simulated run: its size, and the faults that may occur.
///
/// The times and places of faults, the behavior of clients, the times of clocks, and all other unset choices are drawn
/// from the seed.
///
/// A run takes the time of the faults, then up to 20 s until the clients complete, and 40 s until all keys have
/// expired. All of it is simulated.
#[derive(Clone, Debug)]
pub struct Experiment {
    seed: u64,
    servers: usize,
    clients: usize,
    resources: usize,
    lasts: Duration,
    faults: Faults,
    plan: Option<Plan>,
    drift_factor: f64,
    waiting: bool,
    sharing: bool,
    /// Overrides the choice that depends on the faults.
    fenced: Option<bool>,
    timeless: bool,
    reads_first: bool,
    /// The programs of the clients, if they are not random.
    scripts: Option<Vec<Script>>,
    /// The shortest and the longest delay of a message, if they are not drawn.
    delays: Option<(Duration, Duration)>,
    /// The use of notifications by servers, if this is not drawn.
    notifies: Option<bool>,
    /// The maximum drift of a clock, if it is not the one of bounded faults.
    drift_ppm: Option<i32>,
    /// Overrides the choice that depends on the faults.
    admission: Option<bool>,
}

/// The longest TTL of random clients, and of the judge. It is short, so that many locks expire in a run of half a minute.
const LONGEST_TTL: Duration = Duration::from_secs(4);

/// The node timeout. It is short relative to every TTL, so that rounds fail for lack of grants rather than of time.
const NODE_TIMEOUT: Duration = Duration::from_millis(200);

/// The longest additional delay of a message. It is as long as a TTL, so that writes take effect unexpectedly late.
const LATE_BY: Duration = Duration::from_secs(3);

/// The time after the last fault by which all has ended and expired.
///
/// It covers two rounds of every TTL, delayed messages, and the remaining waits of clients.
const SETTLED_AFTER: Duration = Duration::from_secs(40);

/// The simulated time between two checks of a run.
const SLICE: Duration = Duration::from_millis(50);

/// The maximum drift of a clock: half of the drift factor of 1 %, so that two clocks differ by at most the factor.
const DRIFT_PPM: i32 = 4_900;

/// The greatest drift of a clock that an experiment accepts: it is twice as fast, or stands still.
const MOST_DRIFT_PPM: i32 = 900_000;

impl Experiment {
    /// Creates an experiment with three clients, five servers and two resources.
    ///
    /// It lasts 20 s.
    ///
    /// The faults are [`Faults::Bounded`], and the drift factor is 0.01, the default of the core.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            servers: 5,
            clients: 3,
            resources: 2,
            lasts: Duration::from_secs(20),
            faults: Faults::Bounded,
            plan: None,
            drift_factor: 0.01,
            waiting: false,
            sharing: false,
            fenced: None,
            timeless: false,
            reads_first: false,
            scripts: None,
            delays: None,
            notifies: None,
            drift_ppm: None,
            admission: None,
        }
    }

    /// Sets the number of servers. The default is 5, the minimum 1; 0 counts as 1.
    ///
    /// As with real servers, an even number has no advantage over one less.
    #[must_use]
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = servers.max(1);
        self
    }

    /// Sets the number of clients that contend. The default is 3, the minimum 1; 0 counts as 1.
    ///
    /// The judge, which requests each lock at the end, is an additional client.
    #[must_use]
    pub fn clients(mut self, clients: usize) -> Self {
        self.clients = clients.max(1);
        self
    }

    /// Sets the number of resources. The default is 2, the minimum 1; 0 counts as 1.
    ///
    /// The clients contend for one or several at a time. In a run about [waiting](Experiment::waiting) there is one
    /// resource.
    #[must_use]
    pub fn resources(mut self, resources: usize) -> Self {
        self.resources = resources.max(1);
        self
    }

    /// Sets how long faults occur, in simulated time. The default is 20 s.
    ///
    /// Later incidents of the plan do not happen, and current ones end.
    #[must_use]
    pub fn lasts(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }

    /// Sets the faults that may occur.
    ///
    /// The default is [`Faults::Bounded`], under which no invariant may be violated. The setting determines the faults
    /// of messages and clocks, and the incidents unless there is a [plan](Experiment::plan).
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Sets the incidents of the run, instead of a random one every 1.5 s on average.
    ///
    /// Messages are lost, repeated and late anyway, according to [`faults`](Experiment::faults). With [`Faults::None`]
    /// only the plan causes faults.
    ///
    /// The plan must name existing servers and clients, counted from 0: see [`run`](Experiment::run).
    #[must_use]
    pub fn plan(mut self, plan: Plan) -> Self {
        self.plan = Some(plan);
        self
    }

    /// Sets the clock drift factor of the clients, as a share of the TTL. The default is 0.01.
    ///
    /// The factor must be at least 0 and less than 1: see [`run`](Experiment::run). Clocks here differ by at most
    /// 0.0098, unless the faults are about clocks that do not run evenly. With a smaller factor, locks may overlap.
    #[must_use]
    pub fn clock_drift_factor(mut self, factor: f64) -> Self {
        self.drift_factor = factor;
        self
    }

    /// Makes the run about readers and writers of one resource. The default is off.
    ///
    /// Some of the writers hold plain locks. A reader may be beside other readers, and never beside a writer.
    #[must_use]
    pub fn sharing(mut self) -> Self {
        (self.sharing, self.resources) = (true, 1);
        self
    }

    /// Makes the run about waiting. The default is off: clients then come and go, and wait at random.
    ///
    /// All clients request one lock all the time and wait without a limit. They continue for a minute after the last
    /// fault, while one minority of servers after the other is briefly down. The run takes 85 s more of simulated time.
    /// There is one resource, and its locks have no fencing tokens, regardless of other settings. Depending on the
    /// seed, servers notify of all changes, of few, of too many, or late.
    #[must_use]
    pub fn waiting(mut self) -> Self {
        (self.waiting, self.resources) = (true, 1);
        self
    }

    /// Sets whether clients also acquire locks with fencing tokens.
    ///
    /// They then write to the protected resources. By default this depends on whether the
    /// [faults](Faults::is_about_fencing) are about fencing.
    #[must_use]
    pub fn fenced(mut self, fenced: bool) -> Self {
        self.fenced = Some(fenced);
        self
    }

    /// Makes servers that lose counters start again with 1. The default is off.
    ///
    /// Their clocks are then ignored, so they must never lose a counter. By default they continue from their clocks.
    /// This has no effect unless locks are [fenced](Experiment::fenced).
    #[must_use]
    pub fn counters_without_time(mut self) -> Self {
        self.timeless = true;
        self
    }

    /// Makes holders read before they write their fencing token. The default is off.
    ///
    /// They may then replace a value that they have not seen. By default they write the token first. This has no effect
    /// unless locks are [fenced](Experiment::fenced).
    #[must_use]
    pub fn without_initial_token_write(mut self) -> Self {
        self.reads_first = true;
        self
    }

    /// Sets the programs of the clients, one each, instead of random ones. All of them lock the first resource.
    ///
    /// The transport is then a stream. Locks have fencing tokens where the program says so.
    #[must_use]
    pub fn scripts(mut self, scripts: Vec<Script>) -> Self {
        (self.clients, self.resources) = (scripts.len().max(1), 1);
        self.fenced = Some(scripts.iter().any(|script| script.fenced));
        self.scripts = Some(scripts);
        self
    }

    /// Sets the shortest and the longest delay of a message. By default the longest one is drawn, from 0.2 to 20 ms.
    ///
    /// No message is then lost, repeated or late, except by the [plan](Experiment::plan).
    #[must_use]
    pub fn delays(mut self, least: Duration, most: Duration) -> Self {
        self.delays = Some((least, most));
        self
    }

    /// Sets whether servers notify waiters of changes. By default they do in every other run.
    #[must_use]
    pub fn notifies(mut self, notifies: bool) -> Self {
        self.notifies = Some(notifies);
        self
    }

    /// Sets the maximum drift of each clock in parts per million. The default is 4,900.
    ///
    /// If two clocks can thus differ by more than the [drift factor](Experiment::clock_drift_factor), locks may overlap.
    /// The history then names the drift as a fault.
    #[must_use]
    pub fn clock_drift(mut self, ppm: u32) -> Self {
        self.drift_ppm = Some(i32::try_from(ppm).unwrap_or(i32::MAX).min(MOST_DRIFT_PPM));
        self
    }

    /// Makes clients check whether servers may have lost locks.
    ///
    /// The votes of such a server do not count until the lost locks have expired. This is the default for
    /// [`Faults::Losses`] only.
    #[must_use]
    pub fn with_admission(mut self) -> Self {
        self.admission = Some(true);
        self
    }

    /// Makes clients count servers that may have lost locks, so locks may overlap.
    ///
    /// This is the default except for [`Faults::Losses`].
    #[must_use]
    pub fn without_admission(mut self) -> Self {
        self.admission = Some(false);
        self
    }

    /// Runs the experiment. The same experiment gives the same report, to the byte.
    ///
    /// # Panics
    ///
    /// Panics if the clock drift factor is not at least 0 and less than 1, or if the plan names a missing server or
    /// client. It also panics if code under test is in a hot loop; the message then contains the seed.
    pub fn run(&self) -> Report {
        self.run_while(|_| true).expect("nothing stops it")
    }

    /// Runs the experiment while `proceeds` returns `true`. Returns `None` if it has stopped the run.
    ///
    /// It is called with the number of events so far, every 50 ms of simulated time.
    ///
    /// # Panics
    ///
    /// Same as [`run`](Experiment::run).
    pub fn run_while(&self, mut proceeds: impl FnMut(usize) -> bool) -> Option<Report> {
        let simulation = Simulation::new(self.seed);
        let mut chance = fastrand::Rng::with_seed(self.seed);
        let plan = self.plan.clone().unwrap_or_else(|| Plan::draw(&mut chance, &self.scope()));
        let streams = chance.bool() || self.scripts.is_some();
        let transport = if streams { Transport::Streams } else { Transport::Datagrams };
        let network = Network::new(&simulation, transport);
        if let Some(notifications) = self.notifications() {
            network.set_notifications(notifications);
        }
        if self.has_admission() {
            network.set_longest_ttl(self.longest_ttl());
        }
        let servers = self.start_servers(&network, &mut chance);
        let traffic = self.traffic(&mut chance);
        network.set_traffic(Direction::Requests, traffic);
        network.set_traffic(Direction::Replies, traffic);
        let protected = self.takes_fenced().then(|| {
            Protected::new(simulation.process("resources"), network.recorder().clone(), self.resources)
        });
        let client = |number| self.client(number, &simulation, &network, &mut chance, protected.clone());
        let clients: Vec<_> = (0..self.clients).map(client).collect();
        let injector =
            FaultInjector::new(network.clone(), servers.clone(), clients.clone(), self.resources, traffic);

        clients.iter().for_each(Client::start);
        let injection = injector.carry_out(&simulation, &plan);
        let mut pass = |time| pass(&simulation, time, || proceeds(network.recorder().len()));
        pass(self.lasts)?;
        injection.kill();
        injector.calm();
        if self.waiting {
            waiting::contend(&simulation, &servers);
        }
        clients.iter().for_each(Client::close);
        let patience = SETTLED_AFTER / 2;
        let deadline = simulation.now() + patience;
        while simulation.now() < deadline && !clients.iter().all(Client::has_ended) {
            pass(SLICE)?;
        }
        servers.iter().for_each(Server::record_locks);
        pass(SETTLED_AFTER)?;
        clients.iter().for_each(Client::record_tasks);
        self.judge(&simulation, &network);

        let history = network.recorder().history();
        let mut violations = check(&history, &self.rules());
        violations.extend(self.check_waiting(&history));
        let lasted = simulation.now().elapsed_since_origin();
        Some(Report { experiment: self.clone(), plan, lasted, history, violations })
    }

    /// Draws the notifications of servers, in every other run. The generator is separate.
    fn notifications(&self) -> Option<Notifications> {
        if self.waiting {
            return Some(waiting::notifications(self.seed));
        }
        if let Some(notifies) = self.notifies {
            return notifies.then(Notifications::default);
        }
        let mut chance = fastrand::Rng::with_seed(self.seed ^ 0x7469_6469_6e67_7321);
        let notifications = Notifications {
            lost: chance.u32(..100),
            spurious: chance.u32(..100),
            late: chance.u32(..100),
            late_by: LATE_BY,
        };
        chance.bool().then_some(if self.faults == Faults::None {
            Notifications::default()
        } else {
            notifications
        })
    }

    fn check_waiting(&self, history: &History) -> Vec<Violation> {
        if self.waiting { check_waiting(history, &waiting::expectations(self.seed)) } else { Vec::new() }
    }

    fn rules(&self) -> Rules {
        Rules {
            servers: self.servers,
            node_timeout: NODE_TIMEOUT,
            settled_after: SETTLED_AFTER,
            admission: self.has_admission(),
        }
    }

    fn has_admission(&self) -> bool {
        self.admission.unwrap_or(self.faults.has_admission())
    }

    /// Returns the longest TTL of all clients, with the judge.
    fn longest_ttl(&self) -> Duration {
        let scripts = self.scripts.iter().flatten();
        scripts.map(|script| script.ttl).fold(LONGEST_TTL, Duration::max)
    }

    fn scope(&self) -> Scope {
        let Self { servers, clients, resources, lasts, faults, .. } = *self;
        Scope { servers, clients, resources, lasts, longest_ttl: LONGEST_TTL, faults }
    }

    fn takes_fenced(&self) -> bool {
        self.fenced.unwrap_or(self.faults.is_about_fencing())
    }

    fn start_servers(&self, network: &Network, chance: &mut fastrand::Rng) -> Vec<Server> {
        let mut start = |number| {
            let wild = self.faults.breaks(Assumption::ClocksRunEvenly);
            let drift_ppm = if wild { chance.i32(-300_000..=300_000) } else { self.drift(chance) };
            if wild || self.drifts_too_much() {
                let place = Place::Server(number);
                network.recorder().record(EventKind::FaultBegins(place, FaultKind::Drift(drift_ppm)));
            }
            let server = network.server(Clock { drift_ppm, offset: self.skew(chance) });
            if self.timeless {
                server.count_from_one();
            }
            server
        };
        (0..self.servers).map(&mut start).collect()
    }

    /// Returns how far the clock of a server is ahead from the beginning.
    fn skew(&self, chance: &mut fastrand::Rng) -> Duration {
        match self.faults {
            // No fencing token depends on it.
            Faults::Fencing => Duration::from_millis(chance.u64(..100_000)),
            _ if self.faults.is_about_fencing() => Duration::from_millis(chance.u64(..500)),
            _ => Duration::ZERO,
        }
    }

    fn traffic(&self, chance: &mut fastrand::Rng) -> Traffic {
        let most = Duration::from_micros(chance.u64(200..20_000));
        let calm = Traffic { most, ..Traffic::default() };
        if let Some((least, most)) = self.delays {
            return Traffic { least, most, ..calm };
        }
        if self.faults == Faults::None {
            return calm;
        }
        let (lost, twice, late) = (chance.u32(..15), chance.u32(..30), chance.u32(..20));
        Traffic { lost, twice, late, late_by: LATE_BY, ..calm }
    }

    fn client(
        &self,
        number: usize,
        simulation: &Simulation,
        network: &Network,
        chance: &mut fastrand::Rng,
        protected: Option<Protected>,
    ) -> Client {
        let offset = Duration::from_millis(chance.u64(..100_000));
        let clock = Clock { offset, drift_ppm: self.drift(chance) };
        let behavior = client::Behavior {
            resources: self.resources,
            longest_ttl: if self.waiting { waiting::longest_ttl(self.seed) } else { LONGEST_TTL },
            node_timeout: NODE_TIMEOUT,
            waits: self.waiting,
            shares: self.sharing,
            drift_factor: self.drift_factor,
            careless: self.faults.breaks(Assumption::HoldersLook),
            reads_first: self.reads_first,
            script: self.scripts.as_ref().and_then(|scripts| scripts.get(number).copied()),
        };
        Client::new(simulation, network.clone(), number, clock, chance.u64(..), behavior, protected)
    }

    /// Returns the drift of a clock within the bounds; in half of the cases at their edge.
    fn drift(&self, chance: &mut fastrand::Rng) -> i32 {
        let most = self.drift_ppm.unwrap_or(DRIFT_PPM);
        match chance.u32(..4) {
            0 => most,
            1 => -most,
            2 => 0,
            _ => chance.i32(-most..=most),
        }
    }

    /// Returns whether two clocks can differ by more than the clients allow for, as it was requested.
    fn drifts_too_much(&self) -> bool {
        self.drift_ppm.is_some_and(|most| f64::from(2 * most) > self.drift_factor * 1e6)
    }

    /// Requests each resource once while no other client does.
    fn judge(&self, simulation: &Simulation, network: &Network) {
        let (process, client) = (simulation.process("judge"), self.clients);
        let nodes = network.nodes(client);
        let redlock = Redlock::builder(process.clone()).nodes(nodes.clone()).node_timeout(NODE_TIMEOUT);
        let redlock = redlock.build().expect("servers have labels of their own");
        let (recorder, resources, me) = (network.recorder().clone(), self.resources, process.clone());
        let quarantine = self.has_admission().then(|| Quarantine::duration(self.longest_ttl()));
        simulation.block_on(&process, async move {
            // The wait of a server begins with the first look, which may be this one.
            if let Some(quarantine) = quarantine {
                for node in &nodes {
                    node.connected().await;
                }
                // The clock of the server may be slow.
                me.sleep(quarantine.mul_f64(1.1)).await;
            }
            for resource in 0..resources {
                recorder.record(EventKind::Requested {
                    client,
                    resources: vec![resource],
                    ttl: LONGEST_TTL,
                    once: true,
                    fenced: false,
                });
                let why = match redlock.try_lock(client::name(resource), LONGEST_TTL).await {
                    Ok(Some(guard)) => {
                        let token = recorder.number_of(&guard.fingerprint());
                        let until = me.now() + guard.remaining();
                        let (resources, fence) = (vec![resource], guard.fencing_token());
                        recorder.record(EventKind::Granted { client, resources, token, until, fence });
                        recorder.record(EventKind::Releasing { client, token, waits: false });
                        continue;
                    }
                    Ok(None) => ErrorKind::Contended,
                    Err(error) => error.kind(),
                };
                recorder.record(EventKind::NotGranted { client, why: Some(why) });
            }
            recorder.record(EventKind::Closed { client });
        });
    }
}

/// Lets time pass while `proceeds` returns `true`. Returns `None` if it does not.
fn pass(simulation: &Simulation, time: Duration, mut proceeds: impl FnMut() -> bool) -> Option<()> {
    let end = simulation.now() + time;
    while simulation.now() < end {
        simulation.run_for(SLICE.min(end.saturating_duration_since(simulation.now())));
        proceeds().then_some(())?;
    }
    Some(())
}
