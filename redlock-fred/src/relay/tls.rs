//! TLS over the relay's socket, in the same way as fred.

use std::io;

#[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
use fred::types::config::TlsConnector;
use fred::types::config::{Config, Server};
use tokio::net::TcpStream;

use super::socket::Stream;

/// Returns the same configuration without TLS.
#[cfg_attr(
    not(any(feature = "tls-rustls", feature = "tls-native-tls")),
    allow(unused_mut, clippy::missing_const_for_fn)
)]
pub(crate) fn without(mut config: Config) -> Config {
    #[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
    {
        config.tls = None;
    }
    config
}

/// Sets up TLS over a socket if `config` requires it.
#[cfg_attr(not(any(feature = "tls-rustls", feature = "tls-native-tls")), allow(clippy::unused_async))]
pub(crate) async fn over(config: &Config, server: &Server, socket: TcpStream) -> io::Result<Box<dyn Stream>> {
    if !config.uses_tls() {
        return Ok(Box::new(socket));
    }
    #[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
    if let Some(tls) = &config.tls {
        let name = server.tls_server_name.as_ref().unwrap_or(&server.host).to_string();
        #[allow(unreachable_patterns)] // if fred has only the libraries that are known here
        match &tls.connector {
            #[cfg(feature = "tls-rustls")]
            TlsConnector::Rustls(connector) => {
                let name = fred::rustls::pki_types::ServerName::try_from(name).map_err(io::Error::other)?;
                return Ok(Box::new(connector.connect(name, socket).await?));
            }
            #[cfg(feature = "tls-native-tls")]
            TlsConnector::Native(connector) => {
                let secured = connector.connect(&name, socket).await;
                return Ok(Box::new(secured.map_err(io::Error::other)?));
            }
            _ => {}
        }
    }
    let _ = server;
    Err(io::Error::other("TLS needs the feature `tls-rustls` or `tls-native-tls` of redlock-fred"))
}
