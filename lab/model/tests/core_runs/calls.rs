//! The calls of the whole stack.
//!
//! A server of the whole stack receives commands, which do not name their calls. The history takes the oldest call that no
//! server has carried out. If the command of that call was lost, a later call is carried out instead: one whose reply the
//! client receives.

use std::collections::{BTreeMap, BTreeSet};

use redlock_simulation::history::{Event, EventKind, Request};

/// Corrects the calls of requests that were carried out.
pub(crate) fn correct(history: &mut [Event]) {
    let mut received = BTreeMap::new();
    let mut carried_out = BTreeSet::new();
    for (number, event) in history.iter().enumerate() {
        match event.kind {
            EventKind::Received { request, .. } => drop(received.insert(request.call, number)),
            EventKind::CarriedOut { request, .. } => drop(carried_out.insert(request.call)),
            _ => {}
        }
    }
    let sent: Vec<(usize, Request)> = history
        .iter()
        .enumerate()
        .filter_map(|(number, event)| match event.kind {
            EventKind::Sent(request) => Some((number, request)),
            _ => None,
        })
        .collect();
    for (number, request) in sent {
        let Some(last) = received.get(&request.call).filter(|_| !carried_out.contains(&request.call)) else {
            continue;
        };
        let is_same = |other: &Request| Request { call: request.call, ..*other } == request;
        let other = history[number..*last].iter_mut().rev().find_map(|event| match &mut event.kind {
            EventKind::CarriedOut { request: other, .. }
                if is_same(other) && !received.contains_key(&other.call) =>
            {
                Some(other)
            }
            _ => None,
        });
        if let Some(other) = other {
            other.call = request.call;
        }
    }
}
