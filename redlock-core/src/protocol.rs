//! The requests of the algorithm: rounds to all nodes, and the cleanup of their effects.
//!
//! The modules of [`decide`](crate::decide) make the decisions; those here carry them out.

pub(crate) mod acquire;
pub(crate) mod acquire_round;
pub(crate) mod attempt_error;
pub(crate) mod call;
pub(crate) mod cleanup;
pub(crate) mod ended_lease;
pub(crate) mod extend;
pub(crate) mod extend_error;
pub(crate) mod fan_out;
pub(crate) mod keep_for;
pub(crate) mod outcome;
pub(crate) mod release;
pub(crate) mod responses;
pub(crate) mod round;
