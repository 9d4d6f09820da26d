//! The decisions, as pure functions of values: no I/O, no clock, no randomness.

pub(crate) mod admission;
pub(crate) mod agreement;
pub(crate) mod announcements;
pub(crate) mod backoff;
pub(crate) mod candidacy;
pub(crate) mod concurrency;
pub(crate) mod fencing;
pub(crate) mod fifo;
pub(crate) mod grace;
pub(crate) mod holder;
pub(crate) mod lease_status;
pub(crate) mod node_list;
pub(crate) mod observation;
pub(crate) mod once_per;
pub(crate) mod own_place;
pub(crate) mod pending_release;
pub(crate) mod query_interval;
pub(crate) mod quorums;
pub(crate) mod readiness;
pub(crate) mod renewal;
pub(crate) mod standing;
pub(crate) mod tally;
pub(crate) mod time_limit;
pub(crate) mod validity;
pub(crate) mod votes;
pub(crate) mod waiters;
