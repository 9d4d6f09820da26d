//! The facts about each client of a run that follow from its whole history.

use std::collections::BTreeMap;
use std::time::Duration;

use redlock_core::runtime::Instant;
use redlock_simulation::history::{EventKind, FaultKind, Place, Request, TokenNumber};
use redlock_testkit::Operation;

use crate::world::{Happened, Moment, NODE_TIMEOUT};

/// The progress of a client that makes one request, according to its history.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) token: Option<TokenNumber>,
    pub(crate) requested: Option<Instant>,
    /// The time of the result of the request, and whether it is a lock.
    result: Option<(Instant, bool)>,
    /// The beginning of each round: of the attempt, then of the extensions.
    rounds: Vec<Instant>,
    /// The deadlines of the lease, each with the time from which it applies.
    deadlines: Vec<(Instant, Instant)>,
    /// The time from which the client does not rely on its lease.
    ended: Option<Instant>,
    /// The end of the time for which the client keeps its lock, if the operation succeeds.
    pub(crate) promised_until: Option<Instant>,
    /// True if the client has dropped this operation.
    has_dropped: bool,
    /// The time at which the client learned that its lock is kept.
    kept_from: Option<Instant>,
    ttl: Duration,
    /// The purpose of each call.
    calls: BTreeMap<u64, Call>,
    /// The number of each call, and the time at which it was sent, by purpose and server.
    sent: BTreeMap<(Call, usize), (u64, Instant)>,
    /// The calls whose reply the client has received, with the time.
    received: BTreeMap<u64, Instant>,
    /// The times at which connections to a server broke.
    breaks: Vec<(usize, Instant)>,
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Acquire,
    /// The number of the extension, from 1.
    Extend(usize),
    /// The number of the extension that it follows.
    Refill(usize),
    Keep,
    Other,
}

/// The state of a lease that a client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The request has no result.
    Requesting,
    /// The client holds a lock. It is valid or not.
    Held {
        valid: bool,
    },
    Ended,
}

/// The part of the TTL before the deadline in which a lease counts as lost in advance, or does not.
const MARGIN: f64 = 0.02;

/// The rounding of times.
const ROUNDING: Duration = Duration::from_millis(1);

/// Returns the facts of each client.
pub(crate) fn facts<const N: usize>(moments: &[Moment]) -> [Facts; N] {
    let mut facts: [Facts; N] = std::array::from_fn(|_| Facts::default());
    for moment in moments {
        let Happened::Event(event) = &moment.happened else { continue };
        if let Some(client) = client_of(event).filter(|client| *client < N) {
            facts[client].note(moment.at, event);
        }
    }
    facts
}

fn client_of(event: &EventKind) -> Option<usize> {
    match event {
        EventKind::Requested { client, .. }
        | EventKind::Granted { client, .. }
        | EventKind::NotGranted { client, .. }
        | EventKind::Extending { client, .. }
        | EventKind::Extended { client, .. }
        | EventKind::Releasing { client, .. }
        | EventKind::Keeping { client, .. }
        | EventKind::Noticed { client, .. }
        | EventKind::NotExtended { client, .. }
        | EventKind::Kept { client, .. }
        | EventKind::FaultBegins(Place::Between(client, _), _)
        | EventKind::Received { request: Request { client, .. }, .. }
        | EventKind::Sent(Request { client, .. }) => Some(*client),
        _ => None,
    }
}

impl Facts {
    fn note(&mut self, at: Instant, event: &EventKind) {
        match *event {
            EventKind::Requested { ttl, .. } => {
                (self.requested, self.ttl) = (Some(at), ttl);
                self.rounds.push(at);
            }
            EventKind::Granted { until, .. } => {
                self.result = Some((at, true));
                self.deadlines.push((at, until));
            }
            EventKind::NotGranted { .. } => self.result = Some((at, false)),
            EventKind::Extending { .. } => self.rounds.push(at),
            EventKind::Extended { until, .. } => self.deadlines.push((at, until)),
            EventKind::Releasing { .. } | EventKind::Keeping { .. } => self.ended = Some(at),
            EventKind::Noticed { until, .. } => self.promised_until = Some(until),
            EventKind::Kept { .. } => self.kept_from = Some(at),
            EventKind::NotExtended { why: None, .. } => self.has_dropped = true,
            EventKind::FaultBegins(Place::Between(_, server), FaultKind::Disconnect) => {
                self.breaks.push((server, at));
            }
            EventKind::Sent(Request { operation, token, call, server, .. }) => {
                self.sent(at, operation, token, call, server);
            }
            EventKind::Received { request, .. } => drop(self.received.insert(request.call, at)),
            _ => {}
        }
    }

