//! The faults of a run and their times, drawn from a seed or written by hand.
//!
//! ```
//! use std::time::Duration;
//! use redlock_simulation::plan::{Incident, Plan};
//! use redlock_simulation::server::Persistence;
//!
//! let plan = Plan::new()
//!     .at(Duration::from_secs(1), Incident::Hang { server: 0, lasts: Duration::from_secs(5) })
//!     .at(Duration::from_secs(2), Incident::Crash { server: 1, persistence: Persistence::All, lasts: Duration::from_secs(1) });
//! let text = "at 1s n0 hangs for 5s\nat 2s n1 crashes for 1s and keeps All\n";
//! assert_eq!(text, plan.to_string());
//! assert_eq!(Ok(plan), text.parse());
//! ```

mod draw;
mod text;

use std::fmt;
use std::time::Duration;

pub use self::draw::Scope;
use crate::invariant::Assumption;
use crate::network::Direction;
use crate::server::Persistence;

/// The incidents of a run, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan(Vec<(Duration, Incident)>);

/// A fault, either momentary or with a duration.
///
/// `lasts` is the duration, or the time until the restart. `way` is `None` for both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names of the fields
pub enum Incident {
    /// A server crashes and restarts. If it is already down, this has no effect.
    Crash { server: usize, persistence: Persistence, lasts: Duration },
    /// A server is stopped for a while.
    Hang { server: usize, lasts: Duration },
    /// A server loses its keys at once.
    Flush { server: usize },
    /// The data of a server is copied.
    Copy { server: usize },
    /// A server becomes a replica with an older copy of its data, and later the master again.
    Failback { server: usize, lasts: Duration },
    /// A server loses its locks at once, and keeps its counters.
    Evict { server: usize },
    /// A server loses its counters at once, and keeps its locks.
    Forget { server: usize },
    /// A server has no memory for a while.
    OutOfMemory { server: usize, lasts: Duration },
    /// A server rejects writes for a while.
    ReadOnly { server: usize, lasts: Duration },
    /// Another program stores a non-lock value under a resource name for a while. If the resource is locked, this has
    /// no effect.
    WrongType { server: usize, resource: usize, lasts: Duration },
    /// A server's wall clock is set, to an earlier time if the number is negative.
    Step { server: usize, millis: i64 },
    /// A server's wall clock runs fast for a while, as a time service slews it: by these parts per
    /// million.
    Slew { server: usize, ppm: i32, lasts: Duration },
    /// All messages from a client to a server, or back, or both are lost.
    Partition { client: usize, server: usize, way: Option<Direction>, lasts: Duration },
    /// Messages are lost, repeated and held up far more often.
    Storm { lasts: Duration },
    /// A client's program is stopped.
    Pause { client: usize, lasts: Duration },
    /// A client's machine is suspended.
    Suspend { client: usize, lasts: Duration },
    /// A client's program is killed and restarted.
    Kill { client: usize, lasts: Duration },
}

/// The kinds of faults in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faults {
    /// No faults, on a network that loses nothing.
    None,
    /// All faults under which the assumptions of a lock hold: no violation may occur.
    #[default]
    Bounded,
    /// The same with fencing tokens, and servers that lose their data at any time. They restart empty, in part or with an
    /// older copy, are flushed, or fail over and back. No violation may occur, since clients check whether servers may
    /// have lost locks.
    Losses,
    /// The losses of `Losses`, without fencing tokens, and wall clocks of any number of servers that step forward or run fast
    /// at any time. No violation may occur, since clients watch the clocks.
    Clocks,
    /// The same as `Bounded` with fencing tokens, lost locks, and clocks that are wrong and are set. Locks may overlap. Their
    /// fencing tokens, and the resources that check them, must stay correct.
    Fencing,
    /// The same, except that clocks differ only slightly. Servers also lose the counters of fencing tokens, and stay
    /// out for long enough.
    LateRestarts,
    /// The faults of `Bounded`, and some that break an assumption: violations are expected.
    Violating(Assumption),
}

impl Plan {
    /// Creates a plan without incidents.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an incident at a time after the beginning.
    #[must_use]
    pub fn at(mut self, when: Duration, incident: Incident) -> Self {
        self.0.push((when, incident));
        self.0.sort_by_key(|(when, _)| *when);
        self
    }

