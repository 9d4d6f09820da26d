//! Waiting: a free lock is acquired, every waiter is served, and waiting costs few requests.
//!
//! The checks are for one resource that clients request all the time, after the last fault. The expectations depend on
//! the notifications of the servers. A missing notification costs the interval after which the core polls anyway. With
//! many notifications without a cause, nodes are not watched for a while, so waiters poll.
//!
//! Waiters are in the order of their requests, except for turns that are open to all, for one turn that may be passing when a
//! request begins, and for one more whenever a server stops or returns.
//!
//! While a lock is held, no other client can acquire it, so attempts are useless. One is allowed each time that the
//! core polls because notifications may be missing, and one at every fourth extension of the holder. A node may be
//! watched again once per change, or at growing intervals.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use redlock_core::runtime::Instant;
use redlock_testkit::Operation;

use super::{Invariant, Violation};
use crate::history::{EventKind, FaultKind, History, Place, Request, TokenNumber};

/// The expectations of a run about waiting.
#[derive(Clone, Copy, Debug)]
pub struct Expectations {
    /// The start of the checks, counted from [`Calm`](EventKind::Calm).
    pub settled_after: Duration,
    /// The time limit for a waiter to acquire a free lock.
    pub woken_within: Duration,
    /// The time limit for every waiter to be served, if there is one.
    pub served_within: Option<Duration>,
    /// The limit of locks that are granted to requests that began later, if waiters are in order and no server stops or
    /// returns.
    pub overtaken_at_most: Option<usize>,
    /// The time limit for a client to connect to a server that returns.
    pub connected_within: Duration,
    /// `true` if waiters poll because many notifications have no cause.
    pub blind: bool,
}

/// The age of a lock at which all waiters know that it is held.
const NOTED_AFTER: Duration = Duration::from_secs(1);

/// The interval at which the core polls without notifications.
const SAFETY: Duration = Duration::from_secs(5);

/// The minimum interval of watches on a node that notifies without a cause.
///
/// The core waits a fifth of a second, and less at first.
const GAP: Duration = Duration::from_millis(150);
const FIRST_TIMES: u32 = 16;

/// The difference of two requests that count as simultaneous: what a round takes after the last fault.
const SAME_TIME: Duration = Duration::from_millis(10);

/// The lock that is held.
struct Standing {
    token: TokenNumber,
    holder: usize,
    since: Instant,
    /// The deadline; `None` if it is kept alive.
    until: Option<Instant>,
    /// The extensions that were sent to each server. Some servers may be down.
    extensions: BTreeMap<usize, u32>,
    /// The attempts of other clients meanwhile.
    attempts: BTreeMap<usize, BTreeSet<TokenNumber>>,
    watches: BTreeMap<(usize, usize), u32>,
    /// The attempts of other clients on each server meanwhile. A server without the lock may be reserved by each.
    changes: BTreeMap<usize, u32>,
}

#[derive(Default)]
struct State {
    standing: Option<Standing>,
    /// The time since which no client holds it.
    free: Option<Instant>,
    /// `true` if the next lock is granted out of order: no server has reserved the resource.
    is_open: bool,
    /// The waiters.
    waiting: BTreeMap<usize, Waiter>,
    /// The times at which a server stopped or returned.
    changes: Vec<Instant>,
}

/// A client that waits.
#[derive(Clone, Copy)]
struct Waiter {
    since: Instant,
    /// The number of locks that were granted meanwhile to requests that began later.
    overtaken: usize,
}

/// Checks a run about waiting.
pub fn check(history: &History, expected: &Expectations) -> Vec<Violation> {
    let Some(calm) = history.0.iter().find(|event| event.kind == EventKind::Calm) else { return Vec::new() };
    let settled = calm.at + expected.settled_after;
    let mut state = State::default();
    let mut violations = Vec::new();
    for (event, entry) in history.0.iter().enumerate() {
        state.pass(entry.at);
        let wrong = state.apply(&entry.kind, entry.at, settled, expected);
        violations.extend(wrong.into_iter().map(|(invariant, description)| Violation {
            invariant,
            broken: None,
            description,
            tokens: entry.kind.token().into_iter().collect(),
            event,
        }));
    }
    violations
}

impl State {
    /// Moves the time: a lock may have expired.
    fn pass(&mut self, now: Instant) {
        let until = self.standing.as_ref().and_then(|standing| standing.until);
        if let Some(until) = until.filter(|until| *until <= now) {
            (self.standing, self.free, self.is_open) = (None, Some(until), true);
        }
    }

