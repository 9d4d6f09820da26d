//! One lock as a value: what its owner knows about it, and about each node.

pub(crate) mod mode;
pub(crate) mod peer;
pub(crate) mod record;
