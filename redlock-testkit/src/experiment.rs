//! A run of the whole: servers, a network, clients that lock, hold, extend and let go, and a plan of what goes wrong.
//!
//! [`Experiment::run`] lets things go wrong for a while, then stops that, waits until every client says that it is done,
//! looks at what the servers still have, and lets a judge ask for each lock. What happened is judged by the
//! [invariants](crate::invariant). The clients use the real core, unchanged.
//!
//! ```
//! use redlock_testkit::experiment::Experiment;
//!
//! let report = Experiment::new(42).servers(3).clients(3).run();
//! assert!(report.defects().next().is_none(), "{report}");
//! ```

mod client;
mod conductor;
mod report;
mod totals;
mod waiting;

use std::time::Duration;

use redlock_core::{ErrorKind, Redlock, Runtime};

use self::client::{Client, Protected};
use self::conductor::Conductor;
pub use self::report::Report;
pub use self::totals::Totals;
use crate::history::{History, Place, Trouble, What};
use crate::invariant::{Assumption, Rules, Violation, check, check_waiting};
use crate::plan::{Faults, Plan, Scope};
use crate::sim::{Clock, Direction, Network, Server, Simulation, Tidings, Traffic, Transport};

/// What to run: how many of what, and what may go wrong. When and where it does, what clients do and what clocks show is
/// drawn from the seed, and so is everything else that nothing here sets.
///
/// A run takes as long as things go wrong, then up to 20 s for clients to come to their end, and 40 s in which everything
/// expires: all of it simulated.
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
    /// Instead of what the faults are about.
    fenced: Option<bool>,
    timeless: bool,
    reads_first: bool,
}

/// Locks live for so long at most. Short, so that in a run of half a minute many expire.
const LONGEST_TTL: Duration = Duration::from_secs(4);

/// Short against every TTL, so that rounds fail for lack of votes rather than of time.
const NODE_TIMEOUT: Duration = Duration::from_millis(200);

/// By how much a message may be held up: as long as a TTL, so that writes take effect when nobody expects them.
const LATE_BY: Duration = Duration::from_secs(3);

/// How long after the last fault everything has ended and expired: two rounds of every TTL, what is held up, and what
/// clients may still be waiting for.
const SETTLED_AFTER: Duration = Duration::from_secs(40);

/// Half of the drift factor of 1 %, so that two clocks are a whole one apart at most.
const DRIFT_PPM: i32 = 4_900;