    fn apply(
        &mut self,
        kind: &EventKind,
        at: Instant,
        settled: Instant,
        expected: &Expectations,
    ) -> Vec<(Invariant, String)> {
        match *kind {
            EventKind::Requested { client, .. } => {
                self.waiting.insert(client, Waiter { since: at, overtaken: 0 });
            }
            EventKind::NotGranted { client, .. } => drop(self.waiting.remove(&client)),
            EventKind::FaultBegins(Place::Client(client), FaultKind::Kill) => {
                self.waiting.remove(&client);
                self.is_open |= self.standing.as_ref().is_some_and(|standing| standing.holder == client);
            }
            EventKind::FaultBegins(Place::Server(_), FaultKind::Crash)
            | EventKind::FaultEnds(Place::Server(_), FaultKind::Crash) => {
                self.changes.push(at);
            }
            EventKind::Granted { client, token, until, .. } => {
                let wrong = self.granted(client, at, settled, expected);
                self.standing = Some(Standing::new(token, client, at, until));
                return wrong;
            }
            EventKind::KeepsAlive { token, .. } => {
                if let Some(standing) = self.standing.as_mut().filter(|standing| standing.token == token) {
                    standing.until = None;
                }
            }
            EventKind::Releasing { token, is_open, .. }
                if self.standing.as_ref().is_some_and(|standing| standing.token == token) =>
            {
                (self.free, self.is_open) = (Some(at), is_open);
                let standing = self.standing.take().filter(|standing| standing.since >= settled);
                return standing.map_or_else(Vec::new, |standing| standing.costs(at, expected));
            }
            EventKind::Sent(request) => {
                if let Some(standing) = &mut self.standing {
                    standing.sent(request, at);
                }
            }
            _ => {}
        }
        Vec::new()
    }

    /// Checks a grant.
    fn granted(
        &mut self,
        client: usize,
        at: Instant,
        settled: Instant,
        expected: &Expectations,
    ) -> Vec<(Invariant, String)> {
        let mut wrong = Vec::new();
        let first = self.waiting.values().map(|waiter| waiter.since).min();
        let free = self.free.take().zip(first).map(|(free, first)| free.max(first));
        if let Some(free) = free.filter(|free| *free >= settled) {
            let took = at.saturating_duration_since(free);
            if took > expected.woken_within {
                wrong.push((Invariant::Waking, format!("free for {took:?} while a client waited for it")));
            }
        }
        let Some(Waiter { since, overtaken }) = self.waiting.remove(&client) else { return wrong };
        if !mem::take(&mut self.is_open) {
            let earlier = self.waiting.values_mut().filter(|other| other.since + SAME_TIME < since);
            earlier.for_each(|waiter| waiter.overtaken += 1);
        }
        if since < settled {
            return wrong;
        }
        let waited = at.saturating_duration_since(since);
        if expected.served_within.is_some_and(|limit| waited > limit) {
            wrong.push((Invariant::Fairness, format!("c{client} has waited for {waited:?}")));
        }
        let changes = self.changes.iter().filter(|change| **change + expected.connected_within >= since);
        let most = expected.overtaken_at_most.map(|most| most + changes.count());
        if let Some(most) = most.filter(|most| overtaken > *most) {
            let description =
                format!("{overtaken} later requests have overtaken that of c{client}, at most {most} may");
            wrong.push((Invariant::Fairness, description));
        }
        wrong
    }
}

impl Standing {
    fn new(token: TokenNumber, holder: usize, since: Instant, until: Instant) -> Self {
        let (extensions, attempts) = (BTreeMap::new(), BTreeMap::new());
        let (watches, changes) = (BTreeMap::new(), BTreeMap::new());
        Self { token, holder, since, until: Some(until), extensions, attempts, watches, changes }
    }

    fn sent(&mut self, request: Request, at: Instant) {
        let Request { client, server, operation, token, .. } = request;
        if operation == Operation::Extend && token == self.token {
            *self.extensions.entry(server).or_default() += 1;
        }
        if client == self.holder || at < self.since + NOTED_AFTER {
            return;
        }
        match operation {
            Operation::Acquire => {
                *self.changes.entry(server).or_default() += 1;
                self.attempts.entry(client).or_default().insert(token);
            }
            Operation::Watch => *self.watches.entry((client, server)).or_default() += 1,
            _ => {}
        }
    }

