//! The requests of the algorithm: rounds to all nodes, and the cleanup of their effects.
//!
//! The modules of [`decide`](crate::decide) make the decisions; those here carry them out.

pub(crate) mod acquire;
pub(crate) mod acquire_round;
pub(crate) mod cleanup;
pub(crate) mod extend;
pub(crate) mod fan_out;
pub(crate) mod release;
pub(crate) mod round;
