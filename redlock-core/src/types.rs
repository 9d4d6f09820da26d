//! The values that all other modules use.

pub(crate) mod claim;
pub(crate) mod detached;
pub(crate) mod error;
pub(crate) mod fencing_token;
pub(crate) mod instant;
pub(crate) mod lease_state;
pub(crate) mod mode;
pub(crate) mod owner;
pub(crate) mod report;
pub(crate) mod resource;
pub(crate) mod token;
pub(crate) mod ttl;
