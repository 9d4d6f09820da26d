//! A request that waits among those of other processes.

use std::sync::Arc;

use crate::decide::pending_release::WriteState;
use crate::decide::standing::Standing;
use crate::round::Cleanup;
use crate::round::nodes::Nodes;
use crate::types::claim::Claim;
use crate::types::resource::Resources;
use crate::types::token::Token;

/// A request with a place on the nodes. If it is dropped, it gives the place up.
pub(super) struct Waiter<'a> {
    nodes: &'a Arc<Nodes>,
    resources: &'a Resources,
    standing: Standing,
}

impl<'a> Waiter<'a> {
    pub(super) fn new(nodes: &'a Arc<Nodes>, resources: &'a Resources, standing: Standing) -> Self {
        Self { nodes, resources, standing }
    }

    /// Takes over a place that a release of this process has entered.
    pub(super) fn enter(&mut self, place: Token) {
        self.standing.enter(place);
    }

    /// Prepares an attempt.
    pub(super) fn prepare(&mut self, random: u64) -> Standing {
        self.standing.prepare(random);
        self.standing.clone()
    }

    /// Enters the places after the attempt with this token was denied.
    pub(super) fn denied(&mut self, attempt: &Token, is_split: bool) {
        self.standing.denied(attempt, is_split);
    }

    /// Returns the place, if the request has one.
    pub(super) fn place(&self) -> Option<&Token> {
        self.standing.id()
    }

    /// Ends the wait: the attempt has ended the place.
    pub(super) fn acquired(mut self) {
        let _ = self.standing.leave();
    }

    /// Leaves the places on all nodes, if it has entered them. A node that does not reply keeps the place for some seconds.
    pub(super) fn give_up(&mut self) {
        let Some(place) = self.standing.leave() else { return };
        let token = place.id.clone();
        let claim = Claim::new(self.resources.clone(), token).with_place(place);
        for node in (0..self.nodes.peers.len()).filter(|node| self.nodes.peers[*node].profile.places) {
            let (due, release) = (self.nodes.now(), WriteState::default().pending_release());
            self.nodes.clean_up(Cleanup { node, due, claim: claim.clone(), release });
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}