impl Experiment {
    /// Three clients on five servers that want two resources for twenty seconds, with faults within the bounds
    /// ([`Faults::Bounded`]), and a drift factor of 0.01, as core has it.
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
            fenced: None,
            timeless: false,
            reads_first: false,
        }
    }

    /// How many servers there are: 5 if not set. At least one, and 0 counts as that. An even number is as good as one less,
    /// as with real ones.
    #[must_use]
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = servers.max(1);
        self
    }

    /// How many clients contend: 3 if not set. At least one, and 0 counts as that. The judge, who asks for each lock at the
    /// end, is one more.
    #[must_use]
    pub fn clients(mut self, clients: usize) -> Self {
        self.clients = clients.max(1);
        self
    }

    /// How many resources they contend for, one or several at a time: 2 if not set. At least one, and 0 counts as that. In a
    /// run about [waiting](Experiment::waiting) it is one.
    #[must_use]
    pub fn resources(mut self, resources: usize) -> Self {
        self.resources = resources.max(1);
        self
    }

    /// For how long things go wrong, in simulated time: 20 s if not set. What is planned for later does not happen, and what
    /// has not ended by then ends.
    #[must_use]
    pub fn lasts(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }

    /// What may go wrong: [`Faults::Bounded`] if not set, with which nothing may be violated. It decides what is drawn: the
    /// incidents, unless there is a [plan](Experiment::plan), and in any case how messages fare and what clocks show.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// What goes wrong when, instead of what would be drawn: an incident every second and a half. Messages are lost, repeated
    /// and late all the same, as of [`faults`](Experiment::faults); with [`Faults::None`] nothing but the plan goes wrong.
    ///
    /// It must name servers and clients that there are, counted from 0: see [`run`](Experiment::run).
    #[must_use]
    pub fn plan(mut self, plan: Plan) -> Self {
        self.plan = Some(plan);
        self
    }

    /// What the clients allow for clocks that run apart, as a share of the TTL: 0.01 if not set, as core has it. From 0 to
    /// less than 1: see [`run`](Experiment::run). Clocks here run up to 0.0098 apart, unless the faults are about clocks that
    /// do not run evenly: with less than that locks may overlap.
    #[must_use]
    pub fn clock_drift_factor(mut self, factor: f64) -> Self {
        self.drift_factor = factor;
        self
    }

    /// Is about waiting: the clients want one lock all the time and wait for it however long it takes, also for a minute
    /// after the last fault, while one minority of servers after the other is gone for a moment. Off if not set: then they
    /// come and go, and wait as chance has it.
    ///
    /// Takes 85 s more of simulated time. There is one resource then, and its locks have no fencing tokens, whatever else is
    /// set. Servers tell of all changes, of few, of too many, or late, by the seed.
    #[must_use]
    pub fn waiting(mut self) -> Self {
        (self.waiting, self.resources) = (true, 1);
        self
    }

    /// Whether clients take locks with fencing tokens too, and write to what these protect. Where it is not set they do if
    /// the [faults](Faults::is_about_fencing) are about that, and do not if they are not.
    #[must_use]
    pub fn fenced(mut self, fenced: bool) -> Self {
        self.fenced = Some(fenced);
        self
    }

    /// Has servers that lose counters begin again with 1, whatever their clocks show: they may never lose any then. Off if
    /// not set: they go on from their clocks. It changes nothing where no lock is [fenced](Experiment::fenced).
    #[must_use]
    pub fn counters_without_time(mut self) -> Self {
        self.timeless = true;
        self
    }

    /// Has holders read what their locks protect without writing their fencing token there first: what they replace may
    /// be what they have not seen. Off if not set: they write it first. It changes nothing where no lock is
    /// [fenced](Experiment::fenced).
    #[must_use]
    pub fn reading_first(mut self) -> Self {
        self.reads_first = true;
        self
    }

    /// Runs it. The same experiment gives the same report, to the byte.
    ///
    /// # Panics
    ///
    /// When the clock drift factor is not from 0 to less than 1; when the plan names a server or a client that there is not;
    /// or when code under test runs hot, and then with the seed.
    pub fn run(&self) -> Report {
        let simulation = Simulation::new(self.seed);
        let mut chance = fastrand::Rng::with_seed(self.seed);
        let plan = self.plan.clone().unwrap_or_else(|| Plan::draw(&mut chance, &self.scope()));
        let transport = if chance.bool() { Transport::Streams } else { Transport::Datagrams };
        let network = Network::new(&simulation, transport);
        if let Some(tidings) = self.tidings() {
            network.set_tidings(tidings);
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
        let conductor =
            Conductor::new(network.clone(), servers.clone(), clients.clone(), self.resources, traffic);

        clients.iter().for_each(Client::start);
        let conducting = conductor.carry_out(&simulation, &plan);
        simulation.run_for(self.lasts);
        conducting.kill();
        conductor.calm();
        if self.waiting {
            waiting::contend(&simulation, &servers);
        }
        clients.iter().for_each(Client::close);
        let patience = SETTLED_AFTER / 2;
        let deadline = simulation.now() + patience;
        while simulation.now() < deadline && !clients.iter().all(Client::has_ended) {
            simulation.run_for(Duration::from_millis(50));
        }
        servers.iter().for_each(Server::record_locks);
        simulation.run_for(SETTLED_AFTER);
        self.judge(&simulation, &network);

        let history = network.recorder().history();
        let mut violations = check(&history, &self.rules());
        violations.extend(self.check_waiting(&history));
        let lasted = simulation.now().elapsed_since_origin();
        Report { experiment: self.clone(), plan, lasted, history, violations }
    }

    /// How servers tell of changes, in every other run. Drawn apart from everything else.
    fn tidings(&self) -> Option<Tidings> {
        if self.waiting {
            return Some(waiting::tidings(self.seed));
        }
        let mut chance = fastrand::Rng::with_seed(self.seed ^ 0x7469_6469_6e67_7321);
        let tidings = Tidings {
            lost: chance.u32(..100),
            spurious: chance.u32(..100),
            late: chance.u32(..100),
            late_by: LATE_BY,
        };
        chance.bool().then_some(if self.faults == Faults::None { Tidings::default() } else { tidings })
    }

    fn check_waiting(&self, history: &History) -> Vec<Violation> {
        if self.waiting { check_waiting(history, &waiting::expectations(self.seed)) } else { Vec::new() }
    }

    fn rules(&self) -> Rules {
        Rules { servers: self.servers, node_timeout: NODE_TIMEOUT, settled_after: SETTLED_AFTER }
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
            let drift_ppm = if wild { chance.i32(-300_000..=300_000) } else { drift(chance) };
            if wild {
                let place = Place::Server(number);
                network.recorder().record(What::Strikes(place, Trouble::Drift(drift_ppm)));
            }
            let server = network.server(Clock { drift_ppm, offset: self.skew(chance) });
            if self.timeless {
                server.count_without_time();
            }
            server
        };
        (0..self.servers).map(&mut start).collect()
    }

    /// By how much the clock of a server is ahead from the beginning.
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
        let clock = Clock { offset, drift_ppm: drift(chance) };
        let habits = client::Habits {
            resources: self.resources,
            longest_ttl: if self.waiting { waiting::longest_ttl(self.seed) } else { LONGEST_TTL },
            node_timeout: NODE_TIMEOUT,
            waits: self.waiting,
            drift_factor: self.drift_factor,
            careless: self.faults.breaks(Assumption::HoldersLook),
            reads_first: self.reads_first,
        };
        Client::new(simulation, network.clone(), number, clock, chance.u64(..), habits, protected)
    }

    /// Asks once for each resource when nobody else does.
    fn judge(&self, simulation: &Simulation, network: &Network) {
        let (process, client) = (simulation.process("judge"), self.clients);
        let redlock =
            Redlock::builder(process.clone()).nodes(network.nodes(client)).node_timeout(NODE_TIMEOUT);
        let redlock = redlock.build().expect("servers have labels of their own");
        let (recorder, resources, me) = (network.recorder().clone(), self.resources, process.clone());
        simulation.block_on(&process, async move {
            for resource in 0..resources {
                recorder.record(What::Asked {
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
                        recorder.record(What::Granted { client, resources, token, until, fence });
                        recorder.record(What::Releasing { client, token, waits: false });
                        continue;
                    }
                    Ok(None) => ErrorKind::Contended,
                    Err(error) => error.kind(),
                };
                recorder.record(What::NotGranted { client, why: Some(why) });
            }
            recorder.record(What::Closed { client });
        });
    }
}

/// How fast a clock runs that keeps within the bounds; at their edge more often than not.
fn drift(chance: &mut fastrand::Rng) -> i32 {
    match chance.u32(..4) {
        0 => DRIFT_PPM,
        1 => -DRIFT_PPM,
        2 => 0,
        _ => chance.i32(-DRIFT_PPM..=DRIFT_PPM),
    }
}
