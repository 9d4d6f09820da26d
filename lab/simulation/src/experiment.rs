//! Complete simulated runs: servers, a network, clients, and a plan of faults.
//!
//! The clients acquire, hold, extend and release locks. [`Experiment::run`] injects faults for a while and then ends
//! them. It waits until every client reports that it is done, and records the remaining keys of the servers. A final
//! client then requests each lock. The [invariants](crate::invariant) check the history. The clients use
//! the real core, unchanged.
//!
//! ```
//! use redlock_simulation::experiment::Experiment;
//!
//! let report = Experiment::new(42).servers(3).clients(3).run();
//! assert!(report.defects().next().is_none(), "{report}");
//! ```

mod change;
mod client;
mod fault_injector;
mod final_check;
mod options;
mod report;
mod script;
mod shrink;
mod totals;
mod waiting;
mod whole;
mod world;

use std::time::Duration;

use redlock_core::node::Quarantine;

use self::change::Change;
use self::client::Client;
pub use self::client::RETRY_DELAY;
pub use self::report::{PLAYGROUND_PORT, Report};
pub use self::script::Script;
pub use self::shrink::Shrunk;
pub use self::totals::Totals;
use self::world::World;
use crate::history::History;
use crate::invariant::{Rules, Violation, check, check_waiting};
use crate::plan::{Faults, Plan, Scope};
use crate::server::Server;

/// The activity of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// Clients lock, wait and pause at random.
    Locking,
    /// All clients request one lock all the time.
    Waiting,
    /// Clients are readers and writers.
    Sharing,
    /// Clients lock at random, and keep some of their locks for a time.
    Keeping,
}

/// A simulated run: its size, and the faults that may occur.
///
/// The times and places of faults, the behavior of clients, the times of clocks, and all other unset choices are drawn
/// from the seed.
///
/// A run takes the time of the faults, then up to 20 s until the clients complete, and 40 s until all keys have
/// expired. All of it is simulated.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // the settings are independent
pub struct Experiment {
    seed: u64,
    servers: usize,
    clients: usize,
    resources: usize,
    lasts: Duration,
    faults: Faults,
    plan: Option<Plan>,
    drift_factor: f64,
    activity: Activity,
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
    shortest_ttl: Option<Duration>,
    /// True for the whole stack.
    whole: bool,
    /// The lists of nodes, if they are changed during the run.
    change: Option<Change>,
}

/// The shortest TTL that is useful on the slowest network.
const SHORTEST_TTL: Duration = Duration::from_millis(300);

/// The shortest TTL of clients that watch the clocks of servers, on the network of [`Faults::Clocks`].
///
/// A clock may be wrong by 0.25 % and 5 ms without a notice, and by the delay of a request, here up to 3 ms. It is read once
/// a second. The clocks of two clients differ by up to 0.1 %. Of the TTL, a holder leaves 1 % and 2 ms unused.
const SHORTEST_WATCHED_TTL: Duration = Duration::from_millis(1_500);

/// The longest TTL of random clients, and of the final check. It is short, so that many locks expire in a run of half a minute.
const LONGEST_TTL: Duration = Duration::from_secs(4);

/// The node timeout. It is short relative to every TTL, so that rounds fail for lack of grants rather than of time.
pub const NODE_TIMEOUT: Duration = Duration::from_millis(200);

/// The longest additional delay of a message. It is as long as a TTL, so that writes take effect unexpectedly late.
const LATE_BY: Duration = Duration::from_secs(3);

/// The time after the last fault by which all operations have ended and all keys have expired.
///
/// It covers two rounds of every TTL, delayed messages, and the remaining waits of clients.
const SETTLED_AFTER: Duration = Duration::from_secs(40);

