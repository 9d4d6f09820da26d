//! TLS, with the library that the features select.

use std::io;

use redlock_core::Error;
use redlock_wire::{Endpoint, Options};

use crate::socket::Stream;

/// The TLS settings for one server.
#[derive(Clone)]
pub(crate) struct Tls(Connector);

#[cfg(feature = "tls-rustls")]
type Connector = tokio_rustls::TlsConnector;
#[cfg(all(feature = "tls-native-tls", not(feature = "tls-rustls")))]
type Connector = tokio_native_tls::TlsConnector;
#[cfg(not(any(feature = "tls-rustls", feature = "tls-native-tls")))]
type Connector = std::convert::Infallible;

#[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
impl Tls {
    /// Creates the settings with the certificates of `options`.
    pub(crate) fn new(endpoint: &Endpoint, options: &Options) -> Result<Self, Error> {
        let connector = connector(options);
        let invalid = |reason| Error::invalid(format!("{endpoint}: TLS unavailable: {reason}"));
        connector.map(Self).map_err(invalid)
    }
}

#[cfg(not(any(feature = "tls-rustls", feature = "tls-native-tls")))]
impl Tls {
    /// Returns an error that names the missing feature.
    pub(crate) fn new(endpoint: &Endpoint, _: &Options) -> Result<Self, Error> {
        let missing = "rediss:// needs the feature `tls-rustls` or `tls-native-tls` of redlock-redis-rs";
        Err(Error::invalid(format!("{endpoint}: {missing}")))
    }
}

impl Tls {
    /// Sets up TLS over a socket and checks that the certificate is that of `host`.
    #[cfg(feature = "tls-rustls")]
    pub(crate) async fn secure(&self, host: &str, socket: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        use tokio_rustls::rustls::pki_types::ServerName;

        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(self.0.connect(name, socket).await?))
    }

    /// Sets up TLS over a socket and checks that the certificate is that of `host`.
    #[cfg(all(feature = "tls-native-tls", not(feature = "tls-rustls")))]
    pub(crate) async fn secure(&self, host: &str, socket: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.0.connect(host, socket).await.map_err(io::Error::other)?))
    }

    /// Never called: there is no TLS.
    #[cfg(not(any(feature = "tls-rustls", feature = "tls-native-tls")))]
    #[allow(clippy::unused_async)] // same signature as the others
    pub(crate) async fn secure(&self, _: &str, _: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        match self.0 {}
    }
}

#[cfg(feature = "tls-rustls")]
fn connector(options: &Options) -> Result<Connector, String> {
    Ok(std::sync::Arc::new(redlock_wire::tls::rustls_config(options)?).into())
}

#[cfg(all(feature = "tls-native-tls", not(feature = "tls-rustls")))]
fn connector(options: &Options) -> Result<Connector, String> {
    Ok(redlock_wire::tls::native_tls_connector(options)?.into())
}
