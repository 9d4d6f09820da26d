//! The assumptions about clocks that are left if clients check whether servers may have lost locks.
//!
//! The wait for lost locks runs by the clocks of servers, unless a client has noticed the loss itself. With a check of the
//! clocks, a jump is a loss. What is left:
//!
//! - A client that begins to watch a clock after a jump does not notice it. It counts the server until another client
//!   renews the stamp.
//! - A server that has lost its fencing counters starts again from its clock. The wait covers a difference of 1.8 s.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Assumption, Rules, Violation};
use crate::history::{Event, EventKind, FaultKind, History, Place, TokenNumber};

/// The difference of clocks up to which the wait covers lost fencing counters. Their usual drift is subtracted.
const AGREE_WITHIN: Duration = Duration::from_millis(1_700);

/// Returns the assumption about clocks whose breach explains a violation after a loss.
pub(super) fn broken(history: &History, rules: &Rules, violation: &Violation) -> Option<Assumption> {
    let before = &history.0[..=violation.event.min(history.0.len().saturating_sub(1))];
    if !rules.watches_clocks {
        return corrected(before);
    }
    if violation.tokens.iter().any(|token| is_unwatched(before, *token)) {
        return Some(Assumption::ClocksAreWatched);
    }
    let disagree = violation.is_about_fencing() && forgets(before) && spread(before) > AGREE_WITHIN;
    disagree.then_some(Assumption::ClocksAgree)
}

/// Returns the assumption that the first correction of a clock breaks.
fn corrected(events: &[Event]) -> Option<Assumption> {
    events.iter().find_map(|event| match event.kind {
        EventKind::FaultBegins(_, FaultKind::Step(_)) => Some(Assumption::ClocksAreNotSet),
        EventKind::FaultBegins(_, FaultKind::Drift(_)) => Some(Assumption::ClocksRunEvenly),
        _ => None,
    })
}

/// Returns whether a claim has the vote of a server whose clock has jumped before its client watched it.
fn is_unwatched(events: &[Event], token: TokenNumber) -> bool {
    events.windows(2).any(|pair| match (&pair[0].kind, &pair[1].kind) {
        (
            EventKind::FaultBegins(Place::Between(client, server), FaultKind::Unwatched),
            EventKind::Received { request, .. },
        ) => (request.client, request.server, request.token) == (*client, *server, token),
        _ => false,
    })
}

/// Returns whether a server has lost counters, or has older ones.
fn forgets(events: &[Event]) -> bool {
    let forgets = |event: &Event| {
        matches!(event.kind, EventKind::FaultBegins(_, FaultKind::Amnesia(_) | FaultKind::Rollback))
    };
    events.iter().any(forgets)
}

/// Returns how far the clock of any server was set ahead, which bounds the difference of two clocks.
fn spread(events: &[Event]) -> Duration {
    let mut ahead: BTreeMap<Place, Duration> = BTreeMap::new();
    let mut slewed = BTreeMap::new();
    let end = events.last().map(|event| event.at);
    let mut slew = |place: Place, ppm: i32, lasts: Duration| {
        *ahead.entry(place).or_default() += lasts * ppm.unsigned_abs() / 1_000_000;
    };
    for Event { at, kind } in events {
        match kind {
            EventKind::FaultBegins(place, FaultKind::Drift(ppm)) => {
                slewed.insert(*place, (*at, *ppm));
            }
            EventKind::FaultEnds(place, FaultKind::Drift(_)) => {
                if let Some((since, ppm)) = slewed.remove(place) {
                    slew(*place, ppm, at.saturating_duration_since(since));
                }
            }
            EventKind::FaultBegins(place, FaultKind::Step(millis)) => {
                slew(*place, 1_000_000, Duration::from_millis(millis.unsigned_abs()));
            }
            _ => {}
        }
    }
    for (place, (since, ppm)) in slewed {
        slew(place, ppm, end.map_or(Duration::ZERO, |end| end.saturating_duration_since(since)));
    }
    ahead.into_values().max().unwrap_or_default()
}
