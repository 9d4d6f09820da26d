//! `redlock hold` on systems without the signals of Unix.

use crate::args::{Hold, Shared};
use crate::exit::Failure;

/// Fails: there is no way to stop a process in time.
pub(crate) fn hold(_: &Hold, _: &Shared) -> Result<u8, Failure> {
    Err(Failure::config("`redlock hold` is not supported on this system"))
}
