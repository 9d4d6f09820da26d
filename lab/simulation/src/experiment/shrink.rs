//! The reduction of a run with a violation to the fewest incidents that show the same violation.

use std::fmt;
use std::time::Duration;

use super::{Experiment, Report};
use crate::invariant::{Assumption, Invariant, Violation};
use crate::plan::{Faults, Incident, Plan};

/// The precision of the duration of a smaller run.
const PRECISION: Duration = Duration::from_millis(100);

/// The number of other seeds that are tried with a smaller plan.
const OTHER_SEEDS: u64 = 10;

/// A run that shows the same kind of violation as a larger one.
///
/// Without any single incident of its plan, the run would not show it. The violation may be another one of the same
/// invariant.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smaller run.
    pub report: Report,
    /// The number of runs that the search took.
    pub runs: usize,
    before: Size,
    after: Size,
}

#[derive(Clone, Copy, Debug)]
struct Size {
    incidents: usize,
    clients: usize,
    servers: usize,
    lasts: Duration,
}

impl Report {
    /// Returns the smallest run found that violates the same invariant, with the same broken assumption or none.
    ///
    /// The search removes incidents, clients, servers, resources, time, and faults of messages and clocks, until nothing more
    /// can go. Without an incident, the later events of a seed are others, so the search also tries the next ten seeds. It
    /// takes some hundred runs: seconds, and for the whole stack up to a minute.
    ///
    /// # Panics
    ///
    /// Same as [`Experiment::run`].
    pub fn shrink(&self, violation: &Violation) -> Shrunk {
        let (wanted, before) = ((violation.invariant, violation.broken), self.size());
        let mut search = Search { wanted, best: self.clone(), runs: 0 };
        // The result has an explicit plan, even if nothing can be removed.
        search.best.experiment = search.with_plan(self.plan.clone());
        while search.shrink_once() {}
        Shrunk { before, after: search.best.size(), report: search.best, runs: search.runs }
    }

    fn size(&self) -> Size {
        let Experiment { clients, servers, lasts, .. } = self.experiment;
        Size { incidents: self.plan.incidents().len(), clients, servers, lasts }
    }
}

struct Search {
    wanted: (Invariant, Option<Assumption>),
    best: Report,
    runs: usize,
}

impl Search {
    /// Tries each kind of reduction. Returns whether any was possible. Incidents are the last, so that the plan is the
    /// smallest one for the final world.
    fn shrink_once(&mut self) -> bool {
        let tries: [fn(&mut Self) -> bool; 7] = [
            Self::end_earlier,
            Self::remove_incidents,
            Self::remove_clients,
            Self::remove_servers,
            Self::simplify,
            Self::end_earlier,
            Self::remove_incidents,
        ];
        tries.into_iter().filter(|reduce| reduce(self)).count() > 0
    }

    /// Runs a smaller experiment, with other seeds if necessary. Returns whether it shows the violation.
    fn holds(&mut self, smaller: &Experiment) -> bool {
        let seed = smaller.seed;
        for seed in seed..=seed.saturating_add(OTHER_SEEDS) {
            self.runs += 1;
            let report = smaller.clone().seed(seed).run();
            if report.violations.iter().any(|other| self.is_wanted(other)) {
                self.best = report;
                return true;
            }
        }
        false
    }

    fn is_wanted(&self, violation: &Violation) -> bool {
        (violation.invariant, violation.broken) == self.wanted
    }

    fn with_plan(&self, plan: Plan) -> Experiment {
        self.best.experiment.clone().plan(plan)
    }

    /// Removes halves of the incidents, then quarters, and so on, and single ones until none of them can go.
    fn remove_incidents(&mut self) -> bool {
        let mut size = self.best.plan.incidents().len();
        let mut has_shrunk = false;
        while size > 0 {
            let (mut begin, mut has_removed) = (0, false);
            while begin < self.best.plan.incidents().len() {
                let (removed, mut number) = (begin..begin + size, 0..);
                let plan = self.best.plan.filter(|_, _| !removed.contains(&number.next().unwrap_or(0)));
                if self.holds(&self.with_plan(plan)) {
                    has_removed = true;
                } else {
                    begin += size;
                }
            }
            has_shrunk |= has_removed;
            if size > 1 {
                size /= 2;
            } else if !has_removed {
                break;
            }
        }
        has_shrunk
    }

