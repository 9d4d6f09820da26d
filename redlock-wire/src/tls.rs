//! The certificates of TLS connections, for the TLS libraries of the adapters.

#[cfg(feature = "tls-native-tls")]
mod native;
#[cfg(feature = "tls-rustls")]
mod with_rustls;

use std::fmt;

use redlock_core::Error;

use crate::address::Endpoint;
use crate::options::Options;

#[cfg(feature = "tls-native-tls")]
pub use self::native::native_tls_connector;
#[cfg(feature = "tls-rustls")]
pub use self::with_rustls::rustls_config;

/// The message if no certificate authority is known.
#[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
const NO_ROOTS: &str = "no root certificate: install those of the system, or pass the content of a PEM file";

/// Certificates in PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Certificates {
    /// The trusted root certificates; `None` for those of the system.
    pub(crate) roots: Option<Vec<u8>>,
    pub(crate) identity: Option<Identity>,
}

/// The certificate of the client with its key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// Shows which certificates are set, and no content.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("roots", &self.roots.is_some())
            .field("identity", &self.identity.is_some())
            .finish()
    }
}

/// Checks that certificates are set only for connections with TLS.
///
/// Without TLS they would have no effect, and the application would rely on an encryption that does not exist.
///
/// # Errors
///
/// - [`InvalidInput`](redlock_core::ErrorKind::InvalidInput): `options` contain certificates, but the endpoint does not
///   use TLS.
pub fn check_certificates(endpoint: &Endpoint, options: &Options) -> Result<(), Error> {
    let is_tls = matches!(endpoint, Endpoint::Tcp { tls: true, .. });
    if is_tls || !has_certificates(options) {
        return Ok(());
    }
    Err(Error::invalid(format!("invalid address {endpoint}: certificates require rediss://")))
}

/// Returns whether `options` contain a root certificate or a client certificate.
pub fn has_certificates(options: &Options) -> bool {
    *options.certificates != Certificates::default()
}
