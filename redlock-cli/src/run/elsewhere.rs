//! The replacement of `run` on systems without the process groups and signals of Unix.

use crate::args::{Run, Shared};
use crate::exit::Failure;

/// Fails: there is no way to stop a command and its descendants in time.
pub(crate) fn run(_: &Run, _: &Shared) -> Result<u8, Failure> {
    Err(Failure::config("`redlock run` is not supported on this system"))
}
