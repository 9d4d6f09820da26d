//! The kind of lock that a slot is.
#![allow(private_interfaces)] // nobody else can name `sealed`

use std::fmt;
use std::sync::Arc;

use super::search;
use super::set::Set;
use super::token::SlotToken;
use crate::client::attempts::CheckedRequest;
use crate::client::held::Held;
use crate::client::kind::{Fenceable, Fenced, Indexed, Kind, Owned, sealed};
use crate::decide::backoff::RetryPolicy;
use crate::types::error::Error;
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::resource::{Resource, Resources};

/// One of the slots of a name, as [`Slots::acquire`](crate::Slots::acquire) requests it.
#[derive(Clone)]
pub struct Slot(Arc<Set>);

impl Slot {
    pub(super) fn new(name: Resource, count: usize) -> Result<Self, Error> {
        Ok(Self(Arc::new(Set::new(name, count)?)))
    }

    /// Returns the locks, by index.
    pub(super) fn locks(&self) -> &[Resource] {
        &self.0.locks
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({:?}, 1 of {})", self.0.name, self.0.locks.len())
    }
}

impl Kind for Slot {}
impl Owned for Slot {}

impl sealed::Kind for Slot {
    type Extra = usize;

    const NAME: &'static str = "slot";

    fn resources(&self) -> Result<Resources, Error> {
        Resources::new(self.locks().iter().cloned())
    }

    fn is_one_claim(&self) -> bool {
        false
    }

    fn common_resource(&self) -> Result<Resource, Error> {
        Err(Error::invalid("each slot has a holder of its own: observe the slot by its name"))
    }

    async fn acquire(
        &self,
        request: &CheckedRequest,
        start: Instant,
        policy: RetryPolicy,
    ) -> Result<(Held, usize), Error> {
        search::acquire(&self.0, request, start, policy).await
    }
}

impl Fenceable for Slot {}

impl sealed::Fenceable for Slot {
    type Token = SlotToken;

    fn token(resource: &Resource, number: FencingToken) -> SlotToken {
        SlotToken::new(resource.clone(), number)
    }
}

impl Indexed for Slot {}
impl Indexed for Fenced<Slot> {}
