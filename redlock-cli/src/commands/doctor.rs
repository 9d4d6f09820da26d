//! `redlock doctor`: checks of the servers.

use crate::args::{Doctor, Shared};
use crate::exit::Failure;

/// Checks the servers.
pub(crate) fn doctor(_: &Doctor, _: &Shared) -> Result<u8, Failure> {
    Err(Failure::usage("not yet"))
}
