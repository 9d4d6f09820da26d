//! The keys on the servers with their periods, in true time.

use std::collections::{BTreeMap, BTreeSet};

use redlock_core::runtime::Instant;
use redlock_testkit::Operation;

use crate::history::{EventKind, History, Reply, Request, TokenNumber};

/// A period in which a server has a token under its resources.
///
/// If a crash deletes only some of them, the rest is not drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) server: usize,
    pub(super) token: TokenNumber,
    pub(super) from: Instant,
    pub(super) until: Instant,
}

pub(super) fn keys(history: &History) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    let mut latest: BTreeMap<(usize, TokenNumber), usize> = BTreeMap::new();
    for event in &history.0 {
        match event.kind {
            EventKind::CarriedOut { request: Request { server, token, .. }, until: Some(until), .. }
            | EventKind::Moved { server, token, until } => {
                let standing = latest.get(&(server, token)).filter(|index| keys[**index].until >= event.at);
                match standing {
                    Some(index) => keys[*index].until = until,
                    None => {
                        latest.insert((server, token), keys.len());
                        keys.push(Key { server, token, from: event.at, until });
                    }
                }
            }
            EventKind::CarriedOut {
                request: Request { server, operation: Operation::Release, token, .. },
                reply: Reply::Granted,
                ..
            }
            | EventKind::Lost { server, token } => {
                if let Some(index) = latest.remove(&(server, token)) {
                    keys[index].until = keys[index].until.min(event.at);
                }
            }
            _ => {}
        }
    }
    keys
}

/// Returns the servers and tokens of the votes that do not count, unless a later reply counts.
pub(super) fn uncounted(history: &History) -> BTreeSet<(usize, TokenNumber)> {
    let mut uncounted = BTreeSet::new();
    for event in &history.0 {
        let EventKind::Received { request: Request { server, token, operation, .. }, reply } = event.kind
        else {
            continue;
        };
        match reply {
            Reply::Uncounted => drop(uncounted.insert((server, token))),
            Reply::Granted | Reply::Counted(_) if operation != Operation::Release => {
                uncounted.remove(&(server, token));
            }
            _ => {}
        }
    }
    uncounted
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::invariant::history_builder::HistoryBuilder;

    #[test]
    fn a_key_lasts_until_it_expires_or_is_deleted() {
        let at = |millis| Instant::since_origin(Duration::from_millis(millis));
        let periods = |builder: HistoryBuilder| {
            let keys = keys(&builder.history()).into_iter();
            keys.map(|key| (key.from, key.until)).collect::<Vec<_>>()
        };
        let builder = || HistoryBuilder::default().carried(1, 0, 0, 7, 10);
        assert_eq!(vec![(at(1), at(10))], periods(builder()));
        assert_eq!(vec![(at(1), at(20))], periods(builder().carried(5, 0, 0, 7, 20)));
        assert_eq!(vec![(at(1), at(10)), (at(11), at(20))], periods(builder().carried(11, 0, 0, 7, 20)));
        assert_eq!(vec![(at(1), at(5))], periods(builder().deleted(5, 0, 0, 7)));
        assert_eq!(vec![(at(1), at(5))], periods(builder().lost(5, 0, 7)));
    }
}
