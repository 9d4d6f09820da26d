//! TLS, by the library that the features choose. The server's certificate is checked against the system's roots.

use fred::types::config::Config;
#[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
use fred::types::config::TlsConnector;
use redlock_core::Error;
use redlock_wire::Endpoint;

/// Turns TLS on.
#[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
pub(crate) fn secured(mut config: Config, endpoint: &Endpoint) -> Result<Config, Error> {
    let connector = connector().map_err(|reason| Error::invalid(format!("{endpoint}: no TLS: {reason}")))?;
    config.tls = Some(connector.into());
    Ok(config)
}

/// Says what is missing.
#[cfg(not(any(feature = "tls-rustls", feature = "tls-native-tls")))]
pub(crate) fn secured(_config: Config, endpoint: &Endpoint) -> Result<Config, Error> {
    let missing = "rediss:// needs the feature `tls-rustls` or `tls-native-tls` of redlock-fred";
    Err(Error::invalid(format!("{endpoint}: {missing}")))
}

/// Not fred's default: that panics where another crate of the application has switched on a second cryptography
/// provider of rustls, and gives up over a single unreadable certificate.
#[cfg(feature = "tls-rustls")]
fn connector() -> Result<TlsConnector, String> {
    use std::sync::Arc;

    use rustls::crypto::{CryptoProvider, ring};
    use rustls::{ClientConfig, RootCertStore};

    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if usable == 0 {
        return Err("the system has no readable root certificate".into());
    }
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth().into())
}

#[cfg(all(feature = "tls-native-tls", not(feature = "tls-rustls")))]
fn connector() -> Result<TlsConnector, String> {
    TlsConnector::default_native_tls().map_err(|error| error.details().to_owned())
}
