//! A request that waits among those of other processes.

use std::sync::Arc;

use crate::decide::pending_release::WriteState;
use crate::decide::standing::Standing;
use crate::round::Cleanup;
use crate::round::nodes::Nodes;
use crate::types::claim::Claim;
use crate::types::resource::{Resource, Resources};
use crate::types::token::Token;

/// The place of a request on the nodes, once it has one. If it is dropped, it gives the place up.
pub(super) struct Waiter<'a> {
    nodes: &'a Arc<Nodes>,
    resources: &'a Resources,
    /// Boxed, because most requests never wait.
    place: Option<Box<Waiting<'a>>>,
}

struct Waiting<'a> {
    standing: Standing,
    /// The gate of a reader, which has a place there, too.
    gate: Option<&'a Resource>,
    /// True if a release of this process enters the place, which may be carried out at any later time.
    is_unsettled: bool,
}

impl<'a> Waiter<'a> {
    pub(super) fn new(nodes: &'a Arc<Nodes>, resources: &'a Resources) -> Self {
        Self { nodes, resources, place: None }
    }

    /// Takes over a place that a release of this process has entered. `first` is that of a request without a place.
    pub(super) fn enter(&mut self, first: Option<Standing>, place: Token) {
        if let Some(standing) = first.map(|standing| standing.entered(place)) {
            self.place = Some(Box::new(Waiting { standing, gate: None, is_unsettled: true }));
        }
    }

    /// Prepares an attempt. Returns what it needs to know, if the request has had a place.
    pub(super) fn prepare(&mut self, random: impl FnOnce() -> u64) -> Option<Standing> {
        let standing = &mut self.place.as_mut()?.standing;
        standing.prepare(random());
        Some(standing.clone())
    }

    /// Takes over the place that a failed attempt has kept.
    pub(super) fn keep(&mut self, place: Option<Standing>, gate: Option<&'a Resource>) {
        if let Some(standing) = place {
            self.place = Some(Box::new(Waiting { standing, gate, is_unsettled: false }));
        }
    }

    /// Returns the place, while the request is in the places.
    pub(super) fn place(&self) -> Option<&Standing> {
        Some(&self.place.as_ref()?.standing).filter(|standing| standing.id().is_some())
    }

    /// Ends the wait: the attempt that acquired the lock has left the places.
    pub(super) fn acquired(mut self) {
        let _left = self.place.take().and_then(|mut place| place.standing.leave());
    }

    /// Leaves the places on all nodes. A node that does not reply keeps the place for some seconds.
    pub(super) fn give_up(&mut self) {
        let Some(Waiting { standing, gate, is_unsettled }) = self.place.as_deref_mut() else { return };
        let Some(place) = standing.leave() else { return };
        let nodes = self.nodes;
        let claim = Claim::of_place(self.resources.with_gate(*gate), place);
        for node in (0..nodes.peers.len()).filter(|node| nodes.peers[*node].profile.places) {
            let writes = if *is_unsettled { WriteState::foreign() } else { WriteState::default() };
            let (due, release) = (nodes.now(), writes.pending_release());
            nodes.clean_up(Cleanup { node, due, claim: claim.clone(), release });
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}