    fn sent(&mut self, at: Instant, operation: Operation, token: TokenNumber, call: u64, server: usize) {
        let round = self.rounds.len().saturating_sub(1);
        let purpose = match operation {
            Operation::Acquire if round == 0 => Call::Acquire,
            Operation::Acquire => Call::Refill(round),
            Operation::Extend => Call::Extend(round),
            Operation::Keep => Call::Keep,
            _ => Call::Other,
        };
        if operation == Operation::Acquire {
            let first = *self.token.get_or_insert(token);
            assert_eq!(first, token, "a request with a single attempt has one token");
        }
        self.sent.insert((purpose, server), (call, at));
        self.calls.insert(call, purpose);
    }

    /// Returns the purpose of a call.
    pub(crate) fn call(&self, request: &Request) -> Call {
        self.calls.get(&request.call).copied().unwrap_or(Call::Other)
    }

    /// Returns true if the client receives the reply to a call, sooner or later.
    pub(crate) fn receives(&self, call: u64) -> bool {
        self.received.contains_key(&call)
    }

    /// Returns true if the client receives the reply to a call when its lease may have been lost already.
    pub(crate) fn receives_late(&self, call: u64) -> bool {
        let deadline =
            |at: Instant| self.deadlines.iter().rfind(|(from, _)| *from < at).map(|(_, until)| *until);
        self.received
            .get(&call)
            .is_some_and(|at| deadline(*at).is_some_and(|until| until <= *at + self.margin()))
    }

    /// Returns true if the client does not wait for a reply any more that it has not received: the time limit has passed,
    /// or the connection broke.
    pub(crate) fn has_failed(&self, purpose: Call, server: usize, at: Instant) -> bool {
        // Without a connection, nothing was sent.
        let Some((call, sent)) = self.sent.get(&(purpose, server)) else { return true };
        let begun = match purpose {
            Call::Acquire => self.rounds[0],
            Call::Extend(round) => self.rounds[round],
            Call::Refill(_) | Call::Keep | Call::Other => *sent,
        };
        let is_broken = |(other, time): &(usize, Instant)| *other == server && (*sent..=at).contains(time);
        !self.receives(*call) && (at >= begun + NODE_TIMEOUT || self.breaks.iter().any(is_broken))
    }

    /// Returns the end of the validity of a round.
    pub(crate) fn validity_of(&self, round: usize) -> Option<Instant> {
        let validity = match (self.rounds.first(), self.deadlines.first()) {
            (Some(begun), Some((_, until))) => until.saturating_duration_since(*begun),
            // The clock drift factor is 1 %.
            _ => self.ttl.mul_f64(0.98),
        };
        self.rounds.get(round).map(|begun| *begun + validity)
    }

    /// Returns true if the validity of a round may have ended at a time.
    pub(crate) fn has_lapsed(&self, round: usize, at: Instant) -> bool {
        self.validity_of(round).is_some_and(|until| until <= at + self.margin())
    }

    /// Returns what the client knows at a time; `None` at the moment of a change.
    pub(crate) fn known(&self, at: Instant) -> Option<Known> {
        if self.requested? >= at || self.result.is_some_and(|(time, _)| time == at) || self.ended == Some(at)
        {
            return None;
        }
        let (_, granted) = match self.result {
            Some((time, granted)) if time < at => (time, granted),
            _ => return Some(Known::Requesting),
        };
        if !granted || self.ended.is_some_and(|ended| ended < at) {
            return Some(Known::Ended);
        }
        if self.deadlines.iter().any(|(from, _)| *from == at) {
            return None;
        }
        let (_, until) = *self.deadlines.iter().rfind(|(from, _)| *from < at)?;
        let valid = at + self.margin() < until;
        (valid || until + ROUNDING < at).then_some(Known::Held { valid })
    }

    /// Returns true if the lock is kept at a time.
    pub(crate) fn is_kept_at(&self, at: Instant) -> bool {
        self.kept_from.is_some_and(|from| from < at) && self.may_be_kept_at(at)
    }

    /// Returns true if the operation succeeds or is dropped, and the promised time has not ended.
    pub(crate) fn may_be_kept_at(&self, at: Instant) -> bool {
        (self.kept_from.is_some() || self.has_dropped) && self.promised_until.is_some_and(|until| at < until)
    }

    fn margin(&self) -> Duration {
        self.ttl.mul_f64(MARGIN) + ROUNDING
    }
}
