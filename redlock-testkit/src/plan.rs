//! What goes wrong in a run, and when: drawn from a seed, or written by hand.
//!
//! ```
//! use std::time::Duration;
//! use redlock_testkit::plan::{Incident, Plan};
//! use redlock_testkit::sim::Keeps;
//!
//! let plan = Plan::new()
//!     .at(Duration::from_secs(1), Incident::Hang { server: 0, lasts: Duration::from_secs(5) })
//!     .at(Duration::from_secs(2), Incident::Crash { server: 1, keeps: Keeps::All, lasts: Duration::from_secs(1) });
//! assert_eq!("at 1s n0 hangs for 5s\nat 2s n1 crashes for 1s and keeps All\n", plan.to_string());
//! ```

mod draw;

use std::fmt;
use std::time::Duration;

pub use self::draw::Scope;
use crate::invariant::Assumption;
use crate::sim::{Direction, Keeps};

/// What goes wrong, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan(Vec<(Duration, Incident)>);

/// One thing that goes wrong, for a while or at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incident {
    /// A server is gone for a while. One that is gone already stays so.
    Crash {
        /// Which.
        server: usize,
        /// What it still has when it is back.
        keeps: Keeps,
        /// For how long.
        lasts: Duration,
    },
    /// A server is stopped for a while.
    Hang {
        /// Which.
        server: usize,
        /// For how long.
        lasts: Duration,
    },
    /// A server loses its keys at once.
    Flush {
        /// Which.
        server: usize,
    },
    /// A server loses its locks at once, and keeps its counters.
    Evict {
        /// Which.
        server: usize,
    },
    /// A server loses its counters at once, and keeps its locks.
    Forget {
        /// Which.
        server: usize,
    },
    /// A server has no memory for a while.
    OutOfMemory {
        /// Which.
        server: usize,
        /// For how long.
        lasts: Duration,
    },
    /// A server takes no writes for a while.
    ReadOnly {
        /// Which.
        server: usize,
        /// For how long.
        lasts: Duration,
    },
    /// Another program uses the name of a resource for something else, and thinks better of it after a while.
    WrongType {
        /// At which server.
        server: usize,
        /// Which of the resources. Where a lock stands nothing happens.
        resource: usize,
        /// For how long.
        lasts: Duration,
    },
    /// A server's wall clock is set.
    Step {
        /// Which.
        server: usize,
        /// Forward by so many milliseconds, or back.
        millis: i64,
    },
    /// Nothing gets through from a client to a server, or back, or either.
    Partition {
        /// Which client.
        client: usize,
        /// Which server.
        server: usize,
        /// Which way; `None` for both.
        way: Option<Direction>,
        /// For how long.
        lasts: Duration,
    },
    /// Messages are lost, repeated and held up far more often.
    Storm {
        /// For how long.
        lasts: Duration,
    },
    /// A client's program is stopped.
    Pause {
        /// Which.
        client: usize,
        /// For how long.
        lasts: Duration,
    },
    /// A client's machine is suspended.
    Suspend {
        /// Which.
        client: usize,
        /// For how long.
        lasts: Duration,
    },
    /// A client's program dies and is started again.
    Kill {
        /// Which.
        client: usize,
        /// How long until it is started again.
        lasts: Duration,
    },
}

/// Which things may go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faults {
    /// Nothing, on a network that loses nothing.
    None,
    /// Everything that keeps the assumptions of a lock: no violation may be found.
    #[default]
    Bounded,
    /// That, and with fencing tokens: locks that are lost, clocks that are set and never were right. Locks may overlap;
    /// their fencing tokens and what checks them may not suffer.
    Fencing,
    /// The same, but for clocks: those differ by a bit. Servers also lose the counters that fencing tokens come from, and
    /// stay out for long enough.
    LateRestarts,
    /// That of `Bounded`, and what breaks an assumption: violations are expected.
    Breaking(Assumption),
}

