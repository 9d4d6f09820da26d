//! What must hold of every [history](crate::history), however much goes wrong.
//!
//! | | invariant | where |
//! |---|---|---|
//! | I1 | a resource has at most one valid holder | [`Invariant::Exclusion`] |
//! | I2 | no two claims of a resource have one fencing token | [`Invariant::Unique`] |
//! | I3 | a grant that was told before another began has the smaller fencing token | [`Invariant::Order`] |
//! | I4 | no fenced lease is extended once a newer one was granted | [`Invariant::Supersession`] |
//! | I5 | a resource that checks fencing tokens never goes backward | [`Invariant::Resource`] |
//! | I6 | validity ends before the key does, on every server that was counted | [`Invariant::Validity`] |
//! | I7 | once nothing goes wrong any more and TTLs have passed, a lock is granted | [`Invariant::Liveness`] |
//! | I8 | what has ended leaves no key behind | [`Invariant::Leftovers`] |
//! | I9 | nobody waits for a minority | [`Invariant::Minority`] |
//! | | a failure never reads as contention | [`Invariant::Honesty`] |
//! | | a lock that is free is taken by who waits for it | [`Invariant::Waking`] |
//! | | whoever waits is served in the end | [`Invariant::Fairness`] |
//! | | waiting costs little | [`Invariant::Thrift`] |
//! | | a request that arrives twice counts once | [`Invariant::Counting`] |
//!
//! Waking, fairness and thrift are of runs about [waiting](crate::experiment::Experiment::waiting).
//!
//! I2 to I5 hold as long as the counters are kept, whatever happens to locks and clocks, and I5 if holders write their fencing
//! token before they first read. I1 and I6 hold under assumptions: servers keep keys for their TTL, clocks keep within the drift factor. A violation
//! says which [`Assumption`] was broken before it; one without a broken assumption is a defect of the lock.

mod counting;
mod exclusion;
mod fencing;
pub(crate) mod holds;
mod honesty;
mod leftovers;
mod liveness;
mod minority;
pub(crate) mod prefix;
mod resource;
#[cfg(test)]
pub(crate) mod story;
mod validity;
mod waiting;

use std::fmt;
use std::time::Duration;

pub use self::waiting::{Expectations, check as check_waiting};

use crate::history::{History, TokenNumber, Trouble, What};

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// I1.
    Exclusion,
    /// I2.
    Unique,
    /// I3.
    Order,
    /// I4.
    Supersession,
    /// I5.
    Resource,
    /// I6.
    Validity,
    /// I7.
    Liveness,
    /// I8.
    Leftovers,
    /// I9.
    Minority,
    /// A failure never reads as contention.
    Honesty,
    /// A lock that is free is taken by who waits for it.
    Waking,
    /// Whoever waits is served in the end.
    Fairness,
    /// Waiting costs few requests.
    Thrift,
    /// A request that arrives twice counts once.
    Counting,
}

/// How long a server that has lost its counters must have stayed out before it is back, in simulated worlds: the step of the
/// time that counters begin with (4.2 s), and more than the clocks of servers differ there, if nobody sets them.
pub const STAYS_OUT: Duration = Duration::from_secs(6);

/// What a lock with a time limit takes for granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Assumption {
    /// No server loses a key within its TTL.
    DataIsKept,
    /// No server's wall clock is set.
    ClocksAreNotSet,
    /// No clock runs faster or slower than the drift factor allows for.
    ClocksRunEvenly,
    /// A holder that is stopped looks at its lease before it goes on.
    HoldersLook,
    /// No server loses the counters that fencing tokens come from, unless it stays out for [long enough](STAYS_OUT).
    CountersAreKept,
    /// A holder writes its fencing token to the resource before it first reads there.
    TokensComeFirst,
    /// No request is carried out when its sender can no longer know of it: more than a node timeout after it was sent,
    /// or for the second time.
    RequestsArriveSoon,
}

/// What the invariants have to know of a run.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How many servers there are.
    pub servers: usize,
    /// The configured node timeout.
    pub node_timeout: Duration,
    /// How long after [`Calm`](What::Calm) every request for a lock must succeed.
    pub settled_after: Duration,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// What was broken before it; `None` for a defect.
    pub broken: Option<Assumption>,
    /// What happened, in one line.
    pub what: String,
    /// The tokens that it is about.
    pub tokens: Vec<TokenNumber>,
    /// Which event of the history shows it: no shorter prefix of the history does. Where something has not happened by
    /// the end, that is the last event.
    pub event: usize,
}

/// Checks all invariants. Violations come in the order of the events that show them.
pub fn check(history: &History, rules: &Rules) -> Vec<Violation> {
    let mut violations = exclusion::check(history);
    violations.extend(fencing::check(history, rules));
    violations.extend(resource::check(history));
    violations.extend(counting::check(history));
    violations.extend(validity::check(history, rules));
    violations.extend(liveness::check(history, rules));
    violations.extend(leftovers::check(history, rules));
    violations.extend(minority::check(history, rules));
    violations.extend(honesty::check(history, rules));
    violations.sort_by_key(|violation| (violation.event, violation.invariant));
    violations
}

impl Rules {
    /// How many servers must agree.
    pub fn quorum(&self) -> usize {
        self.servers / 2 + 1
    }
}

/// The broken assumption that best explains why a key of `token` was gone when it should have stood, up to an event.
fn excuse(history: &History, token: TokenNumber, event: usize) -> Option<Assumption> {
    let before = &history.0[..=event.min(history.0.len().saturating_sub(1))];
    let mut sent = false;
    let mut broken = None;
    for event in before {
        match event.what {
            What::Sent(request) if request.token == token => sent = true,
            What::Lost { token: lost, .. } if lost == token => return Some(Assumption::DataIsKept),
            What::Strikes(_, Trouble::Step(_)) if sent => broken = Some(Assumption::ClocksAreNotSet),
            What::Strikes(_, Trouble::Drift(_)) if broken.is_none() => {
                broken = Some(Assumption::ClocksRunEvenly);
            }
            _ => {}
        }
    }
    broken
}

/// Whether a server has come back too early without its counters, up to an event: what explains any fencing token.
fn forgotten(history: &History, event: usize) -> Option<Assumption> {
    let early = |what: &What| matches!(what, What::Strikes(_, Trouble::Amnesia(away)) if *away < STAYS_OUT);
    history.0[..=event].iter().any(|event| early(&event.what)).then_some(Assumption::CountersAreKept)
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)?;
        match self.broken {
            Some(broken) => write!(f, " [{broken} was not kept]"),
            None => write!(f, " [no assumption was broken]"),
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusion => "I1 exclusion",
            Self::Unique => "I2 unique tokens",
            Self::Order => "I3 growing tokens",
            Self::Supersession => "I4 supersession",
            Self::Resource => "I5 resource",
            Self::Validity => "I6 validity",
            Self::Liveness => "I7 liveness",
            Self::Leftovers => "I8 leftovers",
            Self::Minority => "I9 minority",
            Self::Honesty => "honesty",
            Self::Waking => "waking",
            Self::Fairness => "fairness",
            Self::Thrift => "thrift",
            Self::Counting => "counting",
        })
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DataIsKept => "servers keep their data",
            Self::ClocksAreNotSet => "clocks are not set",
            Self::ClocksRunEvenly => "clocks run evenly",
            Self::HoldersLook => "holders look before they act",
            Self::CountersAreKept => "servers keep their counters",
            Self::TokensComeFirst => "holders write their token before they read",
            Self::RequestsArriveSoon => "requests arrive soon",
        })
    }
}
