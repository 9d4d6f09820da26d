//! The parts that the Redis and Valkey adapters of redlock share.
//!
//! These are the addresses, the wire format, and a node that keeps its connection healthy.
//!
//! Applications use an adapter (`redlock-redis-rs`, `redlock-fred`), not this crate. An adapter for another client
//! implements [`Connector`] and [`Connection`], reports the server's pushes to a [`Hub`], and creates its nodes with
//! [`Node::new`]. An adapter that owns its sockets needs no client: a [`Pipeline`] sends the requests.
//!
//! # Features
//!
//! `tokio` and `smol` add `Options::tokio` and `Options::smol`, which use the ready-made runtimes of `redlock-core`.
//! `tls-rustls` and `tls-native-tls` add the TLS settings of these libraries, in the module [`tls`]. `fuzzing` is for the fuzz targets and the simulation of this repository, and is not a public interface.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod admission;
mod attended;
mod backoff;
mod builder;
mod certificates;
mod clock;
mod clock_rate;
mod cluster;
mod cluster_members;
mod commands;
mod common_check;
mod conn_state;
mod connection;
mod credentials;
mod exchange;
#[cfg(test)]
mod fake;
mod fence;
mod first;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod handshake;
mod inner;
mod journal;
mod longest;
mod message;
mod native;
mod node;
mod options;
mod pipeline;
mod places;
mod probe;
mod push;
mod reply;
mod request;
mod scanner;
mod script;
mod secret;
mod sentinel;
mod sentinels;
#[cfg(feature = "serde")]
mod serialized;
mod server_node;
mod session;
mod socket;
mod stamp;
mod supervisor;
mod sync;
mod telemetry;
#[cfg(test)]
mod tests;
mod text;
pub mod tls;
mod until;

pub use crate::address::{Address, Endpoint};
pub use crate::builder::{builder, nodes, valid_connectors};
pub use crate::cluster::Masters;
pub use crate::cluster_members::ClusterMembers;
pub use crate::connection::{Connection, Connector};
pub use crate::credentials::Credentials;
pub use crate::message::{Command, Failure, Reply, Sent};
pub use crate::node::Node;
pub use crate::options::Options;
pub use crate::pipeline::{Pipeline, Socket, decode};
pub use crate::push::Hub;
pub use crate::scanner::{MAX_REPLY_BYTES, MAX_REPLY_DEPTH, Scanner, Violation};
pub use crate::sentinels::Sentinels;
pub use crate::session::Session;
pub use crate::socket::SocketHandle;
