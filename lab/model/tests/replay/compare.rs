//! Compares the core with the model: the results of clients, the keys, and the open calls.

use redlock_core::{ErrorKind, ReleaseOutcome};
use redlock_model::{CLIENTS, Event, NODES, Request, RequestKind};

use super::program::filled;
use super::replay::{Client, NodeVote, Replay};

impl Replay {
    pub(crate) fn receive(&mut self, event: Event) {
        match event {
            Event::Voted { client, attempt, node, granted } => {
                if attempt + 1 == self.clients[client].program.tokens.len() {
                    self.clients[client].votes[node] =
                        if granted.is_some() { NodeVote::Replied } else { NodeVote::Failed };
                }
            }
            Event::Granted { client } => {
                assert_eq!(Some(Ok(())), self.clients[client].program.outcome(), "granted");
            }
            Event::Lost { client, expired } => self.clients[client].lost = Some(expired),
            Event::Extended { client } => {
                assert_eq!(Some(Ok(())), filled(&self.clients[client].program.extension).take());
            }
            Event::NotExtended { client, expired } => {
                // The core reports the cause as soon as it is certain.
                let outcome = filled(&self.clients[client].program.extension).take();
                let allowed = match outcome {
                    Some(Err(ErrorKind::TooSlow)) => expired,
                    None | Some(Err(ErrorKind::Lost | ErrorKind::NoQuorum)) => !expired,
                    _ => false,
                };
                assert!(allowed, "a failed extension returned {outcome:?}");
            }
        }
    }

    pub(crate) fn compare(&mut self) {
        for (node, key) in self.script().keys.iter().enumerate() {
            let expected = self
                .state
                .key_on(node)
                .map(|key| &self.clients[usize::from(key.client)].program.tokens[usize::from(key.attempt)]);
            assert_eq!(expected, key.as_ref(), "the key on n{node}");
        }
        for number in 0..CLIENTS {
            self.compare_calls(number);
            let attempt = self.clients[number].program.tokens.len().checked_sub(1);
            if self.state.holds(number) {
                let guard = self.clients[number].program.guard.as_ref().expect("a lease has a guard");
                assert_eq!(self.state.is_valid(number), guard.is_held(), "the lease of client {number}");
            } else if attempt.is_some_and(|attempt| self.state.has_ended(number, attempt)) {
                self.clients[number].compare_loss();
            }
        }
    }

    /// Asserts that the core waits for the same replies as the model.
    fn compare_calls(&self, client: usize) {
        for attempt in 0..self.clients[client].program.tokens.len() {
            for node in 0..NODES {
                for kind in [
                    RequestKind::Acquire,
                    RequestKind::Extend,
                    RequestKind::Refill(0),
                    RequestKind::Refill(1),
                    RequestKind::Release,
                ] {
                    let request = Request { client, attempt, node, kind };
                    let (here, there) =
                        (self.call(request, |_| ()).is_some(), self.state.flight(request).is_open());
                    let ended = self.state.has_ended(client, attempt);
                    let agree = match kind {
                        // Calls whose reply is ignored may be open in the core.
                        RequestKind::Acquire | RequestKind::Refill(_) if ended => here || !there,
                        RequestKind::Acquire | RequestKind::Refill(_) => here == there,
                        // No call of an earlier attempt is open, except calls of a failed attempt whose reply is ignored.
                        RequestKind::Extend => ended || here || !there,
                        // A pending release of the core may wait before it is sent.
                        RequestKind::Release => there || !here,
                    };
                    assert!(agree, "{request} on n{node}: open in core {here}, in the model {there}");
                }
            }
        }
    }
}

impl Client {
    /// A failed attempt reports its cause as soon as the replies decide it, and a release reports its outcome.
    fn compare_loss(&mut self) {
        let outcome = self.program.outcome();
        if let Some(Ok(outcome)) = filled(&self.program.released).take() {
            let expected =
                if self.was_valid { ReleaseOutcome::Released } else { ReleaseOutcome::AlreadyExpired };
            let lost = self.was_valid && self.has_expired && outcome == ReleaseOutcome::AlreadyLost;
            assert!(lost || outcome == expected, "released: {outcome:?} instead of {expected:?}");
        }
        let Some(expired) = self.lost else {
            return assert_eq!(None, outcome, "a dropped attempt has no outcome");
        };
        let count = |ballot| self.votes.iter().filter(|other| **other == ballot).count();
        let (failed, pending) = (count(NodeVote::Failed), count(NodeVote::Pending));
        let expected = match () {
            () if expired => Some(ErrorKind::TooSlow),
            () if failed > NODES / 2 => Some(ErrorKind::NoQuorum),
            () if failed + pending <= NODES / 2 => Some(ErrorKind::Contended),
            () => None,
        };
        if outcome.is_some() || expected.is_some() {
            assert_eq!(expected.map(Err), outcome, "the cause of the failed attempt: {:?}", self.votes);
            self.lost = None;
        }
    }
}
