//! The random selection of plans: one incident after another, with a weight for each kind.
//!
//! With bounded faults, a server that restarts without its data was down for longer than any TTL: the lost keys would
//! have expired. The clients of [`Faults::Losses`] and [`Faults::Clocks`] do not need this.

use std::time::Duration;

use super::{Faults, Incident, Plan};
use crate::invariant::{Assumption, STAYS_OUT};
use crate::network::Direction;
use crate::server::Persistence;

/// The parameters of a random plan.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// The number of servers.
    pub servers: usize,
    /// The number of clients.
    pub clients: usize,
    /// The number of resources.
    pub resources: usize,
    /// The time for which faults occur.
    pub lasts: Duration,
    /// The longest TTL of any lock.
    pub longest_ttl: Duration,
    /// The kinds of faults.
    pub faults: Faults,
}

#[derive(Clone, Copy)]
enum Kind {
    Crash,
    CrashWithoutData,
    Hang,
    CrashSoon,
    Flush,
    Copy,
    Failback,
    Evict,
    Forget,
    OutOfMemory,
    ReadOnly,
    WrongType,
    Step,
    Slew,
    Partition,
    Storm,
    Pause,
    Suspend,
    Kill,
}

/// The weights of the kinds with bounded faults. Those that leave requests with unknown outcome are most frequent.
const BOUNDED: [(u32, Kind); 11] = [
    (3, Kind::Crash),
    (3, Kind::CrashWithoutData),
    (5, Kind::Hang),
    (2, Kind::OutOfMemory),
    (2, Kind::ReadOnly),
    (3, Kind::WrongType),
    (5, Kind::Partition),
    (4, Kind::Storm),
    (3, Kind::Pause),
    (3, Kind::Suspend),
    (3, Kind::Kill),
];

/// The additional kinds of [`Faults::Losses`].
const LOSSES: [(u32, Kind); 4] =
    [(6, Kind::CrashSoon), (4, Kind::Flush), (6, Kind::Copy), (3, Kind::Failback)];

/// The longest step forward in milliseconds. Each plan has one of them: small steps are hard to notice.
const STEPS_FORWARD: [i64; 4] = [30, 100, 300, 8_000];

/// The greatest additional speed of a clock, in parts per million. Each plan has one of them.
const SLEWS: [i32; 3] = [10_000, 83_333, 300_000];

/// The corrections of clocks in a plan.
#[derive(Clone, Copy)]
struct Corrections {
    longest_step: i64,
    greatest_ppm: i32,
}

impl Plan {
    /// Draws a plan: on average an incident every second and a half.
    ///
    /// The generator is not that of the world. Thus the world of a seed is the same with a smaller plan.
    pub fn draw(seed: u64, scope: &Scope) -> Self {
        let mut plan = Self::new();
        if scope.faults == Faults::None || scope.servers == 0 || scope.clients == 0 || scope.resources == 0 {
            return plan;
        }
        let chance = &mut fastrand::Rng::with_seed(seed ^ 0x696e_6369_6465_6e74);
        let kinds = scope.kinds();
        let corrections = scope.corrections(chance);
        let mut when = Duration::ZERO;
        loop {
            when += Duration::from_millis(chance.u64(10..3_000));
            if when >= scope.lasts {
                return plan;
            }
            let incident = match scope.incident(pick(chance, &kinds), corrections, chance) {
                // The end of the run would restart it too early.
                Incident::Crash { server, lasts, .. } if when + lasts > scope.lasts => {
                    Incident::Crash { server, persistence: Persistence::All, lasts }
                }
                incident => incident,
            };
            if corrections.is_some() {
                // One cause often affects the clocks of several servers.
                for other in scope.elsewhere(&incident, chance) {
                    plan = plan.at(when, other);
                }
            }
            plan = plan.at(when, incident);
        }
    }
}

impl Scope {
    fn kinds(&self) -> Vec<(u32, Kind)> {
        let mut kinds = BOUNDED.to_vec();
        match self.faults {
            Faults::Violating(Assumption::DataIsKept) => kinds.extend([(20, Kind::Flush)]),
            Faults::Violating(Assumption::ClocksAreNotSet) => kinds.extend([(20, Kind::Step)]),
            Faults::Losses => kinds.extend(LOSSES),
            Faults::Clocks => {
                kinds.extend(LOSSES);
                kinds.extend([(14, Kind::Step), (8, Kind::Slew)]);
            }
            Faults::Fencing => kinds.extend([(12, Kind::Evict), (6, Kind::Step)]),
            Faults::LateRestarts => kinds.extend([(12, Kind::Evict), (12, Kind::CrashWithoutData)]),
            Faults::Violating(Assumption::CountersAreKept) => {
                kinds.extend([
                    (8, Kind::Evict),
                    (12, Kind::Forget),
                    (4, Kind::Flush),
                    (4, Kind::CrashWithoutData),
                ]);
            }
            Faults::Violating(Assumption::HoldersCheckLeases) => {
                kinds.extend([(15, Kind::Pause), (15, Kind::Suspend)]);
            }
            _ => {}
        }
        kinds
    }

