//! The failed attempts of clients: the votes of each, and the moment at which the client gives them back.
//!
//! A history has no event for them, because a client makes attempts until one succeeds or the request ends.

use std::collections::{BTreeMap, BTreeSet};

use redlock_testkit::Operation;

use crate::history::{Event, EventKind, FaultKind, History, Place, Reply, Request, TokenNumber};

/// An attempt that ended without a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// The index of the event before which the attempt has ended.
    pub event: usize,
    /// The client.
    pub client: usize,
    /// The token of the attempt.
    pub token: TokenNumber,
    /// The replies until then, in the order of servers; `None` without a reply.
    pub replies: BTreeMap<usize, Option<Reply>>,
    /// `true` if the client then releases the votes.
    pub releases: bool,
}

/// Returns all failed attempts, in the order of their ends.
///
/// An attempt has ended at its first release, at the next attempt, or with the request. Attempts of a killed client have
/// no end.
pub fn failed_attempts(history: &History) -> Vec<FailedAttempt> {
    let mut attempts = Attempts::default();
    for (index, event) in history.0.iter().enumerate() {
        attempts.read(index, event);
    }
    attempts.failed
}

/// The replies to the current attempt of a client.
struct Attempt {
    token: TokenNumber,
    replies: BTreeMap<usize, Option<Reply>>,
}

#[derive(Default)]
struct Attempts {
    current: BTreeMap<usize, Attempt>,
    /// The attempts that have ended. Requests of them may be sent late.
    ended: BTreeSet<TokenNumber>,
    failed: Vec<FailedAttempt>,
}

impl Attempts {
    fn read(&mut self, index: usize, Event { kind, .. }: &Event) {
        match *kind {
            EventKind::Sent(request) => match request.operation {
                Operation::Acquire => self.sent(index, request),
                Operation::Release => self.released(index, request),
                _ => {}
            },
            EventKind::Received { request, reply } if request.operation == Operation::Acquire => {
                self.received(request, reply);
            }
            EventKind::Granted { client, token, .. } => {
                self.current.remove(&client);
                self.ended.insert(token);
            }
            EventKind::NotGranted { client, .. } => self.fail(index, client, false),
            EventKind::FaultBegins(Place::Client(client), FaultKind::Kill) => {
                let killed = self.current.remove(&client);
                self.ended.extend(killed.map(|attempt| attempt.token));
            }
            _ => {}
        }
    }

    fn sent(&mut self, index: usize, Request { client, server, token, .. }: Request) {
        if self.ended.contains(&token) {
            return;
        }
        if self.current.get(&client).is_some_and(|attempt| attempt.token != token) {
            self.fail(index, client, false);
        }
        let attempt = self.current.entry(client).or_insert(Attempt { token, replies: BTreeMap::new() });
        attempt.replies.insert(server, None);
    }

    fn received(&mut self, Request { client, server, token, .. }: Request, reply: Reply) {
        if let Some(attempt) = self.current.get_mut(&client).filter(|attempt| attempt.token == token) {
            attempt.replies.insert(server, Some(reply));
        }
    }

    fn released(&mut self, index: usize, Request { client, token, .. }: Request) {
        if self.current.get(&client).is_some_and(|attempt| attempt.token == token) {
            self.fail(index, client, true);
        }
    }

    fn fail(&mut self, event: usize, client: usize, releases: bool) {
        let Some(Attempt { token, replies }) = self.current.remove(&client) else { return };
        self.ended.insert(token);
        self.failed.push(FailedAttempt { event, client, token, replies, releases });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::history_builder::HistoryBuilder;

    /// Returns the event, the token, and the release of each failed attempt.
    fn failed(builder: HistoryBuilder) -> Vec<(usize, u32, bool)> {
        let attempts = failed_attempts(&builder.history()).into_iter();
        attempts.map(|attempt| (attempt.event, attempt.token.0, attempt.releases)).collect()
    }

    fn builder() -> HistoryBuilder {
        HistoryBuilder::default().requested(0, 0).sent(0, 0, 0, 7).sent(0, 0, 1, 7)
    }

    #[test]
    fn a_release_without_a_grant_ends_an_attempt() {
        let denied = || builder().received(1, 0, 0, 7).denied(1, 0, 1, 7, Operation::Acquire);
        let attempts = failed_attempts(&denied().sent_release(2, 0, 0, 7).sent_release(2, 0, 1, 7).history());
        let replies = BTreeMap::from([(0, Some(Reply::Granted)), (1, Some(Reply::Denied))]);
        let expected = FailedAttempt { event: 5, client: 0, token: TokenNumber(7), replies, releases: true };
        assert_eq!(vec![expected], attempts);
        assert_eq!(0, failed(denied().granted(2, 0, 7, 900).sent_release(3, 0, 0, 7)).len());
    }

    #[test]
    fn the_next_attempt_and_the_end_of_the_request_end_an_attempt() {
        let again = || builder().sent(3, 0, 0, 8);
        assert_eq!(vec![(3, 7, false)], failed(again()));
        assert_eq!(vec![(3, 7, false), (4, 8, false)], failed(again().not_granted(4, 0)));
        assert_eq!(vec![(3, 7, false)], failed(again().granted(4, 0, 8, 900)));
        assert_eq!(0, failed(builder().sent(3, 1, 0, 8)).len(), "the request is from another client");
    }

    #[test]
    fn a_request_that_is_sent_late_is_no_attempt() {
        let late =
            builder().granted(1, 0, 7, 900).sent(2, 0, 2, 7).sent_release(3, 0, 0, 7).not_granted(4, 0);
        assert_eq!(0, failed(late).len());
        assert_eq!(0, failed(builder().killed(1, 0).sent(2, 0, 2, 7).not_granted(4, 0)).len());
    }
}
