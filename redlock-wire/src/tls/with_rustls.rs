//! TLS by rustls.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::certificates::Identity;
use crate::options::Options;
use crate::tls::NO_ROOTS;

/// Creates the configuration of rustls with the certificates of `options`.
///
/// It uses the default cryptography provider of the process, and ring if there is none. It sets nothing for the process.
///
/// # Errors
///
/// - A certificate or the key is unusable, or there is no root certificate. The message contains no key.
pub fn rustls_config(options: &Options) -> Result<ClientConfig, String> {
    let roots = match &options.certificates.roots {
        Some(pem) => chosen(pem)?,
        None => of_the_system(),
    };
    if roots.is_empty() {
        return Err(NO_ROOTS.into());
    }
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots);
    let Some(Identity { certificate, key }) = &options.certificates.identity else {
        return Ok(config.with_no_client_auth());
    };
    let key = PrivateKeyDer::from_pem_slice(key);
    let key = key.map_err(|_| "the client key is not valid PEM")?; // without its content
    config.with_client_auth_cert(parsed(certificate)?, key).map_err(|error| error.to_string())
}

fn chosen(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for root in parsed(pem)? {
        roots.add(root).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// Returns the root certificates of the system. Unreadable certificates are skipped, so that a single broken one does
/// not disable the others.
fn of_the_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn parsed(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    certificates.map_err(|error| format!("the certificates are not valid PEM: {error}"))
}