    /// Draws the size of the corrections of clocks, if there are any.
    fn corrections(&self, chance: &mut fastrand::Rng) -> Option<Corrections> {
        (self.faults == Faults::Clocks).then(|| Corrections {
            longest_step: STEPS_FORWARD[chance.usize(..STEPS_FORWARD.len())],
            greatest_ppm: SLEWS[chance.usize(..SLEWS.len())],
        })
    }

    /// Draws the same correction on other servers, in half of the cases on none.
    fn elsewhere(&self, incident: &Incident, chance: &mut fastrand::Rng) -> Vec<Incident> {
        let of = |other: usize| match *incident {
            Incident::Step { server, millis } if server != other => {
                Some(Incident::Step { server: other, millis })
            }
            Incident::Slew { server, ppm, lasts } if server != other => {
                Some(Incident::Slew { server: other, ppm, lasts })
            }
            _ => None,
        };
        let corrected: Vec<_> = (0..self.servers).filter_map(of).collect();
        if corrected.is_empty() || chance.bool() {
            return Vec::new();
        }
        corrected.into_iter().filter(|_| chance.bool()).collect()
    }

    fn incident(&self, kind: Kind, corrections: Option<Corrections>, chance: &mut fastrand::Rng) -> Incident {
        let (server, client) = (chance.usize(..self.servers), chance.usize(..self.clients));
        let mut up_to = |millis: u64| Duration::from_millis(chance.u64(20..millis));
        match kind {
            Kind::Crash => Incident::Crash { server, persistence: Persistence::All, lasts: up_to(3_000) },
            Kind::CrashWithoutData => {
                let (away, more) = (2 * self.longest_ttl, up_to(1_000));
                let persistence = if chance.bool() { Persistence::Nothing } else { Persistence::Part };
                let soon = matches!(
                    self.faults,
                    Faults::Fencing | Faults::Violating(Assumption::DataIsKept | Assumption::CountersAreKept)
                );
                match self.faults {
                    Faults::Fencing if persistence == Persistence::Nothing => {
                        Incident::Crash { server, persistence: Persistence::Counters, lasts: more }
                    }
                    Faults::LateRestarts => Incident::Crash { server, persistence, lasts: STAYS_OUT + more },
                    _ => {
                        Incident::Crash { server, persistence, lasts: if soon { more } else { away + more } }
                    }
                }
            }
            Kind::CrashSoon => {
                let kept = [
                    Persistence::All,
                    Persistence::Part,
                    Persistence::Older,
                    Persistence::Older,
                    Persistence::Nothing,
                    Persistence::Nothing,
                ];
                let lasts = up_to(1_000);
                Incident::Crash { server, persistence: kept[chance.usize(..kept.len())].clone(), lasts }
            }
            Kind::Hang => Incident::Hang { server, lasts: up_to(6_000) },
            Kind::Flush => Incident::Flush { server },
            Kind::Copy => Incident::Copy { server },
            Kind::Failback => Incident::Failback { server, lasts: up_to(2_000) },
            Kind::Evict => Incident::Evict { server },
            Kind::Forget => Incident::Forget { server },
            Kind::OutOfMemory => Incident::OutOfMemory { server, lasts: up_to(3_000) },
            Kind::ReadOnly => Incident::ReadOnly { server, lasts: up_to(3_000) },
            Kind::WrongType => {
                let lasts = up_to(4_000);
                Incident::WrongType { server, resource: chance.usize(..self.resources), lasts }
            }
            Kind::Step => {
                let millis = match corrections {
                    Some(Corrections { longest_step, .. }) => chance.i64(1..=longest_step),
                    None => chance.i64(-2_000..8_000),
                };
                Incident::Step { server, millis }
            }
            Kind::Slew => {
                let greatest = corrections.map_or(SLEWS[0], |corrections| corrections.greatest_ppm);
                let lasts = up_to(15_000);
                Incident::Slew { server, ppm: chance.i32(1_000..=greatest), lasts }
            }
            Kind::Partition => {
                let lasts = up_to(4_000);
                let ways = [None, Some(Direction::Requests), Some(Direction::Replies)];
                Incident::Partition { client, server, way: ways[chance.usize(..ways.len())], lasts }
            }
            Kind::Storm => Incident::Storm { lasts: up_to(3_000) },
            Kind::Pause => Incident::Pause { client, lasts: up_to(6_000) },
            Kind::Suspend => Incident::Suspend { client, lasts: up_to(6_000) },
            Kind::Kill => Incident::Kill { client, lasts: up_to(2_000) },
        }
    }
}

