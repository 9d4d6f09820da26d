//! Vouching: an operator asserts that a server has lost no lock.

use crate::node::Request;
use crate::round::{Heard, Io, Round};
use crate::types::instant::Instant;
use crate::types::report::Outcome;

/// The request to one node.
pub(crate) struct Vouch {
    node: usize,
    outcome: Option<Outcome>,
}

impl Vouch {
    pub(crate) fn new(node: usize) -> Self {
        Self { node, outcome: None }
    }
}

impl Round for Vouch {
    type Tag = ();
    type Output = Outcome;

    fn start(&mut self, io: &mut Io<()>) {
        io.send(self.node, ());
    }

    fn request(&self, _node: usize, (): ()) -> Option<Request> {
        Some(Request::Vouch)
    }

    fn heard(&mut self, heard: Heard<()>, _io: &mut Io<()>) {
        self.outcome = Some(heard.outcome);
    }

    fn result(&mut self, _now: Instant, _io: &mut Io<()>) -> Option<Outcome> {
        self.outcome.take()
    }

    /// It says nothing about locks.
    fn counts_always(&self) -> bool {
        true
    }
}
