//! TLS by the library of the platform.

use native_tls::{Certificate, Identity as Native, TlsConnector};

use crate::certificates::Identity;
use crate::options::Options;
use crate::tls::NO_ROOTS;

const END: &str = "-----END CERTIFICATE-----";

/// Creates a connector of native-tls with the certificates of `options`.
///
/// # Errors
///
/// - A certificate or the key is unusable. The message contains no key.
pub fn native_tls_connector(options: &Options) -> Result<TlsConnector, String> {
    let mut builder = TlsConnector::builder();
    if let Some(pem) = &options.certificates.roots {
        builder.disable_built_in_roots(true);
        for root in parsed(pem)? {
            builder.add_root_certificate(root);
        }
    }
    if let Some(Identity { certificate, key }) = &options.certificates.identity {
        let identity = Native::from_pkcs8(certificate, key);
        builder.identity(identity.map_err(|_| "the client certificate and key are not valid PEM")?);
    }
    builder.build().map_err(|error| error.to_string())
}

/// Parses certificates one at a time, as the library requires.
fn parsed(pem: &[u8]) -> Result<Vec<Certificate>, String> {
    let pem = std::str::from_utf8(pem).map_err(|error| error.to_string())?;
    let blocks = pem.split_inclusive(END).filter(|block| block.contains(END));
    let roots = blocks.map(|block| Certificate::from_pem(block.trim_start().as_bytes()));
    let roots = roots.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    if roots.is_empty() { Err(NO_ROOTS.into()) } else { Ok(roots) }
}