impl Plan {
    /// Nothing goes wrong.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds something that goes wrong, so long after the beginning.
    #[must_use]
    pub fn at(mut self, when: Duration, incident: Incident) -> Self {
        self.0.push((when, incident));
        self.0.sort_by_key(|(when, _)| *when);
        self
    }

    /// What goes wrong, in the order of time.
    pub fn incidents(&self) -> &[(Duration, Incident)] {
        &self.0
    }
}

impl Incident {
    /// How long it lasts; `None` where it is over at once.
    pub fn lasts(&self) -> Option<Duration> {
        match *self {
            Self::Flush { .. } | Self::Evict { .. } | Self::Forget { .. } | Self::Step { .. } => None,
            Self::Crash { lasts, .. }
            | Self::Hang { lasts, .. }
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

impl Faults {
    /// Every setting, under the name that it has on a command line.
    pub const ALL: [(&'static str, Self); 9] = [
        ("none", Self::None),
        ("bounded", Self::Bounded),
        ("fencing", Self::Fencing),
        ("late-restarts", Self::LateRestarts),
        ("counter-loss", Self::Breaking(Assumption::CountersAreKept)),
        ("data-loss", Self::Breaking(Assumption::DataIsKept)),
        ("clock-steps", Self::Breaking(Assumption::ClocksAreNotSet)),
        ("clock-drift", Self::Breaking(Assumption::ClocksRunEvenly)),
        ("careless-holders", Self::Breaking(Assumption::HoldersLook)),
    ];

    /// The setting of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(other, _)| *other == name).map(|(_, faults)| *faults)
    }

    /// Whether it is about fencing tokens: clients take locks with and without them then.
    pub fn is_about_fencing(self) -> bool {
        matches!(self, Self::Fencing | Self::LateRestarts | Self::Breaking(Assumption::CountersAreKept))
    }

    /// Whether an assumption is broken on purpose.
    pub fn breaks(self, assumption: Assumption) -> bool {
        self == Self::Breaking(assumption)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, faults)| faults == self).map_or("network", |(name, _)| *name);
        f.write_str(name)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(when, incident)| writeln!(f, "at {when:?} {incident}"))
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash { server, keeps, lasts } => {
                write!(f, "n{server} crashes for {lasts:?} and keeps {keeps:?}")
            }
            Self::Hang { server, lasts } => write!(f, "n{server} hangs for {lasts:?}"),
            Self::Flush { server } => write!(f, "n{server} is flushed"),
            Self::Evict { server } => write!(f, "n{server} loses its locks"),
            Self::Forget { server } => write!(f, "n{server} loses its counters"),
            Self::OutOfMemory { server, lasts } => write!(f, "n{server} is out of memory for {lasts:?}"),
            Self::ReadOnly { server, lasts } => write!(f, "n{server} is read-only for {lasts:?}"),
            Self::WrongType { server, resource, lasts } => {
                write!(f, "r{resource} on n{server} is no lock for {lasts:?}")
            }
            Self::Step { server, millis } => write!(f, "the clock of n{server} steps by {millis} ms"),
            Self::Partition { client, server, way: None, lasts } => {
                write!(f, "nothing gets through between c{client} and n{server} for {lasts:?}")
            }
            Self::Partition { client, server, way: Some(Direction::Requests), lasts } => {
                write!(f, "nothing gets through from c{client} to n{server} for {lasts:?}")
            }
            Self::Partition { client, server, way: Some(Direction::Replies), lasts } => {
                write!(f, "nothing gets through from n{server} to c{client} for {lasts:?}")
            }
            Self::Storm { lasts } => write!(f, "a storm for {lasts:?}"),
            Self::Pause { client, lasts } => write!(f, "c{client} is paused for {lasts:?}"),
            Self::Suspend { client, lasts } => write!(f, "c{client} is suspended for {lasts:?}"),
            Self::Kill { client, lasts } => write!(f, "c{client} dies and starts again after {lasts:?}"),
        }
    }
}
