//! When which lease was valid, in true time.

use std::collections::HashMap;

use redlock_core::Instant;

use crate::history::{History, Place, TokenNumber, Trouble, What};

/// A stretch of time in which a client's lease is valid: from the moment at which it hears of it up to its deadline, or
/// until it lets go or dies. At `until` it is no longer valid.
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

/// All stretches, in the order in which they began. An extension of a lease that has expired begins another one.
pub(crate) fn holds(history: &History) -> Vec<Hold> {
    let mut holds: Vec<Hold> = Vec::new();
    let mut latest: HashMap<TokenNumber, usize> = HashMap::new();
    for (event, entry) in history.0.iter().enumerate() {
        match entry.what {
            What::Granted { client, resource, token, until } => {
                latest.insert(token, holds.len());
                holds.push(Hold { client, resource, token, from: entry.at, until, event });
            }
            What::Extended { token, until, .. } | What::Noticed { token, until, .. } => {
                let Some(index) = latest.get_mut(&token) else { continue };
                let hold = holds[*index];
                if hold.until >= entry.at {
                    holds[*index].until = hold.until.max(until);
                } else {
                    *index = holds.len();
                    holds.push(Hold { from: entry.at, until, event, ..hold });
                }
            }
            What::Releasing { token, .. } => {
                if let Some(index) = latest.remove(&token) {
                    holds[index].until = holds[index].until.min(entry.at);
                }
            }
            What::Strikes(Place::Client(dead), Trouble::Kill) => {
                latest.retain(|_, index| {
                    let hold = &mut holds[*index];
                    if hold.client == dead {
                        hold.until = hold.until.min(entry.at);
                    }
                    hold.client != dead
                });
            }
            _ => {}
        }
    }
    holds.retain(|hold| hold.from < hold.until);
    holds
}