fn pick(chance: &mut fastrand::Rng, kinds: &[(u32, Kind)]) -> Kind {
    let all: u32 = kinds.iter().map(|(weight, _)| weight).sum();
    let mut left = chance.u32(..all);
    for (weight, kind) in kinds {
        if left < *weight {
            return *kind;
        }
        left -= weight;
    }
    unreachable!("the drawn number is less than the sum of all weights")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(faults: Faults) -> Scope {
        let (lasts, longest_ttl) = (Duration::from_secs(20), Duration::from_secs(4));
        Scope { servers: 3, clients: 3, resources: 2, lasts, longest_ttl, faults }
    }

    fn plans(faults: Faults) -> impl Iterator<Item = Plan> {
        (0..200).map(move |seed| Plan::draw(seed, &scope(faults)))
    }

    #[test]
    fn bounded_plans_break_no_assumption() {
        let scope = scope(Faults::Bounded);
        for (when, incident) in plans(Faults::Bounded).flat_map(|plan| plan.0) {
            match incident {
                Incident::Flush { .. } | Incident::Step { .. } => panic!("{incident}"),
                Incident::Crash { persistence, lasts, .. } if persistence != Persistence::All => {
                    assert!(lasts >= 2 * scope.longest_ttl && when + lasts <= scope.lasts);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn counters_are_lost_only_by_the_faults_for_it() {
        let forgets = |incident: &Incident| match incident {
            Incident::Flush { .. } | Incident::Forget { .. } => true,
            Incident::Crash { persistence: Persistence::Nothing, lasts, .. } => *lasts < STAYS_OUT,
            _ => false,
        };
        let any = |faults| plans(faults).flat_map(|plan| plan.0).any(|(_, incident)| forgets(&incident));
        assert!(!any(Faults::Fencing) && !any(Faults::LateRestarts) && !any(Faults::Bounded));
        assert!(any(Faults::Violating(Assumption::CountersAreKept)));
        let out = |(_, incident): (_, Incident)| {
            matches!(incident, Incident::Crash { persistence: Persistence::Nothing, .. })
        };
        assert!(plans(Faults::LateRestarts).flat_map(|plan| plan.0).any(out));
    }

    #[test]
    fn clocks_are_corrected_forward_and_several_at_once() {
        let plans: Vec<_> = plans(Faults::Clocks).collect();
        let all = || plans.iter().flat_map(|plan| &plan.0);
        assert!(all().any(|(_, incident)| matches!(incident, Incident::Slew { .. })));
        assert!(
            all().all(|(_, incident)| !matches!(incident, Incident::Step { millis, .. } if *millis <= 0))
        );
        let is_step = |(_, incident): &&(Duration, Incident)| matches!(incident, Incident::Step { .. });
        let steps: Vec<_> = all().filter(is_step).collect();
        assert!(steps.windows(3).any(|steps| steps.iter().all(|(when, _)| *when == steps[0].0)));
        have_every_kind_of_loss(Faults::Clocks);
    }

    #[test]
    fn losses_have_every_kind_of_loss() {
        have_every_kind_of_loss(Faults::Losses);
    }

    fn have_every_kind_of_loss(faults: Faults) {
        let incidents: Vec<_> = plans(faults).flat_map(|plan| plan.0).map(|(_, incident)| incident).collect();
        let any = |is: fn(&Incident) -> bool| incidents.iter().any(is);
        assert!(any(|incident| matches!(incident, Incident::Flush { .. })));
        assert!(any(|incident| matches!(incident, Incident::Copy { .. })));
        assert!(any(|incident| matches!(incident, Incident::Failback { .. })));
        for kept in [Persistence::All, Persistence::Part, Persistence::Older, Persistence::Nothing] {
            let soon = |incident: &Incident| match incident {
                Incident::Crash { persistence, lasts, .. } => {
                    *persistence == kept && *lasts <= Duration::from_secs(1)
                }
                _ => false,
            };
            assert!(incidents.iter().any(soon), "{kept:?}");
        }
    }

    #[test]
    fn plans_have_incidents_and_depend_only_on_the_seed() {
        assert!(plans(Faults::Bounded).all(|plan| plan.incidents().len() >= 5));
        assert!(plans(Faults::Bounded).eq(plans(Faults::Bounded)));
        assert!(plans(Faults::None).all(|plan| plan.incidents().is_empty()));
    }
}
