//! Tests of the client over fake nodes.
//!
//! They are one program, so that it is linked once, and a long test delays no other test.
#![allow(clippy::unwrap_used)] // a panic fails the test

mod acquire;
mod admission;
mod api_page;
mod cleanup;
mod common;
mod detach;
#[cfg(all(feature = "metrics", feature = "tokio"))]
mod examples;
mod fencing;
mod grace;
mod hand_over;
mod hold;
mod inspect;
mod keepalive;
mod lead;
mod load;
#[cfg(feature = "metrics")]
mod metrics;
mod node_lists;
mod node_lists_must_agree;
mod observe;
mod observer;
mod once_per;
mod owner;
mod places;
mod previous_nodes;
mod queue;
mod retry;
mod rw_lock;
#[cfg(feature = "serde")]
mod serialized;
mod slots;
mod split_votes;
mod usage;
mod watch;
