//! A health check: an acquisition of a name that nobody else uses, and its release.

use crate::decide::votes::Votes;
use crate::node::{Operation, Request};
use crate::round::{Heard, Io, Round, Rules};
use crate::types::claim::Claim;
use crate::types::instant::Instant;
use crate::types::report::Outcome;
use crate::types::ttl::Ttl;

/// One health check. Its result has the outcome of each node: that of the acquisition, or of a release that failed.
pub(crate) struct Health {
    rules: Rules,
    claim: Claim,
    votes: Votes,
    /// The number of nodes that have not replied to both requests.
    missing: usize,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Acquire,
    Release,
}

impl Health {
    pub(crate) fn new(rules: Rules, claim: Claim, start: Instant) -> Self {
        Self { rules, claim, votes: rules.votes(start), missing: rules.nodes() }
    }
}

impl Round for Health {
    type Tag = Lane;
    type Output = Votes;

    fn start(&mut self, io: &mut Io<Lane>) {
        io.send_to_all(self.rules.nodes(), Lane::Acquire);
    }

    fn request(&self, _node: usize, lane: Lane) -> Option<Request> {
        let claim = self.claim.clone();
        Some(match lane {
            // A key that is left behind expires after 10 ms.
            Lane::Acquire => Request::Acquire(claim, Ttl::MIN),
            Lane::Release => Request::Release(claim),
        })
    }

    fn heard(&mut self, heard: Heard<Lane>, io: &mut Io<Lane>) {
        let Heard { node, tag, outcome, server, at, .. } = heard;
        if tag == Lane::Acquire {
            self.votes.put(node, outcome, server, at);
            io.send(node, Lane::Release);
            return;
        }
        self.missing -= 1;
        if self.votes.has_failed(node) {
            return;
        }
        match outcome {
            Outcome::Failed(error) => {
                self.votes.put(node, Outcome::Failed(error.of("release failed")), server, at);
            }
            Outcome::TimedOut => self.votes.put(node, outcome, server, at),
            _ => {}
        }
    }

    fn result(&mut self, _now: Instant, _io: &mut Io<Lane>) -> Option<Votes> {
        (self.missing == 0).then(|| self.votes.clone())
    }

    fn name(&self, _operation: Operation) -> &'static str {
        "health"
    }
}
