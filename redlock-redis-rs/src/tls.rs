//! TLS, with the library that the features select. Without certificates of the application, the server's certificate is
//! checked against the root certificates of the system.

use std::io;

use redlock_core::Error;
use redlock_wire::Endpoint;

use crate::socket::Stream;

#[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
use redis::TlsCertificates;

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
    /// Uses the root certificates of the system.
    pub(crate) fn of_the_system(endpoint: &Endpoint) -> Result<Self, Error> {
        Self::with(&TlsCertificates { client_tls: None, root_cert: None }, endpoint)
    }

    /// Uses these certificates; the root certificates of the system if they have none.
    pub(crate) fn with(certificates: &TlsCertificates, endpoint: &Endpoint) -> Result<Self, Error> {
        let connector = connector(certificates);
        Ok(Self(
            connector.map_err(|reason| Error::invalid(format!("{endpoint}: TLS unavailable: {reason}")))?,
        ))
    }
}

#[cfg(not(any(feature = "tls-rustls", feature = "tls-native-tls")))]
impl Tls {
    /// Returns an error that names the missing feature.
    pub(crate) fn of_the_system(endpoint: &Endpoint) -> Result<Self, Error> {
        let missing = "rediss:// needs the feature `tls-rustls` or `tls-native-tls` of redlock-redis-rs";
        Err(Error::invalid(format!("{endpoint}: {missing}")))
    }
}

impl Tls {
    /// Sets up TLS over a socket and checks that the certificate is that of `host`.
    #[cfg(feature = "tls-rustls")]
    pub(crate) async fn secure(&self, host: &str, socket: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        let name = rustls::pki_types::ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
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

/// Creates the connector with the default cryptography provider of the process.
///
/// Without one it uses ring. It sets nothing for the process.
#[cfg(feature = "tls-rustls")]
fn connector(certificates: &TlsCertificates) -> Result<Connector, String> {
    use std::sync::Arc;

    use rustls::crypto::{CryptoProvider, ring};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ClientConfig, RootCertStore};

    let in_pem = |pem: &[u8]| {
        let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        certificates.map_err(|error| format!("the certificates are not valid PEM: {error}"))
    };
    let mut roots = RootCertStore::empty();
    match &certificates.root_cert {
        Some(pem) => {
            for root in in_pem(pem)? {
                roots.add(root).map_err(|error| error.to_string())?;
            }
        }
        // Unreadable certificates are skipped: a single broken one is no reason to trust none.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    if roots.is_empty() {
        return Err("no readable root certificate".into());
    }
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots);
    let config = match &certificates.client_tls {
        Some(client) => {
            let key = PrivateKeyDer::from_pem_slice(&client.client_key);
            let key = key.map_err(|_| "the client key is not valid PEM")?; // without its content
            let chain = in_pem(&client.client_cert)?;
            config.with_client_auth_cert(chain, key).map_err(|error| error.to_string())?
        }
        None => config.with_no_client_auth(),
    };
    Ok(Arc::new(config).into())
}

#[cfg(all(feature = "tls-native-tls", not(feature = "tls-rustls")))]
fn connector(certificates: &TlsCertificates) -> Result<Connector, String> {
    use tokio_native_tls::native_tls::{Certificate, Identity, TlsConnector};

    const END: &str = "-----END CERTIFICATE-----";
    let mut builder = TlsConnector::builder();
    if let Some(pem) = &certificates.root_cert {
        // The library reads one certificate at a time.
        let pem = std::str::from_utf8(pem).map_err(|error| error.to_string())?;
        let roots: Vec<_> = pem.split_inclusive(END).filter(|block| block.contains(END)).collect();
        if roots.is_empty() {
            return Err("no readable root certificate".into());
        }
        builder.disable_built_in_roots(true);
        for root in roots {
            let root = Certificate::from_pem(root.trim_start().as_bytes());
            builder.add_root_certificate(root.map_err(|error| error.to_string())?);
        }
    }
    if let Some(client) = &certificates.client_tls {
        let identity = Identity::from_pkcs8(&client.client_cert, &client.client_key);
        builder.identity(identity.map_err(|_| "the client certificate and key are not valid PEM")?);
    }
    Ok(builder.build().map_err(|error| error.to_string())?.into())
}
