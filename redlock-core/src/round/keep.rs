//! Keeping a lock for a time without renewals: the last thing that its owner does with it.
//!
//! Used by jobs that run once a period. Renewals end first, and pending acquires and refills are awaited, so that
//! nothing is sent afterwards. Then each key's life is set on all nodes, which shortens it as nothing else may.
//!
//! A node carries out the requests of one connection in their order. Thus an earlier request lengthens a key only if its
//! connection broke, and by up to the TTL of the lock. No request shortens what was set. `lab/model` explores the rule.

use crate::decide::tally::{Decision, RoundKind};
use crate::decide::votes::Votes;
use crate::node::Request;
use crate::round::failure::{Aim, Failure};
use crate::round::{Heard, Io, Round, Rules};
use crate::types::claim::Claim;
use crate::types::instant::Instant;
use crate::types::ttl::Ttl;

/// Sets the time to live of a claim on all nodes.
pub(crate) struct Keep {
    rules: Rules,
    claim: Claim,
    ttl: Ttl,
    votes: Votes,
}

impl Keep {
    pub(crate) fn new(rules: Rules, claim: Claim, ttl: Ttl, start: Instant) -> Self {
        Self { rules, claim, ttl, votes: rules.votes(start) }
    }
}

impl Round for Keep {
    type Tag = ();
    type Output = Result<(), Failure>;

    fn start(&mut self, io: &mut Io<()>) {
        io.send_to_all(self.rules.nodes(), ());
    }

    fn request(&self, _node: usize, (): ()) -> Option<Request> {
        Some(Request::Keep(self.claim.clone(), self.ttl))
    }

    fn heard(&mut self, heard: Heard<()>, _io: &mut Io<()>) {
        self.votes.put(heard.node, heard.outcome, heard.server, heard.at);
    }

    fn result(&mut self, _now: Instant, _io: &mut Io<()>) -> Option<Self::Output> {
        match self.votes.decide(RoundKind::Extend) {
            Decision::Won => Some(Ok(())),
            Decision::Pending | Decision::Lost(None) => None,
            Decision::Lost(Some(cause)) => Some(Err(Failure::of_lease(Aim::Keep, cause, self.votes.clone()))),
        }
    }
}