    /// Checks the requests that waiting for the lock has cost.
    fn costs(self, at: Instant, expected: &Expectations) -> Vec<(Invariant, String)> {
        let lasted = at.saturating_duration_since(self.since);
        let times = |every: Duration| u32::try_from(lasted.as_nanos() / every.as_nanos()).unwrap_or(u32::MAX);
        let extensions = self.extensions.values().max().copied().unwrap_or_default();
        let mut wrong = Vec::new();
        // Recovered servers also cause notifications.
        let most = 4 + times(SAFETY) + times(NOTED_AFTER) + extensions / 4;
        for (client, attempts) in &self.attempts {
            let attempts = attempts.len();
            if !expected.blind && attempts > most as usize {
                let description = format!(
                    "c{client} made {attempts} useless attempts in {lasted:?}, at most {most} are needed"
                );
                wrong.push((Invariant::Cost, description));
            }
        }
        for ((client, server), watches) in &self.watches {
            let changes = self.changes.get(server).copied().unwrap_or_default();
            let most = FIRST_TIMES + extensions + times(GAP) + most + changes;
            if *watches <= most {
                continue;
            }
            let description = format!(
                "c{client} watched n{server} {watches} times in {lasted:?}, at most {most} are needed"
            );
            wrong.push((Invariant::Cost, description));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::super::history_builder::HistoryBuilder;
    use super::*;

    fn violations(builder: HistoryBuilder) -> Vec<Invariant> {
        let millis = Duration::from_millis;
        let expected = Expectations {
            settled_after: millis(10),
            woken_within: millis(100),
            served_within: Some(millis(9_000)),
            overtaken_at_most: Some(1),
            connected_within: Duration::ZERO,
            blind: false,
        };
        check(&builder.history(), &expected).into_iter().map(|violation| violation.invariant).collect()
    }

    /// Client 0 holds it from 20 on, and client 1 requests it at 30.
    fn held(until: u64) -> HistoryBuilder {
        HistoryBuilder::default().calm(5).requested(15, 0).granted(20, 0, 0, until).requested(30, 1)
    }

    #[test]
    fn a_free_lock_is_acquired() {
        assert_eq!(0, violations(held(5_000).releasing(40, 0, 0).granted(140, 1, 1, 9_000)).len());
        let late = held(5_000).releasing(40, 0, 0).granted(141, 1, 1, 9_000);
        assert_eq!(vec![Invariant::Waking], violations(late));
        assert_eq!(
            vec![Invariant::Waking],
            violations(held(40).granted(141, 1, 1, 9_000)),
            "the lock had expired"
        );
        let idle =
            HistoryBuilder::default().calm(5).granted(20, 0, 0, 900).releasing(40, 0, 0).requested(200, 1);
        assert_eq!(0, violations(idle.granted(201, 1, 1, 9_000)).len(), "no client waited before");
        let dead = held(5_000).killed(35, 1).releasing(40, 0, 0).requested(400, 0).granted(401, 0, 1, 9_000);
        assert_eq!(0, violations(dead).len(), "the waiter was killed");
    }

    #[test]
    fn every_waiter_is_served() {
        let served = |at| held(9_999).releasing(at - 1, 0, 0).granted(at, 1, 1, 20_000);
        assert_eq!(0, violations(served(9_030)).len());
        assert_eq!(vec![Invariant::Fairness], violations(served(9_031)));
    }

    #[test]
    fn one_later_request_may_overtake_unless_turns_are_open() {
        // Client 2 begins 20 ms after client 1, and acquires the lock first.
        let overtaken = |times: u64, end: fn(HistoryBuilder, u64, u32) -> HistoryBuilder| {
            let first = held(5_000).releasing(40, 0, 0);
            let all = (1..=times).fold(first, |builder, time| {
                let token = u32::try_from(time).expect("the number is small");
                let granted = builder.requested(50 * time, 2).granted(50 * time + 1, 2, token, 5_000);
                end(granted, 50 * time + 2, token)
            });
            violations(all.granted(50 * times + 3, 1, 100, 9_000))
        };
        let releases = |builder: HistoryBuilder, at, token| builder.releasing(at, 2, token);
        assert_eq!((0, vec![Invariant::Fairness]), (overtaken(1, releases).len(), overtaken(2, releases)));
        let opens = |builder: HistoryBuilder, at, token| builder.opening(at, 2, token);
        assert_eq!((0, vec![Invariant::Fairness]), (overtaken(2, opens).len(), overtaken(3, releases)));
        let restarts = |builder: HistoryBuilder, at, token| match token {
            1 => builder.releasing(at, 2, token).restarted(at, 0),
            _ => builder.releasing(at, 2, token),
        };
        assert_eq!((0, vec![Invariant::Fairness]), (overtaken(3, restarts).len(), overtaken(4, restarts)));
    }

    #[test]
    fn useless_attempts_are_few() {
        let requested_once = |count: u32| {
            let tried = (0..count).fold(held(9_999), |builder, token| builder.sent(2_000, 1, 0, 100 + token));
            violations(tried.releasing(3_000, 0, 0).granted(3_001, 1, 1, 9_999))
        };
        // The limit is four attempts, and one for every second.
        assert_eq!((0, vec![Invariant::Cost]), (requested_once(6).len(), requested_once(7)));
    }
}
