//! `redlock hold`: a lock for something that this program did not start.

use crate::args::{Hold, Shared};
use crate::exit::Failure;

/// Holds a lock.
pub(crate) fn hold(_: &Hold, _: &Shared) -> Result<u8, Failure> {
    Err(Failure::usage("not yet"))
}
