//! The certificates of TLS connections, for the TLS libraries of the adapters.

#[cfg(feature = "tls-native-tls")]
mod native;
#[cfg(feature = "tls-rustls")]
mod with_rustls;

use std::future::Future;
use std::io;

use redlock_core::Error;

use crate::address::Endpoint;
use crate::certificates::Certificates;
use crate::options::Options;
use crate::push::Hub;

#[cfg(feature = "tls-native-tls")]
pub use self::native::native_tls_connector;
#[cfg(feature = "tls-rustls")]
pub use self::with_rustls::rustls_config;

/// The message if no certificate authority is known.
#[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
const NO_ROOTS: &str = "no root certificate: install those of the system, or pass the content of a PEM file";

/// Checks that certificates are set only for connections with TLS.
///
/// Without TLS they would have no effect, and the application would rely on an encryption that does not exist.
///
/// # Errors
///
/// - [`InvalidInput`](redlock_core::ErrorKind::InvalidInput): `options` contain certificates, but the endpoint does not
///   use TLS.
pub fn check_certificates(endpoint: &Endpoint, options: &Options) -> Result<(), Error> {
    if endpoint.has_tls() || !has_certificates(options) {
        return Ok(());
    }
    let scheme = match endpoint {
        Endpoint::Tcp { .. } | Endpoint::Unix { .. } => "rediss",
        Endpoint::Cluster { .. } => "rediss+cluster",
        Endpoint::Sentinels { .. } => "rediss+sentinel",
    };
    Err(Error::invalid(format!("invalid address {endpoint}: certificates require {scheme}://")))
}

/// Returns whether `options` contain a root certificate or a client certificate.
pub fn has_certificates(options: &Options) -> bool {
    *options.certificates != Certificates::default()
}

/// Performs the TLS handshake of a connection attempt.
///
/// A server without TLS often replies nothing, because it waits for the end of a line. If the attempt then reaches its
/// time limit, its message names the handshake.
///
/// # Errors
///
/// - The error of the handshake, with the reason if the server does not speak TLS.
///
/// # Cancel safety
///
/// If this future is dropped, the handshake is dropped as well.
pub async fn handshake<T>(hub: &Hub, handshake: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    hub.secures(true);
    let outcome = handshake.await;
    hub.secures(false);
    outcome.map_err(explained)
}

/// The words with which TLS libraries report bytes that are not TLS.
const NOT_TLS: [&str; 4] = [
    "corrupt message of type InvalidContentType",
    "wrong version number",
    "packet length too long",
    "http request",
];

/// The words with which TLS libraries report that the server closed the connection.
const CLOSED: [&str; 3] = ["handshake eof", "unexpected eof", "unexpected EOF"];

fn explained(error: io::Error) -> io::Error {
    let text = error.to_string();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let is_closed =
        has(&CLOSED) || matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe);
    let reason = match () {
        () if has(&NOT_TLS) => "the server does not speak TLS",
        () if is_closed => "the server closed the connection; does it speak TLS on this port?",
        () => return error,
    };
    io::Error::new(error.kind(), format!("TLS handshake failed: {reason} ({text})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: io::ErrorKind, text: &str) -> String {
        explained(io::Error::new(kind, text)).to_string()
    }

    #[test]
    fn a_server_without_tls_is_the_reason_of_a_failed_handshake() {
        for (kind, text) in [
            (io::ErrorKind::InvalidData, "received corrupt message of type InvalidContentType"),
            (io::ErrorKind::Other, "error:0A00010B:SSL routines:ssl3_get_record:wrong version number"),
        ] {
            let expected = format!("TLS handshake failed: the server does not speak TLS ({text})");
            assert_eq!(expected, message(kind, text));
        }
        for (kind, text) in [
            (io::ErrorKind::UnexpectedEof, "tls handshake eof"),
            (io::ErrorKind::ConnectionReset, "Connection reset by peer (os error 104)"),
        ] {
            let message = message(kind, text);
            assert!(message.contains("closed the connection; does it speak TLS on this port?"), "{message}");
            assert!(message.ends_with(&format!("({text})")), "{message}");
        }
        let certificate = "invalid peer certificate: UnknownIssuer";
        assert_eq!(certificate, message(io::ErrorKind::InvalidData, certificate), "the server speaks TLS");
    }
}
