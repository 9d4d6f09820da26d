//! The mutex of this crate.
//!
//! Under `cfg(loom)` it is that of loom, which runs each model in every interleaving (`scripts/loom`).

use std::sync::PoisonError;

#[cfg(all(test, loom))]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks a mutex whose values stay consistent even if a critical section panics.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