    /// Ends the run right after the violation, or earlier if another one shows by then.
    fn end_earlier(&mut self) -> bool {
        let mut has_shrunk = false;
        loop {
            let lasts = self.best.experiment.lasts;
            let shown = self.best.violations.iter().find(|violation| self.is_wanted(violation));
            let at = shown.map_or(lasts, |one| self.best.history.0[one.event].at.elapsed_since_origin());
            let shorter = [at + PRECISION, lasts / 2, lasts * 3 / 4, lasts.saturating_sub(PRECISION)];
            let is_done = !shorter.into_iter().any(|shorter| {
                let steps = shorter.as_millis() / PRECISION.as_millis();
                let shorter = PRECISION * u32::try_from(steps).unwrap_or(u32::MAX);
                !shorter.is_zero() && shorter < lasts && self.holds(&self.until(shorter))
            });
            if is_done {
                return has_shrunk;
            }
            has_shrunk = true;
        }
    }

    /// Returns the experiment with an earlier end, without the incidents after it.
    fn until(&self, lasts: Duration) -> Experiment {
        self.with_plan(self.best.plan.filter(|when, _| when < lasts)).lasts(lasts)
    }

    fn remove_clients(&mut self) -> bool {
        let mut has_shrunk = false;
        while self.best.experiment.clients > 1 && self.best.experiment.scripts.is_none() {
            let clients = self.best.experiment.clients - 1;
            let exists = |incident: &Incident| incident.client().is_none_or(|client| client < clients);
            let plan = self.best.plan.filter(|_, incident| exists(incident));
            if !self.holds(&self.with_plan(plan).clients(clients)) {
                break;
            }
            has_shrunk = true;
        }
        has_shrunk
    }

    fn remove_servers(&mut self) -> bool {
        let mut has_shrunk = false;
        while self.best.experiment.servers > 1 {
            let servers = self.best.experiment.servers - 1;
            let exists = |incident: &Incident| incident.server().is_none_or(|server| server < servers);
            let plan = self.best.plan.filter(|_, incident| exists(incident));
            if !self.holds(&self.with_plan(plan).servers(servers)) {
                break;
            }
            has_shrunk = true;
        }
        has_shrunk
    }

    /// Returns the experiment with calm messages and clocks. The settings that depend on the faults stay the same.
    fn calm(&self) -> Experiment {
        let before = self.with_plan(self.best.plan.clone());
        let (is_fenced, has_admission) = (before.is_fenced(), before.has_admission());
        let ttl = before.shortest_ttl_of_clients();
        let mut calm = before.faults(Faults::None);
        if calm.is_fenced() != is_fenced {
            calm = calm.fenced(is_fenced);
        }
        if calm.has_admission() != has_admission {
            calm = if has_admission { calm.with_admission() } else { calm.without_admission() };
        }
        if calm.shortest_ttl_of_clients() == ttl { calm } else { calm.shortest_ttl(ttl) }
    }

    /// Tries one resource, no notifications, and a network and clocks without faults of their own.
    fn simplify(&mut self) -> bool {
        let mut has_shrunk = self.best.experiment.faults != Faults::None && self.holds(&self.calm());
        if self.best.experiment.resources > 1 {
            let is_there =
                |incident: &Incident| !matches!(incident, Incident::WrongType { resource: 1.., .. });
            let plan = self.best.plan.filter(|_, incident| is_there(incident));
            has_shrunk |= self.holds(&self.with_plan(plan).resources(1));
        }
        if self.best.experiment.notifies.is_none() {
            has_shrunk |= self.holds(&self.best.experiment.clone().notifies(false));
        }
        has_shrunk
    }
}

impl fmt::Display for Shrunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, after, runs, .. } = self;
        let sizes = [
            format!("incidents {} -> {}", before.incidents, after.incidents),
            format!("clients {} -> {}", before.clients, after.clients),
            format!("nodes {} -> {}", before.servers, after.servers),
            format!("time {:?} -> {:?}", before.lasts, after.lasts),
        ];
        writeln!(f, "shrunk in {runs} runs: {}", sizes.join(", "))?;
        writeln!(f, "plan:\n{}", self.report.plan)?;
        write!(f, "{}", self.report)
    }
}
