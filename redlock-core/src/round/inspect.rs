//! Inspection: the holder of a resource, without acquiring it.
//!
//! [`conclude`] decides as soon as possible. The content of a reply is as old as the reply. Thus the time since the
//! requests were sent is subtracted from the holder's remaining time.

use std::time::Duration;

use smallvec::SmallVec;

use crate::decide::holder::{HolderQuorum, conclude};
use crate::decide::votes::Votes;
use crate::node::Request;
use crate::round::failure::{Aim, Failure};
use crate::round::{Heard, Io, Round, Rules};
use crate::types::instant::Instant;
use crate::types::resource::Resource;
use crate::types::token::Token;

/// One inspection.
pub(crate) struct Inspect {
    rules: Rules,
    resource: Resource,
    votes: Votes,
}

/// What a quorum of the nodes knows about a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Nobody,
    /// This token, for at least this time if it expires.
    Token(Token, Option<Duration>),
    Undecided,
}

impl Inspect {
    pub(crate) fn new(rules: Rules, resource: Resource, start: Instant) -> Self {
        Self { rules, resource, votes: rules.votes(start) }
    }
}

impl Round for Inspect {
    type Tag = ();
    type Output = Result<(Holder, Votes), Failure>;

    fn start(&mut self, io: &mut Io<()>) {
        io.send_to_all(self.rules.nodes(), ());
    }

    fn request(&self, _node: usize, (): ()) -> Option<Request> {
        Some(Request::Inspect(self.resource.clone()))
    }

    fn heard(&mut self, heard: Heard<()>, _io: &mut Io<()>) {
        self.votes.put(heard.node, heard.outcome, heard.server, heard.at);
    }

    fn result(&mut self, now: Instant, _io: &mut Io<()>) -> Option<Self::Output> {
        let votes = &self.votes;
        let replies = votes.quorums.lists().map(|list| (votes.holder_replies(list), list.quorum()));
        let replies: SmallVec<[_; 2]> = replies.collect();
        let views = replies.iter().map(|(replies, quorum)| conclude(replies, *quorum));
        let holder = match views.reduce(HolderQuorum::and).unwrap_or(HolderQuorum::Open) {
            HolderQuorum::Open => return None,
            HolderQuorum::NoQuorum => return Some(Err(Failure::no_quorum(Aim::Inspect, votes.clone()))),
            HolderQuorum::Free => Holder::Nobody,
            HolderQuorum::Undecided => Holder::Undecided,
            HolderQuorum::Held(token, remaining) => {
                let passed = now.saturating_duration_since(votes.start);
                Holder::Token(token.clone(), remaining.map(|left| left.saturating_sub(passed)))
            }
        };
        Some(Ok((holder, votes.clone())))
    }
}
