//! TLS, with the library that the features select.

use fred::types::config::Config;
#[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
use fred::types::config::TlsConnector;
use redlock_core::Error;
use redlock_wire::{Endpoint, Options};

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