    /// Returns the plan with those incidents, each with its time, for which `keeps` returns `true`.
    #[must_use]
    pub fn filter(&self, mut keeps: impl FnMut(Duration, &Incident) -> bool) -> Self {
        let kept = self.0.iter().filter(|(when, incident)| keeps(*when, incident));
        Self(kept.cloned().collect())
    }

    /// Returns the incidents, in the order of time.
    pub fn incidents(&self) -> &[(Duration, Incident)] {
        &self.0
    }
}

impl Incident {
    /// Returns the duration; `None` for a momentary incident.
    pub fn lasts(&self) -> Option<Duration> {
        match *self {
            Self::Flush { .. }
            | Self::Copy { .. }
            | Self::Evict { .. }
            | Self::Forget { .. }
            | Self::Step { .. } => None,
            Self::Crash { lasts, .. }
            | Self::Failback { lasts, .. }
            | Self::Hang { lasts, .. }
            | Self::Slew { lasts, .. }
            | Self::OutOfMemory { lasts, .. }
            | Self::ReadOnly { lasts, .. }
            | Self::WrongType { lasts, .. }
            | Self::Partition { lasts, .. }
            | Self::Storm { lasts }
            | Self::Pause { lasts, .. }
            | Self::Suspend { lasts, .. }
            | Self::Kill { lasts, .. } => Some(lasts),
        }
    }
}

impl Incident {
    /// Returns the server, if the incident has one.
    pub fn server(&self) -> Option<usize> {
        match *self {
            Self::Crash { server, .. }
            | Self::Hang { server, .. }
            | Self::Flush { server }
            | Self::Copy { server }
            | Self::Failback { server, .. }
            | Self::Evict { server }
            | Self::Forget { server }
            | Self::OutOfMemory { server, .. }
            | Self::ReadOnly { server, .. }
            | Self::WrongType { server, .. }
            | Self::Step { server, .. }
            | Self::Slew { server, .. }
            | Self::Partition { server, .. } => Some(server),
            Self::Storm { .. } | Self::Pause { .. } | Self::Suspend { .. } | Self::Kill { .. } => None,
        }
    }

    /// Returns the client, if the incident has one.
    pub fn client(&self) -> Option<usize> {
        match *self {
            Self::Partition { client, .. }
            | Self::Pause { client, .. }
            | Self::Suspend { client, .. }
            | Self::Kill { client, .. } => Some(client),
            _ => None,
        }
    }
}

impl Faults {
    /// All settings, with their names on a command line.
    pub const ALL: [(&'static str, Self); 11] = [
        ("none", Self::None),
        ("bounded", Self::Bounded),
        ("losses", Self::Losses),
        ("clocks", Self::Clocks),
        ("fencing", Self::Fencing),
        ("late-restarts", Self::LateRestarts),
        ("counter-loss", Self::Violating(Assumption::CountersAreKept)),
        ("data-loss", Self::Violating(Assumption::DataIsKept)),
        ("clock-steps", Self::Violating(Assumption::ClocksAreNotSet)),
        ("clock-drift", Self::Violating(Assumption::ClocksRunEvenly)),
        ("careless-holders", Self::Violating(Assumption::HoldersCheckLeases)),
    ];

    /// Returns the setting of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(other, _)| *other == name).map(|(_, faults)| *faults)
    }

    /// Returns whether the setting is about fencing tokens.
    ///
    /// If so, clients acquire locks with and without them.
    pub fn is_about_fencing(self) -> bool {
        matches!(
            self,
            Self::Losses | Self::Fencing | Self::LateRestarts | Self::Violating(Assumption::CountersAreKept)
        )
    }

    /// Returns whether clients check whether servers may have lost locks, unless the experiment says otherwise.
    pub fn has_admission(self) -> bool {
        matches!(self, Self::Losses | Self::Clocks)
    }

    /// Returns whether the setting breaks an assumption on purpose.
    pub fn breaks(self, assumption: Assumption) -> bool {
        self == Self::Violating(assumption)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, faults)| faults == self).map_or("network", |(name, _)| *name);
        f.write_str(name)
    }
}
