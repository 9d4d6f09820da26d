//! Waiting: a lock that is free is taken, whoever waits is served, and waiting costs few requests.
//!
//! For one resource that clients want all the time, after the last fault. How much may be expected depends on what the
//! servers tell of changes: what is never told costs the time after which core tries all the same, and where so much is told
//! in vain that nodes are left alone for a while, waiting is polling.
//!
//! While one lock stands nobody else can get it, so attempts are in vain then: there may be one each time that core tries in
//! case that the nodes tell nothing, and one at every fourth of the holder's extensions. And a node is asked again once a
//! change, or at growing intervals.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redlock_core::Instant;

use super::{Invariant, Violation};
use crate::Operation;
use crate::history::{History, Place, Request, TokenNumber, Trouble, What};

/// What may be expected of waiting.
#[derive(Clone, Copy, Debug)]
pub struct Expectations {
    /// From when on, counted from [`Calm`](What::Calm).
    pub settled_after: Duration,
    /// How soon a lock that is free is taken by one of those who wait.
    pub woken_within: Duration,
    /// How soon everybody who waits is served.
    pub served_within: Duration,
    /// Whether so much is told in vain that waiting is polling.
    pub blind: bool,
}

/// How long a lock has stood before everybody has taken note.
const NOTED_AFTER: Duration = Duration::from_secs(1);

/// When nodes tell nothing, core tries after so long.
const SAFETY: Duration = Duration::from_secs(5);

/// A node that tells of changes that are none is asked again after a fifth of a second, and sooner for the first times.
const GAP: Duration = Duration::from_millis(150);
const FIRST_TIMES: u32 = 16;

/// The lock that stands.
struct Standing {
    token: TokenNumber,
    holder: usize,
    since: Instant,
    /// Until when it is valid; `None` where it is kept alive.
    until: Option<Instant>,
    /// Extensions, by the requests to one server.
    extensions: BTreeSet<u64>,
    /// What the others have sent meanwhile.
    attempts: BTreeMap<usize, BTreeSet<TokenNumber>>,
    watches: BTreeMap<(usize, usize), u32>,
}

#[derive(Default)]
struct State {
    standing: Option<Standing>,
    /// Since when nobody has it.
    free: Option<Instant>,
    /// Who waits, and since when.
    waiting: BTreeMap<usize, Instant>,
}

/// Checks a run about waiting.
pub fn check(history: &History, expected: &Expectations) -> Vec<Violation> {
    let Some(calm) = history.0.iter().find(|event| event.what == What::Calm) else { return Vec::new() };
    let settled = calm.at + expected.settled_after;
    let mut state = State::default();
    let mut violations = Vec::new();
    for (event, entry) in history.0.iter().enumerate() {
        state.pass(entry.at);
        let wrong = state.apply(&entry.what, entry.at, settled, expected);
        violations.extend(wrong.into_iter().map(|(invariant, what)| Violation {
            invariant,
            broken: None,
            what,
            tokens: entry.what.token().into_iter().collect(),
            event,
        }));
    }
    violations
}

impl State {
    /// Time has passed: a lock may have expired.
    fn pass(&mut self, now: Instant) {
        let until = self.standing.as_ref().and_then(|standing| standing.until);
        if let Some(until) = until.filter(|until| *until <= now) {
            (self.standing, self.free) = (None, Some(until));
        }
    }

    fn apply(
        &mut self,
        what: &What,
        at: Instant,
        settled: Instant,
        expected: &Expectations,
    ) -> Vec<(Invariant, String)> {
        match *what {
            What::Asked { client, .. } => {
                self.waiting.insert(client, at);
            }
            What::NotGranted { client, .. } | What::Strikes(Place::Client(client), Trouble::Kill) => {
                self.waiting.remove(&client);
            }
            What::Granted { client, token, until, .. } => {
                let wrong = self.granted(client, at, settled, expected);
                self.standing = Some(Standing::new(token, client, at, until));
                return wrong;
            }
            What::KeepsAlive { token, .. } => {
                if let Some(standing) = self.standing.as_mut().filter(|standing| standing.token == token) {
                    standing.until = None;
                }
            }
            What::Releasing { token, .. }
                if self.standing.as_ref().is_some_and(|standing| standing.token == token) =>
            {
                self.free = Some(at);
                let standing = self.standing.take().filter(|standing| standing.since >= settled);
                return standing.map_or_else(Vec::new, |standing| standing.costs(at, expected));
            }
            What::Sent(request) => {
                if let Some(standing) = &mut self.standing {
                    standing.sent(request, at);
                }
            }
            _ => {}
        }
        Vec::new()
    }

