//! TLS by rustls.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::certificates::Identity;
use crate::options::Options;
use crate::tls::NO_ROOTS;

/// The message if rustls has no cryptography.
const NO_PROVIDER: &str = "rustls has no cryptography provider: enable the feature `ring` or `aws-lc-rs`";

/// Creates the configuration of rustls with the certificates of `options`.
///
/// It uses the default cryptography provider of the process. If there is none, it uses aws-lc-rs or ring, depending on the
/// feature; with both, it uses aws-lc-rs. It sets nothing for the process.
///
/// # Errors
///
/// - There is no cryptography provider: neither one of the process, nor one of the features.
/// - A certificate or the key is unusable, or there is no root certificate. The message contains no key.
pub fn rustls_config(options: &Options) -> Result<ClientConfig, String> {
    let roots = match &options.certificates.roots {
        Some(pem) => chosen(pem)?,
        None => of_the_system(),
    };
    if roots.is_empty() {
        return Err(NO_ROOTS.into());
    }
    let provider = CryptoProvider::get_default().cloned().or_else(of_the_features).ok_or(NO_PROVIDER)?;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots);
    let Some(Identity { certificate, key }) = &options.certificates.identity else {
        return Ok(config.with_no_client_auth());
    };
    let key = PrivateKeyDer::from_pem_slice(key);
    let key = key.map_err(|_| "the client key is not valid PEM")?; // without its content
    config.with_client_auth_cert(parsed(certificate)?, key).map_err(|error| error.to_string())
}

#[cfg(feature = "aws-lc-rs")]
#[allow(clippy::unnecessary_wraps)] // there is none without these features
fn of_the_features() -> Option<Arc<CryptoProvider>> {
    Some(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
}

#[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
#[allow(clippy::unnecessary_wraps)] // there is none without these features
fn of_the_features() -> Option<Arc<CryptoProvider>> {
    Some(Arc::new(rustls::crypto::ring::default_provider()))
}

#[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
fn of_the_features() -> Option<Arc<CryptoProvider>> {
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cryptography_is_that_of_the_feature() {
        let random = of_the_features().map(|provider| format!("{:?}", provider.secure_random));
        let expected = match () {
            () if cfg!(feature = "aws-lc-rs") => Some("AwsLcRs"),
            () if cfg!(feature = "ring") => Some("Ring"),
            () => None,
        };
        assert_eq!(expected, random.as_deref());
    }
}
