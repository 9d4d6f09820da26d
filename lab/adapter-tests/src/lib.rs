//! The tests of every adapter, on real servers and on scripted ones that misbehave.
//!
//! A test file of an adapter implements [`Adapter`] and calls [`adapter_tests!`], which generates a `#[test]` for each
//! case. The tests of several processes start the example `process_*` of the adapter, whose `main` is [`process`].
//!
//! The servers are `redis-server` processes, or those of the program in `REDLOCK_SERVER`.
#![allow(clippy::missing_panics_doc, clippy::unwrap_used)] // a panic is a failed test
#![allow(clippy::extra_unused_type_parameters)] // all cases have the same signature
#![allow(clippy::wildcard_imports)] // of the helpers beside the cases

mod adapter;
mod cases;
#[cfg(target_os = "linux")]
pub mod clock;
mod conformance;
mod connect;
mod connection;
mod counters;
pub mod decoder;
pub mod examples;
mod hostile;
mod modes;
mod native;
mod node;
mod plain;
mod preflight;
mod process;
mod queued;
pub mod requests;
pub mod scripted;
pub mod secure;
mod sentinels;
mod servers;
mod shards;
mod tls;
pub mod wait;
mod warnings;
mod watch;

#[doc(hidden)]
pub use redlock_testkit;

pub use crate::adapter::Adapter;
pub use crate::cases::run;
pub use crate::conformance::{Server, server, server_by_commands};
pub use crate::process::process;
