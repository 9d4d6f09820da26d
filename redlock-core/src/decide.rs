//! The decisions, on values only: no I/O, no clock, no chance.

pub(crate) mod backoff;
pub(crate) mod concurrency;
pub(crate) mod fencing;
pub(crate) mod hold;
pub(crate) mod outlook;
pub(crate) mod pursuit;
pub(crate) mod queue;
pub(crate) mod renewal;
pub(crate) mod sight;
pub(crate) mod tally;
pub(crate) mod time_limit;
pub(crate) mod validity;
