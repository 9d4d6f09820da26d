//! Whether core and model agree: on what clients are told, on the keys, and on the calls that are open.

use redlock_core::{ErrorKind, ReleaseOutcome};
use redlock_model::{Asks, CLIENTS, Event, NODES, Request};

use super::program::filled;
use super::replay::{Ballot, Client, Replay};

impl Replay {
    pub(crate) fn hear(&mut self, event: Event) {
        match event {
            Event::Voted { client, attempt, node, granted } => {
                if attempt + 1 == self.clients[client].program.tokens.len() {
                    self.clients[client].votes[node] =
                        if granted.is_some() { Ballot::Answered } else { Ballot::Failed };
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
                // Why is said when it is certain.
                let outcome = filled(&self.clients[client].program.extension).take();
                let allowed = match outcome {
                    Some(Err(ErrorKind::TooSlow)) => expired,
                    None | Some(Err(ErrorKind::Lost | ErrorKind::NoQuorum)) => !expired,
                    _ => false,
                };
                assert!(allowed, "an extension that failed says {outcome:?}");
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
                assert_eq!(self.state.is_valid(number), guard.is_held(), "whether client {number} holds");
            } else if attempt.is_some_and(|attempt| self.state.has_ended(number, attempt)) {
                self.clients[number].compare_loss();
            }
        }
    }

    /// Core waits for what the model waits for.
    fn compare_calls(&self, client: usize) {
        for attempt in 0..self.clients[client].program.tokens.len() {
            for node in 0..NODES {
                for asks in [Asks::Acquire, Asks::Extend, Asks::Refill(0), Asks::Refill(1), Asks::Release] {
                    let request = Request { client, attempt, node, asks };
                    let (here, there) =
                        (self.call(request, |_| ()).is_some(), self.state.flight(request).is_open());
                    let ended = self.state.has_ended(client, attempt);
                    let agree = match asks {
                        // What nobody waits for any more may be open in core.
                        Asks::Acquire | Asks::Refill(_) if ended => here || !there,
                        Asks::Acquire | Asks::Refill(_) => here == there,
                        // Of attempts past nothing is left; of failed ones, what nobody waits for.
                        Asks::Extend => ended || here || !there,
                        // What core owes may have to wait until it is sent.
                        Asks::Release => there || !here,
                    };
                    assert!(agree, "{request} on n{node}: open in core {here}, in the model {there}");
                }
            }
        }
    }
}

impl Client {
    /// A lost attempt reports why as soon as the votes tell, and a release what it found.
    fn compare_loss(&mut self) {
        let outcome = self.program.outcome();
        if let Some(Ok(outcome)) = filled(&self.program.released).take() {
            let expected =
                if self.was_valid { ReleaseOutcome::Released } else { ReleaseOutcome::AlreadyExpired };
            let lost = self.was_valid && self.has_expired && outcome == ReleaseOutcome::AlreadyLost;
            assert!(lost || outcome == expected, "released: {outcome:?} instead of {expected:?}");
        }
        let Some(expired) = self.lost else {
            return assert_eq!(None, outcome, "an attempt that nobody waits for");
        };
        let count = |ballot| self.votes.iter().filter(|other| **other == ballot).count();
        let (failed, pending) = (count(Ballot::Failed), count(Ballot::Pending));
        let expected = match () {
            () if expired => Some(ErrorKind::TooSlow),
            () if failed > NODES / 2 => Some(ErrorKind::NoQuorum),
            () if failed + pending <= NODES / 2 => Some(ErrorKind::Contended),
            () => None,
        };
        if outcome.is_some() || expected.is_some() {
            assert_eq!(expected.map(Err), outcome, "why the attempt was lost: {:?}", self.votes);
            self.lost = None;
        }
    }
}
