//! The invariants of every [history](crate::history), under all faults.
//!
//! | | Invariant | Variant |
//! |---|---|---|
//! | I1 | a resource has at most one valid holder | [`Invariant::Exclusion`] |
//! | I2 | no two claims of a resource have the same fencing token | [`Invariant::Unique`] |
//! | I3 | a grant that was reported before another began has the smaller fencing token | [`Invariant::Order`] |
//! | I4 | no fenced lease is extended once a newer one was granted | [`Invariant::Supersession`] |
//! | I5 | a resource that checks fencing tokens never goes backward | [`Invariant::Resource`] |
//! | I6 | the validity ends before the key expires, on every server that was counted | [`Invariant::Validity`] |
//! | I7 | once faults have ended and TTLs have passed, a lock is granted | [`Invariant::Liveness`] |
//! | I8 | completed operations leave no key and no task behind | [`Invariant::Leftovers`] |
//! | I9 | no client waits for a minority | [`Invariant::Minority`] |
//! | | a failure is never reported as contention, nor a held lease as lost or expired | [`Invariant::Honesty`] |
//! | | a waiter acquires a lock that becomes free | [`Invariant::Waking`] |
//! | | every waiter is served in the end, and in order | [`Invariant::Fairness`] |
//! | | waiting costs few requests | [`Invariant::Cost`] |
//! | | a request that arrives twice counts once | [`Invariant::Counting`] |
//!
//! Waking, fairness and cost apply to runs about [waiting](crate::experiment::Experiment::waiting).
//!
//! I2 to I5 hold as long as the counters are kept, regardless of locks and clocks. I5 also requires that holders write
//! their fencing token before their first read. I1 and I6 hold under assumptions: servers keep keys for their TTL, and
//! clocks keep within the drift factor. A violation names the [`Assumption`] that was broken before it. A violation
//! without a broken assumption is a defect of the lock.

mod clocks;
mod counting;
mod exclusion;
mod fencing;
#[cfg(test)]
pub(crate) mod history_builder;
pub(crate) mod holds;
mod honesty;
mod leftovers;
mod liveness;
mod minority;
mod outcomes;
pub(crate) mod prefix;
mod resource;
mod validity;
mod waiting;

use std::fmt;
use std::time::Duration;

pub use self::waiting::{Expectations, check as check_waiting};
use crate::history::{EventKind, FaultKind, History, TokenNumber};

named! {
    /// An invariant.
    pub enum Invariant {
        /// I1: a resource has at most one valid holder.
        Exclusion = "I1 exclusion",
        /// I2: no two claims of a resource have the same fencing token.
        Unique = "I2 unique tokens",
        /// I3: fencing tokens increase in the order of grants.
        Order = "I3 increasing tokens",
        /// I4: no fenced lease is extended once a newer one was granted.
        Supersession = "I4 supersession",
        /// I5: a resource that checks fencing tokens never goes backward.
        Resource = "I5 resource",
        /// I6: the validity ends before the key expires.
        Validity = "I6 validity",
        /// I7: a lock is granted once faults have ended and TTLs have passed.
        Liveness = "I7 liveness",
        /// I8: completed operations leave no key and no task behind.
        Leftovers = "I8 leftovers",
        /// I9: no client waits for a minority.
        Minority = "I9 minority",
        /// A failure is never reported as contention, nor a held lease as lost or expired.
        Honesty = "honesty",
        /// A waiter acquires a lock that becomes free.
        Waking = "waking",
        /// Every waiter is served in the end, and in order.
        Fairness = "fairness",
        /// Waiting costs few requests.
        Cost = "cost",
        /// A request that arrives twice counts once.
        Counting = "counting",
    }
}

/// The minimum downtime of a simulated server that has lost its counters.
///
/// It covers the granularity of the time with which counters begin (4.2 s). It also covers the difference between the
/// clocks of servers there, if they are not set.
pub const STAYS_OUT: Duration = Duration::from_secs(6);

named! {
    /// An assumption of a lock with a time limit.
    pub enum Assumption {
        /// No server loses a key within its TTL.
        DataIsKept = "nodes keep their data",
        /// No server's wall clock is set.
        ClocksAreNotSet = "clocks are not set",
        /// No clock runs faster or slower than the drift factor allows.
        ClocksRunEvenly = "clocks run evenly",
        /// A client counts a server whose clock has jumped only if it has watched the clock before, or if a client that has
        /// watched it has renewed the stamp.
        ClocksAreWatched = "clients have watched the clocks",
        /// The clocks of servers that lose fencing counters agree with the clocks of others.
        ClocksAgree = "the clocks of nodes agree",
        /// A holder that was stopped checks its lease before it continues.
        HoldersCheckLeases = "holders check their lease before they act",
        /// No server loses fencing counters, unless it stays out [long enough](STAYS_OUT), or replaces them by older ones.
        CountersAreKept = "nodes keep their counters",
        /// A holder writes its fencing token to the resource before its first read there.
        TokensComeFirst = "holders write their token before they read",
        /// No request is carried out more than a node timeout after it was sent, or for the second time. Its sender could not
        /// clean up after it.
        RequestsArriveSoon = "requests arrive soon",
    }
}

