//! Redlock through the fred client.

mod address;
mod connection;
mod reply;

pub use crate::address::IntoConnector;
pub use crate::connection::{Connection, Connector};