/// The maximum clock drift of an experiment: the clock runs twice as fast, or does not advance.
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
            activity: Activity::Locking,
            fenced: None,
            timeless: false,
            reads_first: false,
            scripts: None,
            delays: None,
            notifies: None,
            drift_ppm: None,
            admission: None,
            shortest_ttl: None,
            whole: false,
            change: None,
        }
    }

    /// Sets the seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of servers. The default is 5, the minimum 1; 0 counts as 1.
    ///
    /// It has no effect if the nodes are [changed](Experiment::changing). As with real servers, an even number has no advantage over one less.
    #[must_use]
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = self.change.as_ref().map_or(servers.max(1), Change::servers);
        self
    }

    /// Sets the number of clients that contend. The default is 3, the minimum 1; 0 counts as 1.
    ///
    /// The client of the final check is an additional one.
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
    /// Some of the writers hold plain locks. Several readers may hold the resource at once, but not together with a writer.
    #[must_use]
    pub fn sharing(mut self) -> Self {
        (self.activity, self.resources) = (Activity::Sharing, 1);
        self
    }

    /// Makes the run about locks that are kept for a time. The default is off.
    ///
    /// Clients end half of their leases with [`keep_for`](redlock_core::Guard::keep_for). No other client may acquire such
    /// a lock before the promised end.
    #[must_use]
    pub fn keeping(mut self) -> Self {
        self.activity = Activity::Keeping;
        self
    }

    /// Makes the run about waiting. The default is off: clients then lock, wait and pause at random.
    ///
    /// All clients request one lock all the time and wait without a limit. They continue for a minute after the last
    /// fault, while one minority of servers after the other is briefly down. The run takes 85 to 102 s more of
    /// simulated time. There is one resource, and its locks have no fencing tokens, regardless of other settings.
    /// Depending on the seed, servers notify of all changes, of few, of too many, or late.
    #[must_use]
    pub fn waiting(mut self) -> Self {
        (self.activity, self.resources) = (Activity::Waiting, 1);
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

    /// Sets the maximum drift of each clock in parts per million.
    ///
    /// The default is 4,900. With restart admission it is 1,200, since clients take greater differences for jumps. With
    /// [`Faults::Clocks`], it is 500 for clients.
    ///
    /// If two clocks can thus differ by more than the [drift factor](Experiment::clock_drift_factor), locks may overlap.
    /// The history then names the drift as a fault.
    #[must_use]
    pub fn clock_drift(mut self, ppm: u32) -> Self {
        self.drift_ppm = Some(i32::try_from(ppm).unwrap_or(i32::MAX).min(MOST_DRIFT_PPM));
        self
    }

    /// Changes the nodes during the run, from the servers `old` to the servers `new`, counted from 0.
    ///
    /// Each client is restarted twice: in the first half of the run with both lists, in the second half with the new one.
    /// The number of servers follows from the lists. Invariants about the quorums of one list are not checked.
    #[must_use]
    pub fn changing(mut self, old: &[usize], new: &[usize]) -> Self {
        let change = Change { old: old.to_vec(), new: new.to_vec(), is_direct: false, must_agree: false };
        self.servers = change.servers();
        self.change = Some(change);
        self
    }

    /// Changes the nodes without the middle step, in which clients have both lists. Locks may then overlap.
    ///
    /// Each client is restarted once, at any time.
    #[must_use]
    pub fn without_middle_step(mut self) -> Self {
        self.change.iter_mut().for_each(|change| change.is_direct = true);
        self
    }

    /// Makes votes count only while the lists of clients [agree](redlock_core::Builder::node_lists_must_agree).
    ///
    /// It has an effect if the nodes are [changed](Experiment::changing). Without the middle step, locks then do not overlap if
    /// the lists have a server in common that all clients reach.
    #[must_use]
    pub fn agreeing(mut self) -> Self {
        self.change.iter_mut().for_each(|change| change.must_agree = true);
        self
    }

    /// Returns whether the nodes are [changed](Experiment::changing) during the run.
    #[must_use]
    pub fn changes_nodes(&self) -> bool {
        self.change.is_some()
    }

    /// Runs the whole stack: the nodes of `redlock-wire`, and servers that run its scripts. The default is off.
    ///
    /// Fencing counters start from the clocks of servers then, regardless of other settings.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Sets the shortest TTL of random clients. The default is 300 ms, and 1.5 s with [`Faults::Clocks`].
    ///
    /// Clients cannot watch the clocks of servers well enough for shorter TTLs.
    #[must_use]
    pub fn shortest_ttl(mut self, ttl: Duration) -> Self {
        self.shortest_ttl = Some(ttl);
        self
    }

    /// Makes clients check whether servers may have lost locks, and watch their clocks.
    ///
    /// The votes of such a server do not count until the lost locks have expired. This is the default for
    /// [`Faults::Losses`] and [`Faults::Clocks`].
    #[must_use]
    pub fn with_admission(mut self) -> Self {
        self.admission = Some(true);
        self
    }

    /// Makes clients count servers that may have lost locks, so locks may overlap.
    ///
    /// This is the default except for [`Faults::Losses`] and [`Faults::Clocks`].
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
        self.run_while(|_| true).expect("the run is not stopped")
    }

    /// Runs the experiment while `proceeds` returns `true`. Returns `None` if it has stopped the run.
    ///
    /// It is called with the number of events so far, every 50 ms of simulated time.
    ///
    /// # Panics
    ///
    /// Same as [`run`](Experiment::run).
    pub fn run_while(&self, mut proceeds: impl FnMut(usize) -> bool) -> Option<Report> {
        // A plan that is given has the restarts of a change already.
        let plan = self.plan.clone().unwrap_or_else(|| self.restarts(Plan::draw(self.seed, &self.scope())));
        let world = World::new(self);
        let World { simulation, network, servers, clients, injector } = &world;

        clients.iter().for_each(Client::start);
        let injection = injector.carry_out(simulation, &plan);
        world.pass(self.lasts, &mut proceeds)?;
        injection.kill();
        injector.calm();
        if self.is_about_waiting() {
            waiting::contend(self, simulation, servers, clients);
        }
        clients.iter().for_each(Client::close);
        world.pass_until_ended(SETTLED_AFTER / 2, &mut proceeds)?;
        servers.iter().for_each(Server::record_locks);
        world.pass(SETTLED_AFTER, &mut proceeds)?;
        clients.iter().for_each(Client::record_tasks);
        final_check::final_check(self, &world);

        let history = network.recorder().history();
        let mut violations = check(&history, &self.rules());
        violations.extend(self.check_waiting(&history));
        let lasted = simulation.now().elapsed_since_origin();
        Some(Report { experiment: self.clone(), plan, lasted, history, violations })
    }

    fn is_about_waiting(&self) -> bool {
        self.activity == Activity::Waiting
    }

    fn check_waiting(&self, history: &History) -> Vec<Violation> {
        if self.is_about_waiting() {
            check_waiting(history, &waiting::expectations(self))
        } else {
            Vec::new()
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            servers: self.servers,
            node_timeout: NODE_TIMEOUT,
            settled_after: SETTLED_AFTER,
            admission: self.has_admission(),
            watches_clocks: self.has_admission() && self.faults == Faults::Clocks,
            changes_nodes: self.change.is_some(),
        }
    }

    fn has_admission(&self) -> bool {
        self.admission.unwrap_or(self.faults.has_admission())
    }

    /// Returns the longest TTL of all clients, including the final check.
    fn longest_ttl(&self) -> Duration {
        let scripts = self.scripts.iter().flatten();
        scripts.map(|script| script.ttl).fold(self.longest_random_ttl(), Duration::max)
    }

    fn longest_random_ttl(&self) -> Duration {
        if self.is_about_waiting() { waiting::longest_ttl(self.seed) } else { LONGEST_TTL }
    }

    /// Returns the time from the first look at a server until its votes count again, if clients check servers.
    ///
    /// It is a tenth longer than the quarantine, for clocks that differ.
    fn quarantine(&self) -> Option<Duration> {
        self.has_admission().then(|| Quarantine::duration(self.longest_ttl()).mul_f64(1.1))
    }

    /// Adds the restarts of a change of the nodes to a plan.
    fn restarts(&self, plan: Plan) -> Plan {
        let Some(change) = &self.change else { return plan };
        (0..self.clients).fold(plan, |plan, client| {
            Change::restarts(change.times(self.seed, client, self.lasts), client, self.lasts, plan)
        })
    }

    fn scope(&self) -> Scope {
        let Self { servers, clients, resources, lasts, faults, .. } = *self;
        Scope { servers, clients, resources, lasts, longest_ttl: self.longest_random_ttl(), faults }
    }

    fn is_fenced(&self) -> bool {
        self.fenced.unwrap_or(self.faults.is_about_fencing())
    }
}
