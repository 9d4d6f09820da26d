//! The locks of the slots of one name, and what their searches share.

use std::mem;

use crate::sync::{Mutex, locked};
use crate::types::error::Error;
use crate::types::resource::{Resource, Resources};
use crate::watch::watches::Parked;

/// The slots of one name.
pub(super) struct Set {
    pub(super) name: Resource,
    /// The locks, by index.
    pub(super) locks: Box<[Resource]>,
    /// The watches of the last search, by index, for the next one. Empty during a search.
    parked: Mutex<Vec<Parked>>,
}

impl Set {
    pub(super) fn new(name: Resource, count: usize) -> Result<Self, Error> {
        let locks: Result<_, _> = (0..count).map(|index| lock_name(&name, &index.to_string())).collect();
        Ok(Self { name, locks: locks?, parked: Mutex::default() })
    }

    /// Stores the watches of a search, and returns the watches that were stored before.
    pub(super) fn swap_parked(&self, parked: Vec<Parked>) -> Vec<Parked> {
        mem::replace(&mut *locked(&self.parked), parked)
    }

    /// Returns the name under which the tasks of this process queue for a slot. It is never locked.
    pub(super) fn queue(&self) -> Result<Resources, Error> {
        Resources::new([lock_name(&self.name, "")?])
    }
}

/// Returns the name of the lock of one slot.
fn lock_name(name: &Resource, index: &str) -> Result<Resource, Error> {
    Resource::new([name.as_bytes(), b":slot:", index.as_bytes()].concat())
}
