//! A failure never reads as contention.
//!
//! A client that is told that somebody else has the lock has heard a quorum of servers, whatever they said. Anything less
//! is an outage, and whoever mistakes one for the other waits politely for a lock that nobody holds.

use std::collections::{BTreeMap, BTreeSet};

use redlock_core::ErrorKind;

use super::{Invariant, Rules, Violation};
use crate::Operation;
use crate::history::{History, Request, Said, TokenNumber, What};

/// The latest attempt of a client.
#[derive(Default)]
struct Attempt {
    token: Option<TokenNumber>,
    heard: BTreeSet<usize>,
}

pub(super) fn check(history: &History, rules: &Rules) -> Vec<Violation> {
    let mut attempts: BTreeMap<usize, Attempt> = BTreeMap::new();
    let mut violations = Vec::new();
    for (event, entry) in history.0.iter().enumerate() {
        match entry.what {
            What::Sent(Request { client, operation: Operation::Acquire, token, .. }) => {
                let attempt = attempts.entry(client).or_default();
                // A refill has the token of an older attempt; only what a client asked for last is of interest.
                if attempt.token.is_none_or(|latest| latest < token) {
                    *attempt = Attempt { token: Some(token), heard: BTreeSet::new() };
                }
            }
            What::Received { request, said: Said::Granted | Said::Refused }
                if request.operation == Operation::Acquire =>
            {
                let attempt = attempts.entry(request.client).or_default();
                if attempt.token == Some(request.token) {
                    attempt.heard.insert(request.server);
                }
            }
            What::NotGranted { client, why: Some(ErrorKind::Contended) } => {
                let attempt = attempts.entry(client).or_default();
                if attempt.heard.len() < rules.quorum() {
                    let heard = attempt.heard.len();
                    let what = format!("c{client} is told of contention after {heard} answers, no quorum");
                    let (invariant, tokens) = (Invariant::Honesty, attempt.token.into_iter().collect());
                    violations.push(Violation { invariant, broken: None, what, tokens, event });
                }
            }
            _ => {}
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::story::Story;
    use super::*;

    fn violations(story: Story) -> usize {
        let rules = Rules { servers: 3, node_timeout: Duration::ZERO, settled_after: Duration::ZERO };
        check(&story.history(), &rules).len()
    }

    #[test]
    fn contention_is_what_a_quorum_says() {
        let sent = || Story::default().sent(0, 0, 0, 0).received(1, 0, 0, 0);
        assert_eq!(0, violations(sent().received(2, 0, 1, 0).contended(3, 0)));
        assert_eq!(1, violations(sent().contended(3, 0)));
        assert_eq!(0, violations(sent().not_granted(3, 0)), "an outage is called one");
        let again = sent().received(2, 0, 1, 0).sent(3, 0, 0, 1);
        assert_eq!(1, violations(again.contended(4, 0)), "those were answers to the attempt before");
    }
}
