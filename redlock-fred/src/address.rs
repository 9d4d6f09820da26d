//! What a server is given by: fred's own configuration.

use fred::types::config::{Config, ServerConfig};
use redlock_core::Error;

use crate::connection::Connector;

/// What names one server.
pub trait IntoConnector {
    /// Checks it, without I/O.
    ///
    /// # Errors
    ///
    /// [`Invalid`](redlock_core::ErrorKind::Invalid) when it names no single server.
    fn into_connector(self) -> Result<Connector, Error>;
}

impl IntoConnector for Config {
    fn into_connector(self) -> Result<Connector, Error> {
        match self.server {
            ServerConfig::Centralized { .. } => Ok(Connector::new(self)),
            #[cfg(unix)]
            ServerConfig::Unix { .. } => Ok(Connector::new(self)),
            _ => Err(Error::invalid("a cluster or a sentinel set is no independent node")),
        }
    }
}
