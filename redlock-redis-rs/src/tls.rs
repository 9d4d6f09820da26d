//! TLS, by the library that the features choose. The server's certificate is checked against the system's roots.

use redis::ConnectionInfo;
use redlock_core::Error;
use redlock_wire::Endpoint;

/// Makes a configuration that asks for TLS ready for it.
///
/// The client itself would read the system's roots at every connect, give up over a single unreadable one, and trust nothing
/// where both TLS features are on.
#[cfg(feature = "tls-rustls")]
pub(crate) fn secured(info: ConnectionInfo, endpoint: &Endpoint) -> Result<ConnectionInfo, Error> {
    use redis::{Client, ConnectionAddr, TlsCertificates};

    let ConnectionAddr::TcpTls { tls_params: None, insecure: false, .. } = info.addr() else {
        return Ok(info); // with roots of its own, or without a check
    };
    let invalid = |reason: String| Error::invalid(format!("{endpoint}: no TLS: {reason}"));
    let root_cert = Some(roots().map_err(invalid)?);
    let client = Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert });
    Ok(client.map_err(|error| invalid(error.to_string()))?.get_connection_info().clone())
}

/// Makes sure that rustls has a cryptography provider, right before the client connects over TLS.
///
/// The client takes the provider of the process and no other: without one it installs the only one that rustls was compiled
/// with, and panics where there are two. So this installs ring, if the application has installed none by now.
#[cfg(feature = "tls-rustls")]
pub(crate) fn provide(info: &ConnectionInfo) {
    use rustls::crypto::{CryptoProvider, ring};

    let secure = matches!(info.addr(), redis::ConnectionAddr::TcpTls { .. });
    if secure && CryptoProvider::get_default().is_none() {
        // Someone else may be quicker: then theirs it is.
        let _ = ring::default_provider().install_default();
    }
}

/// The client has the system's roots from its TLS library.
#[cfg(all(feature = "tls-native-tls", not(feature = "tls-rustls")))]
#[allow(clippy::unnecessary_wraps)] // the other two can fail
pub(crate) fn secured(info: ConnectionInfo, _endpoint: &Endpoint) -> Result<ConnectionInfo, Error> {
    Ok(info)
}

/// Says what is missing.
#[cfg(not(any(feature = "tls-rustls", feature = "tls-native-tls")))]
pub(crate) fn secured(_info: ConnectionInfo, endpoint: &Endpoint) -> Result<ConnectionInfo, Error> {
    let missing = "rediss:// needs the feature `tls-rustls` or `tls-native-tls` of redlock-redis-rs";
    Err(Error::invalid(format!("{endpoint}: {missing}")))
}

/// The system's root certificates that rustls can read, as the client takes them.
#[cfg(feature = "tls-rustls")]
fn roots() -> Result<Vec<u8>, String> {
    let mut readable = rustls::RootCertStore::empty();
    let mut pem = String::new();
    for certificate in rustls_native_certs::load_native_certs().certs {
        if readable.add(certificate.clone()).is_ok() {
            pem.push_str("-----BEGIN CERTIFICATE-----\n");
            pem.push_str(&base64(&certificate));
            pem.push_str("\n-----END CERTIFICATE-----\n");
        }
    }
    if pem.is_empty() {
        return Err("the system has no readable root certificate".into());
    }
    Ok(pem.into_bytes())
}

#[cfg(feature = "tls-rustls")]
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (digit, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let letter = char::from(DIGITS[(bits >> shift & 63) as usize]);
            text.push(if digit <= chunk.len() { letter } else { '=' });
        }
    }
    text
}

#[cfg(all(test, feature = "tls-rustls"))]
mod tests {
    use super::base64;

    #[test]
    fn base64_as_in_its_rfc() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("\u{ff}", "w78="),
        ] {
            assert_eq!(encoded, base64(plain.as_bytes()));
        }
    }
}
