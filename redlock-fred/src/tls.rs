//! TLS, with the library that the features select.

#[cfg(any(target_os = "linux", target_os = "android"))]
use std::io;

use fred::types::config::Config;
#[cfg(any(target_os = "linux", target_os = "android"))]
use fred::types::config::Server;
#[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
use fred::types::config::TlsConnector;
use redlock_core::Error;
use redlock_wire::{Endpoint, Options};
#[cfg(any(target_os = "linux", target_os = "android"))]
use tokio::net::TcpStream;

#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::socket::Stream;

/// Enables TLS with the certificates of `options`.
#[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
pub(crate) fn secured(mut config: Config, endpoint: &Endpoint, options: &Options) -> Result<Config, Error> {
    let connector = connector(options)
        .map_err(|reason| Error::invalid(format!("{endpoint}: TLS unavailable: {reason}")))?;
    config.tls = Some(connector.into());
    Ok(config)
}

/// Returns an error that names the missing feature.
#[cfg(not(any(feature = "tls-rustls", feature = "tls-native-tls")))]
pub(crate) fn secured(_config: Config, endpoint: &Endpoint, _: &Options) -> Result<Config, Error> {
    let missing = "rediss:// needs the feature `tls-rustls` or `tls-native-tls` of redlock-fred";
    Err(Error::invalid(format!("{endpoint}: {missing}")))
}

/// Returns the same configuration without TLS.
#[cfg(any(target_os = "linux", target_os = "android"))]
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

/// Sets up TLS over a socket if `config` requires it, in the same way as fred.
#[cfg(any(target_os = "linux", target_os = "android"))]
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

/// Creates a connector without fred's default.
///
/// That default panics if another crate of the application has enabled a second cryptography provider of rustls. It
/// also fails because of a single unreadable certificate.
#[cfg(feature = "tls-rustls")]
fn connector(options: &Options) -> Result<TlsConnector, String> {
    Ok(redlock_wire::tls::rustls_config(options)?.into())
}

#[cfg(all(feature = "tls-native-tls", not(feature = "tls-rustls")))]
fn connector(options: &Options) -> Result<TlsConnector, String> {
    Ok(redlock_wire::tls::native_tls_connector(options)?.into())
}