/// The parameters of a run for the invariants.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The number of servers.
    pub servers: usize,
    /// The configured node timeout.
    pub node_timeout: Duration,
    /// The time after [`Calm`](EventKind::Calm) at which every lock request must succeed.
    pub settled_after: Duration,
    /// `true` if clients check whether servers may have lost locks. Then lost data explains neither two holders nor a
    /// wrong fencing token, and a lost key alone violates nothing.
    pub admission: bool,
    /// `true` if clients also watch the clocks of servers, within the limits of that. Then a clock that steps forward or
    /// runs fast is no explanation, either.
    pub watches_clocks: bool,
    /// `true` if the nodes are changed. Invariants about the quorums of one list are then not checked: minority, honesty,
    /// validity and supersession.
    pub changes_nodes: bool,
}

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// The assumption that was broken before it; `None` for a defect.
    pub broken: Option<Assumption>,
    /// A description in one line.
    pub description: String,
    /// The tokens involved.
    pub tokens: Vec<TokenNumber>,
    /// The index of the event that shows the violation, so that no shorter prefix of the history does. If an event is
    /// missing at the end, this is the last event.
    pub event: usize,
}

/// Checks all invariants. The violations are in the order of the events that show them.
pub fn check(history: &History, rules: &Rules) -> Vec<Violation> {
    let mut violations = exclusion::check(history);
    violations.extend(fencing::check(history, rules));
    violations.extend(resource::check(history));
    violations.extend(counting::check(history));
    violations.extend(liveness::check(history, rules));
    violations.extend(leftovers::check(history, rules));
    if rules.changes_nodes {
        violations.retain(|violation| violation.invariant != Invariant::Supersession);
    } else {
        violations.extend(validity::check(history, rules));
        violations.extend(minority::check(history, rules));
        violations.extend(honesty::check(history, rules));
        violations.extend(outcomes::check(history, rules));
    }
    if rules.admission {
        violations.retain(|violation| !violation.is_harmless(rules));
        violations
            .iter_mut()
            .filter(|violation| violation.is_prevented(rules))
            .for_each(|violation| violation.broken = clocks::broken(history, rules, violation));
    }
    violations.sort_by_key(|violation| (violation.event, violation.invariant));
    violations
}

impl Invariant {
    /// Returns the invariant as a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Exclusion => "A resource has at most one valid holder.",
            Self::Unique => "No two claims of a resource have the same fencing token.",
            Self::Order => "Fencing tokens increase in the order of grants.",
            Self::Supersession => "No fenced lease is extended once a newer one was granted.",
            Self::Resource => "A resource that checks fencing tokens never goes backward.",
            Self::Validity => "A lease ends before its key expires, on every node whose vote counts.",
            Self::Liveness => "Once faults have ended and TTLs have passed, a lock is granted.",
            Self::Leftovers => "Completed operations leave no key and no task behind.",
            Self::Minority => "No client waits for a minority.",
            Self::Honesty => {
                "A failure is never reported as contention, nor a held lease as lost or expired."
            }
            Self::Waking => "A waiter acquires a lock that becomes free.",
            Self::Fairness => "Every waiter is served in the end, and in order.",
            Self::Cost => "Waiting costs few requests.",
            Self::Counting => "A request that arrives twice counts once.",
        }
    }
}

impl Violation {
    /// Returns whether restart admission makes the violation harmless, because a server that has lost a key does not count.
    fn is_harmless(&self, rules: &Rules) -> bool {
        self.invariant == Invariant::Validity && self.broken.is_some() && self.is_by_loss(rules)
    }

    /// Returns whether restart admission prevents the violation.
    fn is_prevented(&self, rules: &Rules) -> bool {
        let is_about_data = self.invariant == Invariant::Exclusion || self.is_about_fencing();
        is_about_data && (self.is_by_loss(rules) || self.broken == Some(Assumption::CountersAreKept))
    }

    /// Returns whether the cause is a lost key. A clock that has jumped may have lost it, too.
    fn is_by_loss(&self, rules: &Rules) -> bool {
        match self.broken {
            Some(Assumption::DataIsKept) => true,
            Some(Assumption::ClocksAreNotSet | Assumption::ClocksRunEvenly) | None => rules.watches_clocks,
            _ => false,
        }
    }

    fn is_about_fencing(&self) -> bool {
        use Invariant::{Order, Resource, Supersession, Unique};
        matches!(self.invariant, Unique | Order | Supersession | Resource)
    }
}

impl Rules {
    /// Returns the number of servers that form a quorum.
    pub fn quorum(&self) -> usize {
        self.servers / 2 + 1
    }
}

/// Returns the broken assumption that best explains a missing key of `token`.
///
/// Only the events up to `event` count.
fn excuse(history: &History, token: TokenNumber, event: usize) -> Option<Assumption> {
    let before = &history.0[..=event.min(history.0.len().saturating_sub(1))];
    let mut sent = false;
    let mut broken = None;
    for event in before {
        match event.kind {
            EventKind::Sent(request) if request.token == token => sent = true,
            EventKind::Lost { token: lost, .. } if lost == token => return Some(Assumption::DataIsKept),
            EventKind::FaultBegins(_, FaultKind::Step(_)) if sent => {
                broken = Some(Assumption::ClocksAreNotSet);
            }
            EventKind::FaultBegins(_, FaultKind::Drift(_)) if broken.is_none() => {
                broken = Some(Assumption::ClocksRunEvenly);
            }
            _ => {}
        }
    }
    broken
}

/// Returns the broken assumption if a server restarted too early without its counters, or with those of an older copy.
///
/// This explains any fencing token. Only the events up to `event` count.
fn forgotten(history: &History, event: usize) -> Option<Assumption> {
    let forgets = |kind: &EventKind| match kind {
        EventKind::FaultBegins(_, FaultKind::Amnesia(away)) => *away < STAYS_OUT,
        EventKind::FaultBegins(_, FaultKind::Rollback) => true,
        _ => false,
    };
    history.0[..=event].iter().any(|event| forgets(&event.kind)).then_some(Assumption::CountersAreKept)
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.description)?;
        match self.broken {
            Some(broken) => write!(f, " [broken assumption: {broken}]"),
            None => write!(f, " [no assumption was broken]"),
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
