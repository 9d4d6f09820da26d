//! The validity periods of leases, and the periods for which locks are kept, in true time.

use std::collections::HashMap;
use std::ops::Range;

use redlock_core::runtime::Instant;

use crate::history::{EventKind, FaultKind, History, Place, TokenNumber};

/// A period in which a client's lease is valid.
///
/// It begins when the client learns of it, and ends at its deadline, its release, or the death of the client. At
/// `until` it is no longer valid. A lock that is kept has another period, which ends only at the promised time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) client: usize,
    pub(crate) resource: usize,
    pub(crate) token: TokenNumber,
    pub(crate) from: Instant,
    pub(crate) until: Instant,
    /// The event that began it.
    pub(crate) event: usize,
}

/// Returns all periods, in the order of their beginning. An extension of an expired lease begins another one.
pub(crate) fn holds(history: &History) -> Vec<Hold> {
    let mut holds: Vec<Hold> = Vec::new();
    // The latest periods of each token, one for each of its resources.
    let mut latest: HashMap<TokenNumber, Range<usize>> = HashMap::new();
    for (event, entry) in history.0.iter().enumerate() {
        match &entry.kind {
            EventKind::Granted { client, resources, token, until, .. } => {
                let (client, token, from, until) = (*client, *token, entry.at, *until);
                latest.insert(token, holds.len()..holds.len() + resources.len());
                let hold = |resource: &usize| Hold { client, resource: *resource, token, from, until, event };
                holds.extend(resources.iter().map(hold));
            }
            EventKind::Extended { token, until, .. } | EventKind::Noticed { token, until, .. } => {
                let Some(range) = latest.get_mut(token) else { continue };
                if holds[range.clone()].iter().all(|hold| hold.until >= entry.at) {
                    holds[range.clone()].iter_mut().for_each(|hold| hold.until = hold.until.max(*until));
                } else {
                    let again: Vec<_> = holds[range.clone()]
                        .iter()
                        .map(|hold| Hold { from: entry.at, until: *until, event, ..*hold })
                        .collect();
                    *range = holds.len()..holds.len() + again.len();
                    holds.extend(again);
                }
            }
            EventKind::Releasing { token, .. } => {
                let ended = latest.remove(token).unwrap_or_default();
                holds[ended].iter_mut().for_each(|hold| hold.until = hold.until.min(entry.at));
            }
            EventKind::Keeping { token, .. } => {
                let ended = latest.get(token).cloned().unwrap_or_default();
                holds[ended].iter_mut().for_each(|hold| hold.until = hold.until.min(entry.at));
            }
            EventKind::Kept { token, until, .. } => {
                let kept = latest.remove(token).unwrap_or_default();
                holds.extend_from_within(kept.clone());
                let count = holds.len() - kept.len();
                holds[count..]
                    .iter_mut()
                    .for_each(|hold| (hold.from, hold.until, hold.event) = (entry.at, *until, event));
            }
            EventKind::FaultBegins(Place::Client(dead), FaultKind::Kill) => {
                latest.retain(|_, range| {
                    let own = &mut holds[range.clone()];
                    for hold in own.iter_mut().filter(|hold| hold.client == *dead) {
                        hold.until = hold.until.min(entry.at);
                    }
                    own.iter().all(|hold| hold.client != *dead)
                });
            }
            _ => {}
        }
    }
    holds.retain(|hold| hold.from < hold.until);
    holds
}