    /// Somebody has got it.
    fn granted(
        &mut self,
        client: usize,
        at: Instant,
        settled: Instant,
        expected: &Expectations,
    ) -> Vec<(Invariant, String)> {
        let mut wrong = Vec::new();
        let first = self.waiting.values().min().copied();
        let free = self.free.take().zip(first).map(|(free, first)| free.max(first));
        if let Some(free) = free.filter(|free| *free >= settled) {
            let took = at.saturating_duration_since(free);
            if took > expected.woken_within {
                wrong.push((Invariant::Waking, format!("free for {took:?} while somebody waited for it")));
            }
        }
        let asked = self.waiting.remove(&client).filter(|asked| *asked >= settled);
        let waited = asked.map_or(Duration::ZERO, |asked| at.saturating_duration_since(asked));
        if waited > expected.served_within {
            wrong.push((Invariant::Fairness, format!("c{client} has waited for {waited:?}")));
        }
        wrong
    }
}

impl Standing {
    fn new(token: TokenNumber, holder: usize, since: Instant, until: Instant) -> Self {
        let (extensions, attempts, watches) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        Self { token, holder, since, until: Some(until), extensions, attempts, watches }
    }

    fn sent(&mut self, request: Request, at: Instant) {
        let Request { client, server, operation, token, call } = request;
        if operation == Operation::Extend && server == 0 && token == self.token {
            self.extensions.insert(call);
        }
        if client == self.holder || at < self.since + NOTED_AFTER {
            return;
        }
        match operation {
            Operation::Acquire => {
                self.attempts.entry(client).or_default().insert(token);
            }
            Operation::Watch => *self.watches.entry((client, server)).or_default() += 1,
            _ => {}
        }
    }

    /// What is wrong with what waiting for it has cost.
    fn costs(self, at: Instant, expected: &Expectations) -> Vec<(Invariant, String)> {
        let lasted = at.saturating_duration_since(self.since);
        let times = |every: Duration| u32::try_from(lasted.as_nanos() / every.as_nanos()).unwrap_or(u32::MAX);
        let extensions = u32::try_from(self.extensions.len()).unwrap_or(u32::MAX);
        let mut wrong = Vec::new();
        // Servers that come back tell of changes too: that they were gone.
        let most = 4 + times(SAFETY) + times(NOTED_AFTER) + extensions / 4;
        for (client, attempts) in &self.attempts {
            let attempts = attempts.len();
            if !expected.blind && attempts > most as usize {
                let what =
                    format!("c{client} tried {attempts} times in {lasted:?}, in vain: {most} would do");
                wrong.push((Invariant::Thrift, what));
            }
        }
        let most = FIRST_TIMES + extensions + times(GAP) + most;
        for ((client, server), watches) in self.watches.iter().filter(|(_, watches)| **watches > most) {
            let what = format!("c{client} asked n{server} {watches} times in {lasted:?}: {most} would do");
            wrong.push((Invariant::Thrift, what));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::super::story::Story;
    use super::*;

    fn violations(story: Story) -> Vec<Invariant> {
        let millis = Duration::from_millis;
        let (settled_after, woken_within, served_within) = (millis(10), millis(100), millis(9_000));
        let expected = Expectations { settled_after, woken_within, served_within, blind: false };
        check(&story.history(), &expected).into_iter().map(|violation| violation.invariant).collect()
    }

    /// From 20 on client 0 holds, and client 1 asks at 30.
    fn held(until: u64) -> Story {
        Story::default().calm(5).asked(15, 0).granted(20, 0, 0, until).asked(30, 1)
    }

    #[test]
    fn a_lock_that_is_free_is_taken() {
        assert_eq!(0, violations(held(5_000).releasing(40, 0, 0).granted(140, 1, 1, 9_000)).len());
        let late = held(5_000).releasing(40, 0, 0).granted(141, 1, 1, 9_000);
        assert_eq!(vec![Invariant::Waking], violations(late));
        assert_eq!(vec![Invariant::Waking], violations(held(40).granted(141, 1, 1, 9_000)), "it had expired");
        let nobody = Story::default().calm(5).granted(20, 0, 0, 900).releasing(40, 0, 0).asked(200, 1);
        assert_eq!(0, violations(nobody.granted(201, 1, 1, 9_000)).len(), "nobody waited before");
        let dead = held(5_000).killed(35, 1).releasing(40, 0, 0).asked(400, 0).granted(401, 0, 1, 9_000);
        assert_eq!(0, violations(dead).len(), "who waited is dead");
    }

    #[test]
    fn whoever_waits_is_served() {
        let served = |at| held(9_999).releasing(at - 1, 0, 0).granted(at, 1, 1, 20_000);
        assert_eq!(0, violations(served(9_030)).len());
        assert_eq!(vec![Invariant::Fairness], violations(served(9_031)));
    }

    #[test]
    fn attempts_in_vain_are_few() {
        let tries = |count: u32| {
            let tried = (0..count).fold(held(9_999), |story, token| story.sent(2_000, 1, 0, 100 + token));
            violations(tried.releasing(3_000, 0, 0).granted(3_001, 1, 1, 9_999))
        };
        // Four, and one for every second.
        assert_eq!((0, vec![Invariant::Thrift]), (tries(6).len(), tries(7)));
    }
}
